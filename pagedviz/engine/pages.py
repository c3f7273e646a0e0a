"""KvPagePool: the physical pages and their K/V storage; no policy.

    keys, values   [num_layers, num_pages, block_size, num_heads, head_dim]   float32

Invariants: a page is in the free queue exactly when its ref_count is 0; its generation counts how
often it has been allocated; its fill is the number of its leading slots that hold a token's K/V
(0 throughout in an engine without a model).
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from pagedviz.engine.config import MAX_BLOCK_SIZE, MAX_PAGES, check_int
from pagedviz.engine.errors import (
    ConfigError,
    DoubleFree,
    KvShapeMismatch,
    OutOfPages,
    PageOutOfBounds,
    SlotOutOfRange,
)
from pagedviz.engine.ids import PageId

# Storage above this is refused; the bundled model needs a few megabytes.
MAX_STORAGE_BYTES = 8 << 30


@dataclass(frozen=True, slots=True)
class KvPageConfig:
    """Shape of a page. `num_heads` counts KV heads, which grouped-query attention has fewer of."""

    block_size: int = 16
    num_heads: int = 8
    head_dim: int = 64
    dtype_bytes: int = 4
    num_layers: int = 1

    def __post_init__(self) -> None:
        check_int("block_size", self.block_size, 1, MAX_BLOCK_SIZE)
        for name in ("num_heads", "head_dim", "dtype_bytes", "num_layers"):
            check_int(name, getattr(self, name), 1, 1 << 20)

    @property
    def page_bytes(self) -> int:
        """Bytes of one page: keys and values of all layers."""
        return (
            2 * self.num_layers * self.block_size * self.num_heads * self.head_dim
        ) * self.dtype_bytes


class KvPagePool:
    """All pages, free at first, in the order 0, 1, 2, ..."""

    def __init__(self, num_pages: int, config: KvPageConfig) -> None:
        check_int("num_pages", num_pages, 1, MAX_PAGES)
        self.config = config
        self.page_ids = [PageId(i) for i in range(num_pages)]
        # A doubly linked list in C: the head is taken next, a hit leaves the middle in O(1).
        self.queue: OrderedDict[PageId, None] = OrderedDict.fromkeys(self.page_ids)
        self.ref_counts = [0] * num_pages
        self.generations = [0] * num_pages
        self.fills = [0] * num_pages
        # Set by the block manager: whether a prefix lookup can still find a page.
        self.is_findable: Callable[[PageId], bool] = _nothing_is_findable

    @property
    def total_count(self) -> int:
        return len(self.page_ids)

    @property
    def free_count(self) -> int:
        """Pages without an owner, cached ones included."""
        return len(self.queue)

    @property
    def queue_head(self) -> PageId | None:
        """The page that is taken next."""
        return next(iter(self.queue), None)

    @property
    def memory_bytes(self) -> int:
        """pages * 2 * layers * block_size * heads * head_dim * dtype_bytes."""
        return self.total_count * self.config.page_bytes

    @cached_property
    def keys(self) -> NDArray[np.float32]:
        """[num_layers, num_pages, block_size, num_heads, head_dim], made on first use, so that an
        engine without a model costs no storage."""
        return self._make_storage()

    @cached_property
    def values(self) -> NDArray[np.float32]:
        """[num_layers, num_pages, block_size, num_heads, head_dim]."""
        return self._make_storage()

    def _make_storage(self) -> NDArray[np.float32]:
        c = self.config
        shape = (c.num_layers, self.total_count, c.block_size, c.num_heads, c.head_dim)
        num_bytes = self.total_count * c.page_bytes // 2 // c.dtype_bytes * 4
        if num_bytes * 2 > MAX_STORAGE_BYTES:
            raise ConfigError(
                f"K/V storage of {num_bytes * 2:,} bytes is more than the "
                f"{MAX_STORAGE_BYTES:,} allowed; use fewer or smaller pages"
            )
        return np.zeros(shape, dtype=np.float32)

    def check_page(self, page_id: int) -> PageId:
        """The pool's own id object for a number. PageOutOfBounds if there is no such page."""
        if not 0 <= page_id < self.total_count:
            raise PageOutOfBounds(page_id, self.total_count)
        return self.page_ids[page_id]

    def alloc_page(self) -> PageId:
        """Take the head of the free queue: ref_count 1, next generation, empty. OutOfPages."""
        try:
            page_id, _ = self.queue.popitem(last=False)
        except KeyError:
            raise OutOfPages(1, 0) from None
        self.ref_counts[page_id] = 1
        self.generations[page_id] += 1
        self._empty(page_id)
        return page_id

    @property
    def has_storage(self) -> bool:
        """Whether anything was ever stored; an engine without a model only keeps books."""
        return "keys" in self.__dict__

    def copy_page(self, source_id: PageId, page_id: PageId, num_slots: int) -> None:
        """Copy the K/V of a page's first slots; `page_id` then holds just these."""
        self.fills[page_id] = min(self.fills[source_id], num_slots)
        if self.has_storage:
            for storage in (self.keys, self.values):
                storage[:, page_id, :num_slots] = storage[:, source_id, :num_slots]

    def release_page(self, page_id: int) -> int:
        """One owner fewer; returns the ref_count. At 0 the caller queues the page. DoubleFree."""
        page_id = self.check_page(page_id)
        if self.ref_counts[page_id] == 0:
            raise DoubleFree(page_id)
        self.ref_counts[page_id] -= 1
        return self.ref_counts[page_id]

    def free_page(self, page_id: int) -> None:
        """Release a page; at 0 it joins the queue: in front, or at the back if it is findable.

        Raises DoubleFree, PageOutOfBounds.
        """
        page_id = self.check_page(page_id)
        if self.release_page(page_id) == 0:
            if self.is_findable(page_id):
                self.put_at_back(page_id)
            else:
                self.put_in_front([page_id])

    def put_in_front(self, page_ids: Sequence[PageId]) -> None:
        """Unowned pages whose content is worthless join the queue's front, in this order."""
        for page_id in reversed(page_ids):
            self._empty(page_id)
            self.queue[page_id] = None
            self.queue.move_to_end(page_id, last=False)

    def put_at_back(self, page_id: PageId) -> None:
        """An unowned page joins the queue's end; one that nobody can find counts as empty."""
        if not self.is_findable(page_id):
            self._empty(page_id)
        self.queue[page_id] = None

    def _empty(self, page_id: PageId) -> None:
        """What a page holds is worthless from now on."""
        self.fills[page_id] = 0

    def mark_filled(self, page_ids: Sequence[PageId], num_tokens: int) -> None:
        """The K/V of a sequence's first `num_tokens` tokens have been stored in these pages."""
        size = self.config.block_size
        for index in range(-(-num_tokens // size)):
            page_id = page_ids[index]
            # A shared page may hold more than this sequence has got to.
            self.fills[page_id] = max(self.fills[page_id], min(num_tokens - index * size, size))

    def get_page(self, page_id: int) -> KvPage:
        """A view of a page. PageOutOfBounds."""
        return KvPage(self, self.check_page(page_id))

    @property
    def lru_candidates(self) -> list[PageId]:
        """Cached pages (findable, without an owner), next to be evicted first."""
        return [page_id for page_id in self.queue if self.is_findable(page_id)]


class PoisonedPool(KvPagePool):
    """A pool in which worthless slots hold NaN: whoever reads one gets NaN for an answer."""

    def _make_storage(self) -> NDArray[np.float32]:
        storage = super()._make_storage()
        storage.fill(np.nan)
        return storage

    def _empty(self, page_id: PageId) -> None:
        super()._empty(page_id)
        if self.has_storage:
            self.keys[:, page_id] = np.nan
            self.values[:, page_id] = np.nan


def _nothing_is_findable(page_id: PageId) -> bool:
    return False


class KvPage:
    """One page of a pool: a view, it owns nothing."""

    __slots__ = ("_pool", "page_id")

    def __init__(self, pool: KvPagePool, page_id: PageId) -> None:
        self._pool = pool
        self.page_id = page_id

    def __len__(self) -> int:
        """Slots that hold a token."""
        return self._pool.fills[self.page_id]

    @property
    def capacity(self) -> int:
        return self._pool.config.block_size

    @property
    def is_full(self) -> bool:
        return len(self) == self.capacity

    @property
    def is_empty(self) -> bool:
        return len(self) == 0

    def check_kv(self, key: NDArray[np.floating], value: NDArray[np.floating], layer: int) -> None:
        """KvShapeMismatch unless both are [num_heads, head_dim]; SlotOutOfRange for the layer."""
        config = self._pool.config
        expected = (config.num_heads, config.head_dim)
        for name, array in (("key", key), ("value", value)):
            if array.shape != expected:
                raise KvShapeMismatch(name, array.shape, expected)
        if not 0 <= layer < config.num_layers:
            raise SlotOutOfRange(f"layer {layer} does not exist: pages have {config.num_layers}")

    def write_kv(
        self,
        slot: int,
        key: NDArray[np.floating],
        value: NDArray[np.floating],
        layer: int = 0,
    ) -> None:
        """Store one token's key and value, each [num_heads, head_dim].

        Slots fill from 0 up, so `slot` is at most `len(self)`. Raises KvShapeMismatch,
        SlotOutOfRange.
        """
        self.check_kv(key, value, layer)
        if not 0 <= slot < self.capacity:
            raise SlotOutOfRange(f"slot {slot} of {self.page_id}: it has {self.capacity} slots")
        if slot > len(self):
            raise SlotOutOfRange(
                f"slot {slot} of {self.page_id} would leave a hole: "
                f"slots below {len(self)} are filled"
            )
        self._pool.keys[layer, self.page_id, slot] = key
        self._pool.values[layer, self.page_id, slot] = value
        self._pool.fills[self.page_id] = max(len(self), slot + 1)

    def read_kv(self, slot: int, layer: int = 0) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        """Key and value of a filled slot, each [num_heads, head_dim]. SlotOutOfRange."""
        config = self._pool.config
        if not (0 <= slot < len(self) and 0 <= layer < config.num_layers):
            raise SlotOutOfRange(
                f"slot {slot}, layer {layer} of {self.page_id}: {len(self)} of {self.capacity} "
                f"slots are filled, in {config.num_layers} layers"
            )
        return self._pool.keys[layer, self.page_id, slot], self._pool.values[
            layer, self.page_id, slot
        ]
