"""Workloads of the faults: requests, forks and aborts, each before a given step.

Invariant: a workload is data, tokens included, so that it runs the same everywhere.
"""

from __future__ import annotations

from typing import NamedTuple

from pagedviz.engine.config import EngineConfig

Tokens = tuple[int, ...]


def spelled(letters: str) -> Tokens:
    """One token a letter, its code point; blanks only show where pages end."""
    return tuple(ord(letter) for letter in letters if letter != " ")


class Ask(NamedTuple):
    """A request. prompt: a text needs a model with a tokenizer. output: tokens to take instead of
    sampling, forks: those of the samples after the first; required without a model."""

    name: str
    prompt: str | Tokens
    step: int = 0
    output: Tokens = ()
    max_new_tokens: int | None = None
    num_samples: int = 1
    forks: tuple[Tokens, ...] = ()
    temperature: float = 0.0
    seed: int = 0


class Fork(NamedTuple):
    """A fork of the running request `parent`, which goes on with `output`."""

    name: str
    parent: str
    step: int
    output: Tokens = ()


class Abort(NamedTuple):
    """The request `name` is taken back."""

    name: str
    step: int


Command = Ask | Fork | Abort


class Workload(NamedTuple):
    """commands: those of one step in order. has_model: tokens are computed, not only booked.
    is_poisoned: slots that hold nothing hold NaN. max_steps: where a run that cannot end is cut."""

    config: EngineConfig
    commands: tuple[Command, ...]
    has_model: bool = False
    is_poisoned: bool = False
    max_steps: int = 80
