"""Fault 12: a duplicate page is freed, and the page table still points at it."""

from __future__ import annotations

from collections.abc import Sequence

from pagedviz.engine.block_manager import BlockManager
from pagedviz.engine.config import EngineConfig
from pagedviz.engine.ids import SeqId
from pagedviz.engine.page_owners import PageOwners
from pagedviz.faults.fault import Fault
from pagedviz.faults.stories import LILY
from pagedviz.faults.workload import Ask, Workload, spelled


class FreesDuplicates(BlockManager):
    """The healthy engine keeps both of two equal pages; this one means to save memory."""

    def hash_pages(self, covered: Sequence[tuple[SeqId, int]]) -> None:
        super().hash_pages(covered)
        for seq_id, _ in covered:
            for page_id in self.page_table(seq_id):
                entry = self.cache.entry_of.get(page_id)
                is_spare = entry is not None and page_id != entry.oldest_page
                if is_spare and self.pool.ref_counts[page_id] == 1:
                    # Wrong: the table should have been pointed at the oldest page first.
                    self.cache.forget_page(page_id)
                    self.pool.free_page(page_id)


FAULT = Fault(
    number=12,
    name="freed-duplicate",
    title="A duplicate is freed while a table still points at it",
    real_case="mini-sglang #142: duplicates of cached pages were freed before the repointing",
    shows="an answer about the story of whoever was handed the page next",
    is_right="repoint first, then free; or keep both, as the healthy engine does",
    rules=(3,),
    part=FreesDuplicates,
    right=(PageOwners.hash_pages,),
    books=Workload(
        EngineConfig(num_pages=8, block_size=4, chunk_size=2),
        (
            Ask("A", spelled("aaaa b"), output=spelled("xyz")),
            Ask("B", spelled("aaaa c"), output=spelled("xyz")),
            Ask("C", spelled("dddd e"), step=2, output=spelled("x")),
        ),
    ),
    words=Workload(
        EngineConfig(num_pages=16, block_size=16, chunk_size=8),
        (Ask("lily", LILY), Ask("lily too", LILY)),
        has_model=True,
    ),
)
