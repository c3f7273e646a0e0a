"""HostPool: pages outside the pool, where swapped-out sequences keep their K/V.

Invariants: a host page belongs to one sequence or to none; the lowest free one is taken first; the
storage is made on first use, so that a run without a model costs none.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from heapq import heapify, heappop, heappush

import numpy as np
from numpy.typing import NDArray

from pagedviz.engine.pages import KvPagePool


class HostPool:
    def __init__(self, num_pages: int, pool: KvPagePool) -> None:
        self.num_pages = num_pages
        self._pool = pool
        self._free = list(range(num_pages))
        heapify(self._free)

    @property
    def free_count(self) -> int:
        return len(self._free)

    @property
    def free_ids(self) -> list[int]:
        """In no order; a copy."""
        return self._free[:]

    @property
    def memory_bytes(self) -> int:
        """num_pages * bytes of a page of the pool."""
        return self.num_pages * self._pool.config.page_bytes

    @cached_property
    def _storage(self) -> NDArray[np.float32]:
        """[2 (keys, values), num_layers, num_pages, block_size, num_heads, head_dim]."""
        layers, _, *slot = self._pool.keys.shape
        return np.zeros((2, layers, self.num_pages, *slot), dtype=np.float32)

    def copy_out(self, page_ids: Sequence[int]) -> list[int] | None:
        """Copy pages of the pool to host pages; None, and nothing is copied, if they do not fit."""
        if len(page_ids) > len(self._free):
            return None
        taken = [heappop(self._free) for _ in page_ids]
        if self._pool.has_storage:
            for page_id, host_id in zip(page_ids, taken, strict=True):
                self._storage[0, :, host_id] = self._pool.keys[:, page_id]
                self._storage[1, :, host_id] = self._pool.values[:, page_id]
        return taken

    def copy_in(self, host_ids: Sequence[int], page_ids: Sequence[int]) -> None:
        """Copy host pages back into pages of the pool; they stay taken."""
        if self._pool.has_storage:
            for host_id, page_id in zip(host_ids, page_ids, strict=True):
                self._pool.keys[:, page_id] = self._storage[0, :, host_id]
                self._pool.values[:, page_id] = self._storage[1, :, host_id]

    def release(self, host_ids: Sequence[int]) -> None:
        for host_id in host_ids:
            heappush(self._free, host_id)
