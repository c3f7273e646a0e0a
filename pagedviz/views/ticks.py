"""The moments of a run that matter, as marks for the slider."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from pagedviz.engine.events import (
    Event,
    PageEvicted,
    PageShared,
    SequenceFinished,
    SequencePreempted,
)
from pagedviz.trace.trace import Moment, Trace

KINDS: dict[type[Event], str] = {
    SequencePreempted: "preemption",
    PageEvicted: "eviction",
    PageShared: "hit",
    SequenceFinished: "finish",
}


class Tick(NamedTuple):
    """Something of `kind` happened; `moment` is right after it. Of several kinds in a step the
    first of KINDS is named."""

    moment: Moment
    kind: str


def ticks(trace: Trace) -> tuple[Tick, ...]:
    """At most one a step, in order."""
    return tuple(
        tick
        for step, record in enumerate(trace.steps)
        if (tick := _most_important(step, record.events)) is not None
    )


def _most_important(step: int, events: Sequence[Event]) -> Tick | None:
    for event_type, kind in KINDS.items():
        for number, event in enumerate(events, start=1):
            if isinstance(event, event_type):
                return Tick(Moment(step, number), kind)
    return None
