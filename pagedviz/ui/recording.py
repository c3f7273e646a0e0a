"""A run that is shown while it is still being recorded.

    in the request      first steps, at least up to the moment asked for
    in the background   the worker goes on, a few steps a turn      } one at a time: `_lock`
    in a request again  up to what somebody asks for by then        }

Invariants: what `now` gives never changes; recording ends by itself (everything has finished, or
nothing will ever change, or the limit); a stopped one goes on where it was.
"""

from __future__ import annotations

import time
from threading import RLock
from typing import NamedTuple

from pagedviz.engine.errors import PagedVizError
from pagedviz.model import ModelError
from pagedviz.scenarios import ScenarioRun
from pagedviz.trace.trace import Trace


class Checked(NamedTuple):
    """What the live check of the rules did while a run was recorded: measured, so it is no part of
    the trace. num_steps: checked ones. coverage: as LiveChecker tells. mean_us, last_us: what a
    check took, None before the first."""

    num_steps: int
    coverage: str
    mean_us: float | None
    last_us: float | None
    is_paused: bool


class Recorded(NamedTuple):
    """What there is at a moment. is_growing: more steps will follow by themselves. can_go_on:
    somebody has stopped it. ended: why there is no more, although not everything has finished."""

    trace: Trace
    is_growing: bool = False
    can_go_on: bool = False
    ended: str | None = None
    checked: Checked | None = None


class Recording:
    """limit: most steps."""

    def __init__(self, run: ScenarioRun, limit: int) -> None:
        self._lock = RLock()
        # Given up at the end: an engine holds a whole pool of keys and values.
        self._run: ScenarioRun | None = run
        self.scenario = run.scenario
        self._trace = run.trace
        self._num_requests = len(run.scenario.requests)
        self._limit = limit
        self._is_stopped = False
        self._ended: str | None = None
        self._known: Recorded | None = None
        self._checker = run.checker
        self._last_us: float | None = None

    @property
    def num_steps(self) -> int:
        return self._trace.num_steps

    @property
    def is_growing(self) -> bool:
        return self._run is not None and not self._is_stopped

    def reach(self, step: int, seconds: float | None = None) -> None:
        """Record until `step` is there, or `seconds` have passed, or there is no more.

        Raises PagedVizError or ModelError if a step cannot be made; that is the end then.
        """
        until = None if seconds is None else time.monotonic() + seconds
        while step >= self.num_steps and self.is_growing:
            try:
                self._record_one()
            except (PagedVizError, ModelError) as error:
                self._fail(error)
                raise
            if until is not None and time.monotonic() >= until:
                break

    def turn(self, seconds: float) -> bool:
        """The worker's: some steps, and whether there is more to do. A step that cannot be made
        ends the recording, with the reason in place of the rest."""
        until = time.monotonic() + seconds
        try:
            while self.is_growing:
                self._record_one()
                if time.monotonic() >= until:
                    break
            with self._lock:
                self._trace.scan()  # or whoever looks next would wait for it
        except (PagedVizError, ModelError) as error:
            self._fail(error)
        return self.is_growing

    def stop(self) -> None:
        self._set_stopped(True)

    def go_on(self) -> None:
        self._set_stopped(False)

    def now(self) -> Recorded:
        """What is recorded by now, as something that does not grow. TraceFormatError."""
        with self._lock:
            known, run = self._known, self._run
            is_same = (
                known is not None
                and known.trace.num_steps == self.num_steps
                and known.is_growing == self.is_growing
                and known.can_go_on == (run is not None and self._is_stopped)
                and known.checked == self.checked
            )
            if known is None or not is_same:
                if self.is_growing:
                    known = Recorded(self._trace.copy(), is_growing=True)
                elif run is not None:
                    why = (
                        f"Recording was stopped at step {self.num_steps - 1}; \u201cGo on\u201d "
                        "records what follows"
                    )
                    known = Recorded(self._trace.copy(), can_go_on=True, ended=why)
                else:
                    self._trace.scan()
                    known = Recorded(self._trace, ended=self._ended)
                self._known = known = known._replace(checked=self.checked)
            return known

    @property
    def checked(self) -> Checked | None:
        """None if nobody checks."""
        checker = self._checker
        if checker is None:
            return None
        num_checked = checker.num_checked
        mean = checker.total_cost_us / num_checked if num_checked else None
        return Checked(num_checked, checker.coverage, mean, self._last_us, checker.is_paused)

    def pause_check(self, is_paused: bool) -> None:
        """Whether the steps that are still to be recorded go unchecked."""
        with self._lock:
            if self._checker is not None:
                (self._checker.pause if is_paused else self._checker.resume)()

    def _note_cost(self) -> None:
        # A checker that is paused forgets it.
        if self._checker is not None and self._checker.last_cost_us is not None:
            self._last_us = self._checker.last_cost_us

    def _set_stopped(self, is_stopped: bool) -> None:
        with self._lock:
            self._is_stopped = is_stopped

    def _record_one(self) -> None:
        with self._lock:
            run = self._run
            if run is None or self._is_stopped:  # meanwhile
                return
            if not run.is_done:
                run.step()
                self._note_cost()
            all_came = len(run.seq_ids) == self._num_requests
            if run.ended is not None:
                self._end(run.ended)
            elif run.is_done:
                self._end(None)
            elif self.num_steps >= self._limit:
                self._end(_limit_sentence(run, self._limit))
            elif run.engine.is_stalled and all_came:
                self._end(_stalled_sentence(run))

    def _fail(self, error: PagedVizError | ModelError) -> None:
        with self._lock:
            self._end(f"Recording stopped at step {self.num_steps - 1}: {error}")

    def _end(self, why: str | None) -> None:
        self._ended = why
        self._run = None


def _limit_sentence(run: ScenarioRun, limit: int) -> str:
    final = run.trace.final
    left = len(final.waiting) + len(final.running)
    return f"Recording stopped at its limit of {limit} steps; {left} sequences have not finished"


def _stalled_sentence(run: ScenarioRun) -> str:
    waiting = len(run.trace.final.waiting)
    return (
        f"Recording stopped at step {run.trace.num_steps - 1}: {waiting} waiting and nothing runs, "
        "so no later step would differ"
    )
