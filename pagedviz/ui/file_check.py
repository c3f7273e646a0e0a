"""The rules over a trace from a file, in the background.

Invariants: it stops at the first step that breaks a rule; a file's check is kept with its run, the
run is only read.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import NamedTuple

import streamlit as st

from pagedviz.engine.errors import PagedVizError
from pagedviz.engine.live_findings import violated_event
from pagedviz.model import ModelError
from pagedviz.trace.check import StepCheck, check_steps
from pagedviz.trace.trace import Moment, Trace
from pagedviz.ui.runs import RecordedRun, RunKey, work_on
from pagedviz.ui.wanted_job import WantedJob
from pagedviz.views.violations import Broken

_KEPT = 8
# A step may break thousands of pages; the panel shows a few.
_MOST = 64


class FileChecked(NamedTuple):
    """Of the first `num_done` of `num_steps` steps. broken: what the last of them breaks, nothing
    in a healthy run. total_us: what checking took. ended: why it cannot go on."""

    num_done: int
    num_steps: int
    broken: tuple[Broken, ...] = ()
    total_us: float = 0.0
    ended: str | None = None

    @property
    def is_done(self) -> bool:
        return bool(self.broken) or self.ended is not None or self.num_done == self.num_steps

    def broken_in(self, step: int) -> tuple[Broken, ...]:
        """What a step was found to break."""
        return tuple(broken for broken in self.broken if broken.moment.step == step)


class FileCheck(WantedJob):
    def __init__(self, trace: Trace) -> None:
        super().__init__()
        self.now = FileChecked(0, trace.num_steps)
        self._steps: Iterator[StepCheck] = check_steps(trace)

    def look(self) -> FileChecked:
        """What is known by now; somebody wants to know more."""
        self.want()
        return self.now

    @property
    def is_done(self) -> bool:
        return self.now.is_done

    def _work(self) -> None:
        # Of this thread alone: requests have their way in between.
        began = time.thread_time()
        found = next(self._steps)
        self._add(found, (time.thread_time() - began) * 1e6)

    def _fail(self, error: PagedVizError | ModelError) -> None:
        self.now = self.now._replace(ended=f"It ends at step {self.now.num_done}: {error}")

    def _leave(self) -> None:
        self._steps = iter(())  # and with it the states it has folded

    def _add(self, found: StepCheck, us: float) -> None:
        broken = tuple(
            Broken(Moment(found.step), violated_event(violation))
            for violation in found.violations[:_MOST]
        )
        self.now = self.now._replace(
            num_done=found.step + 1, broken=broken, total_us=self.now.total_us + us
        )


def file_checked(run: RecordedRun) -> FileChecked | None:
    """What is known of a run from a file by now; it goes on while somebody asks. None of a run that
    is recorded here."""
    if not run.key.file:
        return None
    check = _check(run.key, run.trace)
    found = check.look()
    work_on(check)
    return found


@st.cache_resource(show_spinner=False, max_entries=_KEPT)
def _check(key: RunKey, _trace: Trace) -> FileCheck:
    return FileCheck(_trace)
