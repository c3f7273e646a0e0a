"""The states of a sequence, as labels with the one number that belongs to each.

                 +--------- chunk ---------+
                 v                         |
    Waiting -> Prefilling(chunk_start) ----+--> Decoding --> Finished(reason)
                 ^                                |
                 +---- Preempted(num_generated) <-+   (also from Prefilling)

Invariant: a state is a value; what leads from one to another is in sequence.py.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class FinishReason(Enum):
    """Why a sequence stopped. PREEMPTED: given up for want of pages, not to be resumed. PRUNED: a
    beam that fell out of the best."""

    EOS = "eos"
    STOP = "stop"
    MAX_LENGTH = "max_length"
    PREEMPTED = "preempted"
    ABORTED = "aborted"
    PRUNED = "pruned"


@dataclass(frozen=True, slots=True)
class Waiting:
    name = "waiting"


@dataclass(frozen=True, slots=True)
class Prefilling:
    """`chunk_start` is the next token to compute; it indexes prompt + generated after a resume."""

    chunk_start: int
    name = "prefilling"


@dataclass(frozen=True, slots=True)
class Decoding:
    name = "decoding"


@dataclass(frozen=True, slots=True)
class Preempted:
    num_generated: int
    name = "preempted"


@dataclass(frozen=True, slots=True)
class Finished:
    reason: FinishReason
    name = "finished"


SequenceState = Waiting | Prefilling | Decoding | Preempted | Finished
