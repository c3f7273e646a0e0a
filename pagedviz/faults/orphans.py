"""Fault 10: the abort of a request does not reach the samples forked from it."""

from __future__ import annotations

from pagedviz.engine.config import EngineConfig
from pagedviz.engine.families import Families
from pagedviz.engine.sequence import Sequence
from pagedviz.engine.sequence_state import FinishReason
from pagedviz.faults.fault import Fault
from pagedviz.faults.stories import LILY
from pagedviz.faults.workload import Abort, Ask, Workload, spelled


class AbortsOnlyTheParent(Families):
    def abort(self, sequence: Sequence) -> list[Sequence]:
        # Wrong: the forks of the request stay in the running list, with all their pages.
        self._scheduler.discard(sequence)
        sequence.finish(FinishReason.ABORTED)
        self.leave(sequence)
        return [sequence]


FAULT = Fault(
    number=10,
    name="orphans",
    title="The abort of a request misses its samples",
    real_case="vLLM #14326: aborting a request with n > 1 left its children running",
    shows="an answer that nobody wants any more goes on, and its pages with it",
    is_right="an abort ends the whole family",
    rules=(12,),
    part=AbortsOnlyTheParent,
    right=(Families.abort,),
    books=Workload(
        EngineConfig(num_pages=8, block_size=4),
        (
            Ask(
                "A",
                spelled("aaaa bb"),
                output=spelled("cdefgh"),
                num_samples=2,
                forks=(spelled("CDEFGH"),),
            ),
            Abort("A", step=2),
        ),
    ),
    words=Workload(
        EngineConfig(num_pages=12, block_size=8),
        (Ask("lily", LILY, num_samples=2, temperature=0.9, seed=3), Abort("lily", step=5)),
        has_model=True,
    ),
)
