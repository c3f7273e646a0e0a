"""Rule 8 over whole runs, in the background: paged logits against plain dense ones.

Invariants: one sweep for each run, shared by all who look; it has an engine of its own, the run is
only read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

from pagedviz.engine.errors import PagedVizError
from pagedviz.model import ModelError
from pagedviz.trace.replay import Replay
from pagedviz.trace.truth import Dense, SweptStep, Truth, sweep
from pagedviz.ui.wanted_job import WantedJob


class Swept(NamedTuple):
    """Of the first `num_done` of `num_steps` steps: the truths with the largest error and with the
    smallest margin, and the first that does not hold. ended: why it cannot go on."""

    num_done: int
    num_steps: int
    num_compared: int = 0
    largest: Truth | None = None
    smallest: Truth | None = None
    broken: Truth | None = None
    ended: str | None = None

    @property
    def is_done(self) -> bool:
        return self.ended is not None or self.num_done == self.num_steps


class Sweep(WantedJob):
    """begin: makes the engine that is run again, in the background, since it takes a while."""

    def __init__(self, num_steps: int, begin: Callable[[], Replay], dense: Dense) -> None:
        super().__init__()
        self.now = Swept(0, num_steps)
        self._begin = begin
        self._dense = dense
        self._steps: Iterator[SweptStep] | None = None

    def look(self) -> Swept:
        """What is known by now; somebody wants to know more."""
        self.want()
        return self.now

    @property
    def is_done(self) -> bool:
        return self.now.is_done

    def _work(self) -> None:
        if self._steps is None:
            self._steps = sweep(self._begin(), self._dense)
        self._add(next(self._steps))

    def _fail(self, error: PagedVizError | ModelError) -> None:
        self.now = self.now._replace(ended=f"It ends at step {self.now.num_done}: {error}")

    def _leave(self) -> None:
        self._steps = None  # and with it the engine and its pool

    def _add(self, swept: SweptStep) -> None:
        now = self.now._replace(
            num_done=swept.num_done, num_compared=self.now.num_compared + len(swept.truths)
        )
        for truth in swept.truths:
            # Not `>`: a NaN is larger than any number.
            if now.largest is None or not truth.error <= now.largest.error:
                now = now._replace(largest=truth)
            if now.smallest is None or truth.margin < now.smallest.margin:
                now = now._replace(smallest=truth)
            if now.broken is None and not truth.is_ok:
                now = now._replace(broken=truth)
        self.now = now
