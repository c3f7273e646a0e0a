"""Fault 9: a preempted sequence comes back with a token too many."""

from __future__ import annotations

from pagedviz.engine.config import EngineConfig
from pagedviz.engine.prefix_entry import Entry
from pagedviz.engine.scheduler import Scheduler, StepPlan
from pagedviz.engine.sequence import Sequence
from pagedviz.faults.fault import Fault
from pagedviz.faults.stories import LILY, TOM
from pagedviz.faults.workload import Ask, Workload, spelled


class DoublesATokenOnResume(Scheduler):
    def _start(
        self,
        sequence: Sequence,
        hits: list[Entry],
        start: int,
        wanted: int,
        num_reserved: int,
        plan: StepPlan,
    ) -> None:
        if sequence.num_preemptions:
            # Wrong: the token that was sampled last is among the known ones already.
            sequence.token_ids.append(sequence.token_ids[-1])
            wanted, num_reserved = wanted + 1, num_reserved + 1
        super()._start(sequence, hits, start, wanted, num_reserved, plan)


FAULT = Fault(
    number=9,
    name="doubled-token",
    title="A preempted sequence doubles a token when it resumes",
    real_case="nano-vllm #217; vLLM #42117: a token was lost or doubled on resume",
    shows="a word that stutters, and other words after it than without the preemption",
    is_right="keep prompt and generated tokens, recompute all of them, sample once",
    rules=(8,),
    part=DoublesATokenOnResume,
    right=(Scheduler._start, Sequence.preempt),
    books=Workload(
        EngineConfig(num_pages=4, block_size=4),
        (
            Ask("Z", spelled("zzzz zzz"), output=spelled("zzzz")),
            Ask("A", spelled("aaaa"), output=spelled("bcdefg")),
        ),
    ),
    words=Workload(
        EngineConfig(num_pages=9, block_size=8),
        (Ask("tom", TOM, max_new_tokens=24), Ask("lily", LILY, max_new_tokens=24)),
        has_model=True,
    ),
)
