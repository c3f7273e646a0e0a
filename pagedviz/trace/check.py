"""The rules of the paged cache over a recorded run: all that events and states can tell.

Invariants: the trace is only read; rule 8 needs a model and is not among them (see truth.py); how
many slots attention has read is not recorded, so that part of rule 11 is left out.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from pagedviz.engine.events import SequenceScheduled, SequenceSubmitted
from pagedviz.engine.invariants import Violation, check_step
from pagedviz.engine.profiles import PROFILES
from pagedviz.trace.trace import Trace


class StepCheck(NamedTuple):
    """What `step` breaks, by rule number; nothing in a healthy run."""

    step: int
    violations: tuple[Violation, ...]


def check_steps(trace: Trace) -> Iterator[StepCheck]:
    """Step by step, in order. TraceFormatError if the events do not fit together."""
    settings = trace.header.settings
    reserves = settings is not None and PROFILES[settings.profile].scheduler.reserves_prompts
    last_busy = _last_busy(trace)
    for folded in trace.walk():
        violations = check_step(
            folded.before,
            folded.events,
            folded.after,
            more_arrivals=folded.step < last_busy,
            reserves_prompts=reserves,
        )
        yield StepCheck(folded.step, tuple(violations))


def _last_busy(trace: Trace) -> int:
    """The last step in which something is submitted or scheduled; 0 if there is none."""
    for step in range(trace.num_steps - 1, -1, -1):
        if any(isinstance(e, SequenceScheduled | SequenceSubmitted) for e in trace.events(step)):
            return step
    return 0
