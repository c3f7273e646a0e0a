"""Fault 5: a cached page that is hit while nobody owns it loses its hash."""

from __future__ import annotations

from collections.abc import Sequence

from pagedviz.engine.block_manager import BlockManager
from pagedviz.engine.config import EngineConfig
from pagedviz.engine.holding import Holding
from pagedviz.engine.ids import SeqId
from pagedviz.engine.page_owners import PageOwners
from pagedviz.engine.prefix_entry import Entry
from pagedviz.faults.fault import Fault
from pagedviz.faults.stories import LILY
from pagedviz.faults.workload import Ask, Workload, spelled


class WipesRevivedPages(BlockManager):
    def _take_hits(self, seq_id: SeqId, holding: Holding, hits: Sequence[Entry]) -> None:
        super()._take_hits(seq_id, holding, hits)
        for page_id in holding.table:
            # Wrong: taken out of the queue like a page for new content, and reset like one.
            if self.pool.ref_counts[page_id] == 1:
                self.cache.forget_page(page_id)


FAULT = Fault(
    number=5,
    name="wiped-hash",
    title="Reviving a cached page wipes its hash",
    real_case="nano-vllm f64d821: a page taken back from the free list was reset",
    shows="no wrong word, but the third user of a prompt waits for it to be computed again",
    is_right="a hit leaves the map alone",
    rules=(9,),
    part=WipesRevivedPages,
    right=(PageOwners._take_hits,),
    books=Workload(
        EngineConfig(num_pages=6, block_size=4),
        tuple(
            Ask(name, spelled("PPPP QQQQ x"), step=step, output=spelled("y"))
            for name, step in (("first", 0), ("second", 1), ("third", 2))
        ),
    ),
    words=Workload(
        EngineConfig(num_pages=12, block_size=8),
        tuple(
            Ask(name, LILY, step=step, max_new_tokens=4)
            for name, step in (("first", 0), ("second", 4), ("third", 8))
        ),
        has_model=True,
    ),
)
