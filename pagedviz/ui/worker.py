"""One thread for the whole server that records runs further while people look at their start.

Invariants: runs take turns, so a long one does not keep the others waiting; a run that nobody
keeps any more is not recorded further; there is no thread while there is nothing to do.
"""

from __future__ import annotations

import time
from collections import deque
from threading import Lock, Thread
from weakref import ReferenceType, ref

from pagedviz.ui.recording import Recording

TURN_SECONDS = 0.01
# Between two turns requests get their way: only one thread computes at a time.
_PAUSE_SECONDS = 0.005


class Worker:
    def __init__(self) -> None:
        self._lock = Lock()
        self._queue: deque[ReferenceType[Recording]] = deque()
        self._thread: Thread | None = None

    def add(self, recording: Recording) -> None:
        """Record it to its end, beside those already there."""
        with self._lock:
            if recording.is_growing and all(there() is not recording for there in self._queue):
                self._queue.append(ref(recording))
        self.start()

    def start(self) -> None:
        """Have the thread at work, if there is anything to do."""
        with self._lock:
            if self._queue and (self._thread is None or not self._thread.is_alive()):
                # A daemon: a server that is told to stop does not wait for runs.
                self._thread = Thread(target=self._work, name="pagedviz recording", daemon=True)
                self._thread.start()

    def turn(self, seconds: float = TURN_SECONDS) -> bool:
        """Some steps of the run whose turn it is; False if there was none."""
        with self._lock:
            if not self._queue:
                self._thread = None
                return False
            reference = self._queue.popleft()
        recording = reference()
        if recording is not None and recording.turn(seconds):
            with self._lock:
                self._queue.append(reference)
        return True

    def _work(self) -> None:
        while self.turn():
            time.sleep(_PAUSE_SECONDS)
