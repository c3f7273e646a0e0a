"""Fault 3: a request takes new pages before it holds those it has hit."""

from __future__ import annotations

from collections.abc import Sequence

from pagedviz.engine.block_manager import BlockManager
from pagedviz.engine.config import EngineConfig
from pagedviz.engine.events import PageShared
from pagedviz.engine.holding import Holding
from pagedviz.engine.page_owners import PageOwners
from pagedviz.engine.prefix_entry import Entry
from pagedviz.faults.fault import Fault
from pagedviz.faults.stories import LILY, TOM
from pagedviz.faults.workload import Ask, Workload, spelled


class PopsBeforeItHolds(BlockManager):
    def _extend(self, holding: Holding, hits: Sequence[Entry], num_new: int) -> None:
        pool, table = self.pool, holding.table
        hit_ids = [entry.oldest_page for entry in hits]
        for page_id in hit_ids:
            table.append(page_id, pool.generations[page_id])
        # Wrong: the hits still wait in the queue, and what is popped may be one of them.
        super()._extend(holding, (), num_new)
        for index, page_id in enumerate(hit_ids):
            pool.queue.pop(page_id, None)
            pool.ref_counts[page_id] += 1
            if self._emit is not None:
                self._emit(PageShared(page_id, pool.ref_counts[page_id], holding.seq_id, index))
        if hits:
            holding.entries, holding.num_hashed = list(hits), len(hits)


FAULT = Fault(
    number=3,
    name="own-hit-evicted",
    title="A request evicts the pages it has just hit",
    real_case="vLLM #33775: new blocks were popped before the hit ones were taken out of the queue",
    shows="an answer without its own story: the prompt's first pages were overwritten by its last",
    is_right="take all hits, then allocate",
    rules=(5, 2),
    part=PopsBeforeItHolds,
    right=(PageOwners._extend,),
    books=Workload(
        EngineConfig(num_pages=5, block_size=4),
        (
            Ask("A", spelled("aaaa bbbb"), output=spelled("x")),
            Ask("Z", spelled("zzzz zzzz z"), output=spelled("xy")),
            Ask("B", spelled("aaaa bbbb cccc dddd e"), step=2, output=spelled("zy")),
        ),
    ),
    words=Workload(
        EngineConfig(num_pages=11, block_size=8),
        (
            Ask("lily", LILY, max_new_tokens=2),
            Ask("tom", TOM + " Tom went to the lake. What colour was the boat?", max_new_tokens=5),
            Ask(
                "lily again",
                LILY + " The sun was warm. It was a good day. A bee came very close. A small bird "
                "sang a song. The sky was clear. Time went by. What colour was the kite?",
                step=5,
                max_new_tokens=8,
            ),
        ),
        has_model=True,
    ),
)
