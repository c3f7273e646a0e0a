"""Fault 7: tokens are counted before the prefix cache is asked."""

from __future__ import annotations

from pagedviz.engine.config import EngineConfig
from pagedviz.engine.scheduler import Scheduler
from pagedviz.engine.sequence import Sequence
from pagedviz.faults.fault import Fault
from pagedviz.faults.stories import LILY, TOM
from pagedviz.faults.workload import Ask, Workload, spelled


class CountsBeforeLookup(Scheduler):
    def _count_wanted(self, sequence: Sequence, start: int, budget: int) -> int:
        # Wrong: what the lookup has found is counted once more.
        return super()._count_wanted(sequence, 0, budget)


FAULT = Fault(
    number=7,
    name="counted-first",
    title="Tokens are counted before the lookup, and cached ones twice",
    real_case="nano-vllm #207, #233: a preempted sequence came back to its own cached pages",
    shows="an engine that stops when a preempted request is resumed",
    is_right="look up, count, allocate",
    rules=(10,),
    part=CountsBeforeLookup,
    right=(Scheduler._count_wanted, Scheduler._admit),
    books=Workload(
        EngineConfig(num_pages=5, block_size=4),
        (
            Ask("Z", spelled("zzzz zzz"), output=spelled("zzzzzzzz")),
            Ask("A", spelled("aaaa"), output=spelled("bcdefgh")),
        ),
    ),
    words=Workload(
        EngineConfig(num_pages=9, block_size=8),
        (Ask("tom", TOM, max_new_tokens=24), Ask("lily", LILY, max_new_tokens=24)),
        has_model=True,
    ),
)
