"""How much room the sequences of a run need."""

from __future__ import annotations

from pagedviz.engine.events import (
    EVENT_TYPES,
    SequenceFinished,
    SequenceForked,
    SequenceSubmitted,
)
from pagedviz.trace.trace import Trace

_SUBMITTED = EVENT_TYPES.index(SequenceSubmitted)
_FORKED = EVENT_TYPES.index(SequenceForked)
_FINISHED = EVENT_TYPES.index(SequenceFinished)


def most_at_once(trace: Trace) -> int:
    """The most sequences that are submitted and not finished at one moment; at least 1."""
    unfinished, most = 0, 1
    for step in range(trace.num_steps):
        kinds = trace.kinds(step)
        if not any(kind in kinds for kind in (_SUBMITTED, _FORKED, _FINISHED)):
            continue
        for kind in kinds:
            unfinished += (kind in (_SUBMITTED, _FORKED)) - (kind == _FINISHED)
            most = max(most, unfinished)
    return most
