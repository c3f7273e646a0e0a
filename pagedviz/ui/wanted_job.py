"""A job of the worker that goes on while somebody looks at what it finds.

    panel looks -> wanted for a few seconds -> the worker's turns -> what is known so far

Invariant: it stops when nobody has looked for LOOK_SECONDS, and goes on where it was.
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod

from pagedviz.engine.errors import PagedVizError
from pagedviz.model import ModelError

LOOK_SECONDS = 5.0


class WantedJob(ABC):
    def __init__(self) -> None:
        self._wanted_until = 0.0

    def want(self) -> None:
        """Somebody looks, and wants to know more."""
        self._wanted_until = time.monotonic() + LOOK_SECONDS

    @property
    @abstractmethod
    def is_done(self) -> bool:
        """There is nothing more to find, or it cannot go on."""

    @property
    def is_growing(self) -> bool:
        return time.monotonic() < self._wanted_until and not self.is_done

    def turn(self, seconds: float) -> bool:
        """Some steps, and whether there is more to do."""
        until = time.monotonic() + seconds
        try:
            while self.is_growing and time.monotonic() < until:
                self._work()
        except (PagedVizError, ModelError) as error:
            self._fail(error)
        if self.is_done:
            self._leave()
        return self.is_growing

    @abstractmethod
    def _work(self) -> None:
        """One step."""

    @abstractmethod
    def _fail(self, error: PagedVizError | ModelError) -> None:
        """It cannot go on; it is done from now on."""

    def _leave(self) -> None:  # noqa: B027 - most have nothing to give up
        """Give up what only going on needs."""
