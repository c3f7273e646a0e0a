"""Collects what an engine emits into a growing trace.

Invariant: an event costs one list append; everything else waits for the end of the step.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pagedviz.engine.events import Emit, Emitted
from pagedviz.trace.header import TraceHeader
from pagedviz.trace.packed import Candidates
from pagedviz.trace.trace import Trace

LOGPROB_DECIMALS = 4


class Recorder:
    """Give `recorder.emit` to the engine and call `end_step` after each of its steps.

    Events emitted between two steps (a request submitted, aborted) open the next one.
    """

    def __init__(self, header: TraceHeader) -> None:
        self.trace = Trace(header)
        self._events: list[Emitted] = []
        self.emit: Emit = self._events.append

    @property
    def open_events(self) -> list[Emitted]:
        """Those of the step that is not closed yet: what is changed there is recorded so."""
        return self._events

    def end_step(self, logprobs: Mapping[int, Sequence[tuple[int, float]]] | None = None) -> None:
        """Close the step. `logprobs`: per sequence (token_id, log probability), the best first;
        kept to four decimals, what a file keeps too."""
        kept: dict[int, Candidates] | None = None
        if logprobs:
            kept = {
                int(seq_id): tuple(
                    (int(token_id), round(float(logprob), LOGPROB_DECIMALS))
                    for token_id, logprob in candidates
                )
                for seq_id, candidates in logprobs.items()
            }
        self.trace.append_emitted(tuple(self._events), kept)
        self._events.clear()
