"""One thread for the whole server that works on while people look at what is there: it records
runs further and compares logits.

Invariants: jobs take turns, so a long one does not keep the others waiting; one that nobody
keeps any more is dropped; there is no thread while there is nothing to do.
"""

from __future__ import annotations

import time
from collections import deque
from threading import Lock, Thread
from typing import Protocol
from weakref import ReferenceType, ref

TURN_SECONDS = 0.01
# Between two turns requests get their way: only one thread computes at a time.
_PAUSE_SECONDS = 0.005


class Job(Protocol):
    """What is done a turn at a time: a Recording, a Sweep. is_growing: there is more to do."""

    @property
    def is_growing(self) -> bool: ...

    def turn(self, seconds: float) -> bool:
        """Work so long, and whether there is more to do."""
        ...


class Worker:
    def __init__(self) -> None:
        self._lock = Lock()
        self._queue: deque[ReferenceType[Job]] = deque()
        self._thread: Thread | None = None

    def add(self, job: Job) -> None:
        """Do it to its end, beside those already there."""
        with self._lock:
            if job.is_growing and all(there() is not job for there in self._queue):
                self._queue.append(ref(job))
        self.start()

    def start(self) -> None:
        """Have the thread at work, if there is anything to do."""
        with self._lock:
            if self._queue and (self._thread is None or not self._thread.is_alive()):
                # A daemon: a server that is told to stop does not wait for runs.
                self._thread = Thread(target=self._work, name="pagedviz recording", daemon=True)
                self._thread.start()

    def turn(self, seconds: float = TURN_SECONDS) -> bool:
        """Some steps of the job whose turn it is; False if there was none."""
        with self._lock:
            if not self._queue:
                self._thread = None
                return False
            reference = self._queue.popleft()
        job = reference()
        if job is not None and job.turn(seconds):
            with self._lock:
                self._queue.append(reference)
        return True

    def _work(self) -> None:
        while self.turn():
            time.sleep(_PAUSE_SECONDS)
