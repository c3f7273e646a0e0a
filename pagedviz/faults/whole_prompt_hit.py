"""Fault 6: a prompt that is cached to its last token leaves nothing to compute."""

from __future__ import annotations

from pagedviz.engine.config import EngineConfig
from pagedviz.engine.prefix_cache import SharedPrefixCache
from pagedviz.engine.prefix_entry import Entry
from pagedviz.engine.scheduler import Scheduler
from pagedviz.engine.sequence import Sequence
from pagedviz.faults.fault import Fault
from pagedviz.faults.stories import LILY
from pagedviz.faults.workload import Ask, Workload, spelled


class TakesTheWholePrompt(Scheduler):
    def _look_up(self, sequence: Sequence) -> tuple[list[Entry], int]:
        hits: list[Entry] = []
        if sequence.chain is not None:
            # Wrong: as if there were one token more, so that the last page may be a hit too.
            hits = self._block_manager.cache.walk(sequence.chain, sequence.num_tokens + 1)
        self._report_lookup(sequence, hits)
        return hits, len(hits) * self.config.block_size


FAULT = Fault(
    number=6,
    name="whole-prompt-hit",
    title="A whole prompt is hit and nothing is left to compute",
    real_case="vLLM #3239, #11186; nano-vllm #144: no token left, so no logits to sample from",
    shows="an engine that stops as soon as a prompt is sent a second time",
    is_right="a lookup uses at most (num_tokens - 1) // block_size pages",
    rules=(10,),
    part=TakesTheWholePrompt,
    right=(Scheduler._look_up, SharedPrefixCache.walk),
    books=Workload(
        EngineConfig(num_pages=6, block_size=4),
        (
            Ask("first", spelled("aaaa bbbb"), output=spelled("x")),
            Ask("second", spelled("aaaa bbbb"), step=1, output=spelled("x")),
        ),
    ),
    words=Workload(
        EngineConfig(num_pages=12, block_size=8),  # the prompt fills four pages to the last slot
        (
            Ask("first", LILY, max_new_tokens=4),
            Ask("second", LILY, step=4, max_new_tokens=4),
        ),
        has_model=True,
    ),
)
