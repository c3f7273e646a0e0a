"""Runs a recorded run again up to a far step, in the background.

    panel looks -> wanted for a few seconds -> the worker's turns -> the step can be asked for

Invariants: the engine is the one that all panels of the run ask, so what is run again serves all;
it stops when nobody has looked for LOOK_SECONDS and goes on where it was.
"""

from __future__ import annotations

import time

from pagedviz.engine.errors import PagedVizError
from pagedviz.model import ModelError
from pagedviz.trace.replay import Replay
from pagedviz.ui.sweeps import LOOK_SECONDS


class Approach:
    """A job for the worker. num_done: steps run again. ended: why it cannot go on."""

    def __init__(self, replay: Replay, step: int) -> None:
        self.num_done = 0
        self.ended: str | None = None
        self._replay = replay
        self._step = step
        self._wanted_until = 0.0

    def look(self) -> None:
        """Somebody wants to know more."""
        self._wanted_until = time.monotonic() + LOOK_SECONDS

    @property
    def is_done(self) -> bool:
        return self.ended is not None or self._replay.is_near(self._step)

    @property
    def is_growing(self) -> bool:
        return time.monotonic() < self._wanted_until and not self.is_done

    def turn(self, seconds: float) -> bool:
        """Some steps, and whether there is more to do."""
        until = time.monotonic() + seconds
        try:
            while self.is_growing and time.monotonic() < until:
                self.num_done = self._replay.approach(self._step)
        except (PagedVizError, ModelError) as error:
            self.ended = str(error)
        return self.is_growing
