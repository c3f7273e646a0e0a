"""How much room the sequences of a run need."""

from __future__ import annotations

from pagedviz.engine.events import SequenceFinished, SequenceSubmitted
from pagedviz.trace.trace import Trace


def most_at_once(trace: Trace) -> int:
    """The most sequences that are submitted and not finished at one moment; at least 1."""
    unfinished, most = 0, 1
    for record in trace.steps:
        for event in record.events:
            unfinished += isinstance(event, SequenceSubmitted)
            unfinished -= isinstance(event, SequenceFinished)
            most = max(most, unfinished)
    return most
