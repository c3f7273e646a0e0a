"""The broken rules that a trace has, and what led to one.

Invariant: nothing is checked here; what is told was found when the run was recorded, or by whoever
made a Broken of it.
"""

from __future__ import annotations

from typing import NamedTuple

from pagedviz.engine.events import EVENT_TYPES, InvariantViolated
from pagedviz.trace.queries import remembered
from pagedviz.trace.trace import Moment, Trace
from pagedviz.views.page_view import StoryLine, page_report
from pagedviz.views.words import TokenText

_CODE = EVENT_TYPES.index(InvariantViolated)


class Broken(NamedTuple):
    """A broken rule; `moment` is right after its event, or the end of its step if the trace has no
    event of it."""

    moment: Moment
    event: InvariantViolated


@remembered
def first_violation(trace: Trace) -> Broken | None:
    """The first of the run, None if every rule held."""
    for step in range(trace.num_steps):
        if _CODE in trace.kinds(step):
            return violations_of(trace, step)[0]
    return None


def violations_of(trace: Trace, step: int) -> tuple[Broken, ...]:
    """Those of one step, in order. MomentNotFound."""
    if _CODE not in trace.kinds(step):
        return ()
    return tuple(
        Broken(Moment(step, number), event)
        for number, event in enumerate(trace.events(step), start=1)
        if isinstance(event, InvariantViolated)
    )


def page_of(trace: Trace, broken: Broken) -> int | None:
    """The page it names, or else the newest one of the sequence that it names."""
    event = broken.event
    if event.page_id is not None:
        return event.page_id if event.page_id < trace.header.num_pages else None
    if event.seq_id is None:
        return None
    page_ids = trace.at(*broken.moment).sequence(event.seq_id).page_ids
    return page_ids[-1] if page_ids else None


def last_touches(
    trace: Trace, broken: Broken, page_id: int, token_text: TokenText, most: int = 4
) -> tuple[StoryLine, ...]:
    """The last things that happened to a page before a rule was found broken, the latest last."""
    step, event = broken.moment
    before = broken.moment
    if event is not None:
        first = violations_of(trace, step)[0].moment.event
        assert first is not None
        before = Moment(step, first - 1)
    return page_report(trace, before, page_id, token_text, most).story
