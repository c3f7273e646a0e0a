"""PageTable: which physical page holds which part of a sequence.

    logical   0      1      2            token 21 with block_size 8:
    physical  p4.1   p5.1   p11.3        logical 2, offset 5 -> (p11, 5)

Invariants: append-only until release; one object per sequence, owned by the block manager;
every entry keeps the page's generation from when it was given.
"""

from __future__ import annotations

from collections.abc import Iterator

from pagedviz.engine.errors import SlotOutOfRange
from pagedviz.engine.ids import PageId


class PageTable:
    __slots__ = ("block_size", "generations", "page_ids", "quiet_until")

    def __init__(self, block_size: int) -> None:
        self.block_size = block_size
        self.page_ids: list[PageId] = []
        self.generations: list[int] = []
        # Up to how many tokens the block manager has nothing to do: no page to take, none to hash.
        self.quiet_until = 0

    def __len__(self) -> int:
        return len(self.page_ids)

    def __iter__(self) -> Iterator[PageId]:
        return iter(self.page_ids)

    def __getitem__(self, logical_index: int) -> PageId:
        return self.page_ids[logical_index]

    @property
    def capacity(self) -> int:
        """Tokens that fit in the pages held."""
        return len(self.page_ids) * self.block_size

    def append(self, page_id: PageId, generation: int) -> None:
        self.page_ids.append(page_id)
        self.generations.append(generation)

    def clear(self) -> None:
        self.page_ids.clear()
        self.generations.clear()
        self.quiet_until = 0

    def resolve(self, position: int) -> tuple[PageId, int]:
        """(page_id, offset) of a token position. SlotOutOfRange beyond the pages held."""
        if not 0 <= position < self.capacity:
            raise SlotOutOfRange(
                f"token {position} has no slot: {len(self)} pages of {self.block_size} slots "
                f"hold positions 0 to {self.capacity - 1}"
                if self.page_ids
                else f"token {position} has no slot: the page table is empty"
            )
        logical_index, offset = divmod(position, self.block_size)
        return self.page_ids[logical_index], offset
