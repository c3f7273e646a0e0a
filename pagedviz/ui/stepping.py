"""Where the buttons and the slider lead: absolute moments, worked out from a run.

    by event:  (0,0) (0,1) .. (0,n) (1,1) .. (1,m) (2,1) ..        by token:  the ends of the steps

Invariant: the moment after the last event of a step and the step's end are neighbours of the same
moments, so one press never stands still.
"""

from __future__ import annotations

from bisect import bisect_right
from typing import NamedTuple

from pagedviz.trace.trace import Moment, Trace


class Targets(NamedTuple):
    """None where there is nothing further."""

    first: Moment
    back: Moment | None
    forward: Moment | None
    last: Moment


def targets(trace: Trace, moment: Moment, by_event: bool) -> Targets:
    """Where each button leads from `moment`."""
    last = Moment(trace.num_steps - 1)
    if by_event:
        return Targets(Moment(0, 0), _event_back(trace, moment), _event_on(trace, moment), last)
    step = moment.step
    back = Moment(step - 1) if step > 0 else None
    return Targets(Moment(0), back, Moment(step + 1) if step < last.step else None, last)


def _event_on(trace: Trace, moment: Moment) -> Moment | None:
    step, event = moment
    if event is not None and event < trace.num_events(step):
        return Moment(step, event + 1)
    if step + 1 >= trace.num_steps:
        return None
    # Before its first event a step looks like the end of the one before.
    return Moment(step + 1, 1 if trace.num_events(step + 1) else None)


def _event_back(trace: Trace, moment: Moment) -> Moment | None:
    step, event = moment
    num_events = trace.num_events(step)
    if event is None and num_events:
        # What happened last is shown alone first.
        return Moment(step, num_events)
    if event is not None and event > 1:
        return Moment(step, event - 1)
    if step == 0:
        return Moment(0, 0) if event else None
    return Moment(step - 1, trace.num_events(step - 1) or None)


class EventScale:
    """The moments of a whole run on one line, for the slider: 0 is the start of step 0, then one
    place for each event, and one for each step without any."""

    def __init__(self, trace: Trace) -> None:
        self._places = [max(trace.num_events(step), 1) for step in range(trace.num_steps)]
        self._ends = [0]
        for places in self._places:
            self._ends.append(self._ends[-1] + places)
        self._is_empty = [trace.num_events(step) == 0 for step in range(trace.num_steps)]

    @property
    def last(self) -> int:
        return self._ends[-1]

    def place(self, moment: Moment) -> int:
        step, event = moment
        if event is None:
            return self._ends[step + 1]
        return self._ends[step] + event

    def moment(self, place: int) -> Moment:
        if place <= 0:
            return Moment(0, 0)
        step = bisect_right(self._ends, place - 1) - 1
        return Moment(step, None if self._is_empty[step] else place - self._ends[step])


def nearest(trace: Trace, step: int, event: int | None) -> tuple[Moment, str | None]:
    """The recorded moment nearest to one that was asked for, and a sentence if it is another."""
    last = trace.num_steps - 1
    if step > last:
        return Moment(last), (
            f"step {step} is not recorded: this run has steps 0 to {last}, the last is shown"
        )
    num_events = trace.num_events(step)
    if event is not None and event > num_events:
        return Moment(step), (
            f"step {step} has no event {event}: it has {num_events}, its end is shown"
        )
    return Moment(step, event), None
