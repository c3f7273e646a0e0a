"""Compares what an engine emits in a step with what was recorded of it."""

from __future__ import annotations

from collections.abc import Sequence

from pagedviz.engine.errors import ReplayDivergence
from pagedviz.engine.events import Emitted, Event, InvariantViolated, as_event
from pagedviz.trace.packed import pack_step

_SHOWN = 120


def compare_step(step: int, recorded: Sequence[Event], emitted: Sequence[Emitted]) -> None:
    """ReplayDivergence at the first event of a step that is not as it was recorded."""
    # Whether the rules were checked, then or now, is no part of what was done.
    recorded = [event for event in recorded if not isinstance(event, InvariantViolated)]
    emitted = [event for event in emitted if not isinstance(event, InvariantViolated)]
    if pack_step(emitted) == pack_step(recorded):
        return
    replayed = [as_event(event) for event in emitted]
    same = 0
    for old, new in zip(recorded, replayed, strict=False):
        if type(old) is not type(new) or old != new:
            break
        same += 1
    shown = [
        "nothing more" if same == len(events) else _short(repr(events[same]))
        for events in (recorded, replayed)
    ]
    raise ReplayDivergence(step, same, *shown)


def _short(text: str) -> str:
    return text if len(text) <= _SHOWN else f"{text[: _SHOWN - 1]}\u2026"
