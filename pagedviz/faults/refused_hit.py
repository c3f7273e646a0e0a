"""Fault 2: hits take their reference before it is known whether the rest fits."""

from __future__ import annotations

from pagedviz.engine.config import EngineConfig
from pagedviz.engine.prefix_entry import Entry
from pagedviz.engine.scheduler import Scheduler
from pagedviz.engine.sequence import Sequence
from pagedviz.faults.fault import Fault
from pagedviz.faults.stories import LILY, TOM
from pagedviz.faults.workload import Ask, Workload, spelled


class TakesHitsBeforeDeciding(Scheduler):
    def _refusal(
        self, sequence: Sequence, hits: list[Entry], num_tokens: int
    ) -> tuple[str, int] | None:
        pool = self._block_manager.pool
        for entry in hits:
            pool.queue.pop(entry.oldest_page, None)
            pool.ref_counts[entry.oldest_page] += 1
        refusal = super()._refusal(sequence, hits, num_tokens)
        if refusal is None:  # Wrong: if the answer is no, the references stay.
            for entry in hits:
                if not pool.release_page(entry.oldest_page):
                    pool.put_at_back(entry.oldest_page)
        return refusal


FAULT = Fault(
    number=2,
    name="refused-hit",
    title="A refused request keeps the references of its hits",
    real_case="vLLM #11565: cached blocks were touched before the capacity check",
    shows="a later request that is never answered: pages are lost without an owner",
    is_right="decide first, change something only on success",
    rules=(2,),
    part=TakesHitsBeforeDeciding,
    right=(Scheduler._refusal, Scheduler._admit),
    books=Workload(
        EngineConfig(num_pages=4, block_size=4),
        (
            Ask("A", spelled("aaaa b"), output=spelled("x")),
            Ask("R", spelled("cccc dddd"), step=1, output=spelled("rstuv")),
            Ask("B", spelled("aaaa eeee ffff g"), step=2, output=spelled("y")),
            Ask("D", spelled("hhhh iiii jjjj kkkk"), step=8, output=spelled("z")),
        ),
        max_steps=20,
    ),
    words=Workload(
        EngineConfig(num_pages=10, block_size=8),
        (
            Ask("lily", LILY, max_new_tokens=6),
            Ask("tom", TOM, step=6, max_new_tokens=10),
            Ask(
                "lily again",
                LILY + " The kite was red. Where did Lily go? Lily went to the park. Who had the "
                "kite?",
                step=8,
                max_new_tokens=6,
            ),
            Ask(
                "mia",
                "This is the story of a girl called Mia. Mia loved her green box. In the morning "
                "Mia went to the market. What colour was the box? The box was green. Who went to "
                "the market? Mia went to the market. Where did Mia go? Mia went to the market. "
                "What was the name of the girl?",
                step=30,
                max_new_tokens=6,
            ),
        ),
        has_model=True,
        max_steps=60,
    ),
)
