"""The moments of a run that matter, as marks for the slider."""

from __future__ import annotations

from typing import NamedTuple

from pagedviz.engine.events import (
    EVENT_TYPES,
    Event,
    InvariantViolated,
    PageCopied,
    PageEvicted,
    PageShared,
    SequenceFinished,
    SequencePreempted,
)
from pagedviz.trace.trace import Moment, Trace

KINDS: dict[type[Event], str] = {
    InvariantViolated: "violation",
    SequencePreempted: "preemption",
    PageEvicted: "eviction",
    PageCopied: "copy",
    PageShared: "hit",
    SequenceFinished: "finish",
}
_CODES = tuple((EVENT_TYPES.index(event_type), kind) for event_type, kind in KINDS.items())


class Tick(NamedTuple):
    """Something of `kind` happened; `moment` is right after it. Of several kinds in a step the
    first of KINDS is named."""

    moment: Moment
    kind: str


def ticks(trace: Trace) -> tuple[Tick, ...]:
    """At most one a step, in order."""
    return tuple(
        tick
        for step in range(trace.num_steps)
        if (tick := _most_important(step, trace.kinds(step))) is not None
    )


def _most_important(step: int, kinds: bytes) -> Tick | None:
    for code, kind in _CODES:
        place = kinds.find(code)
        if place >= 0:
            return Tick(Moment(step, place + 1), kind)
    return None
