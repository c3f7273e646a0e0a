"""Runs a recorded run again up to a far step, in the background.

Invariant: the engine is the one that all panels of the run ask, so what is run again serves all.
"""

from __future__ import annotations

from pagedviz.engine.errors import PagedVizError
from pagedviz.model import ModelError
from pagedviz.trace.replay import Replay
from pagedviz.ui.wanted_job import WantedJob


class Approach(WantedJob):
    """num_done: steps run again. ended: why it cannot go on."""

    def __init__(self, replay: Replay, step: int) -> None:
        super().__init__()
        self.num_done = 0
        self.ended: str | None = None
        self._replay = replay
        self._step = step

    @property
    def is_done(self) -> bool:
        return self.ended is not None or self._replay.is_near(self._step)

    def _work(self) -> None:
        self.num_done = self._replay.approach(self._step)

    def _fail(self, error: PagedVizError | ModelError) -> None:
        self.ended = str(error)
