"""Finds the next or the previous moment at which something happened: what "run until" means.

Invariant: the answer is always the moment right after an event, strictly behind (or before) the
moment the search starts from, so that repeating it walks through all of them.
"""

from __future__ import annotations

from collections.abc import Callable

from pagedviz.engine.events import Event
from pagedviz.trace.trace import Moment, Trace


def next_moment(trace: Trace, predicate: Callable[[Event], bool], start: Moment) -> Moment | None:
    """The moment right after the first event behind `start` for which `predicate` holds."""
    first = start.step if start.event is not None else start.step + 1
    for step in range(first, trace.num_steps):
        events = trace.events(step)
        skipped = start.event or 0 if step == start.step else 0
        for number, event in enumerate(events[skipped:], start=skipped + 1):
            if predicate(event):
                return Moment(step, number)
    return None


def previous_moment(
    trace: Trace, predicate: Callable[[Event], bool], start: Moment
) -> Moment | None:
    """The moment right after the last event for which `predicate` holds that is before `start`.
    Standing right after such an event, it is the one before that."""
    for step in range(min(start.step, trace.num_steps - 1), -1, -1):
        events = trace.events(step)
        last = len(events)
        if step == start.step and start.event is not None:
            last = min(start.event - 1, last)
        for number in range(last, 0, -1):
            if predicate(events[number - 1]):
                return Moment(step, number)
    return None
