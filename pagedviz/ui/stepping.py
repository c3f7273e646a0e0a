"""The recorded moment that an address means."""

from __future__ import annotations

from pagedviz.trace.trace import Moment, Trace


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
