"""Divide the sequences of a step by adapter: one call of the model computes under one adapter.

    plan          A      B:sql   C      D:sql         one forward each:   A C | B D

Sound, because pages are only ever shared under one adapter: whoever reads a page that another one
fills in this very step is in the same call, which writes all K/V of a layer before it reads any.

Invariants: every sequence is in exactly one sub-batch; equal adapters share one, others never do;
sub-batches stand in order of their first sequence, sequences in the plan's order.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence

from pagedviz.engine.errors import ConfigError


def sub_batches(adapters: Iterable[Hashable]) -> list[list[int]]:
    """The adapter of each sequence of a step -> the indices of each sub-batch."""
    rows: dict[Hashable, list[int]] = {}
    for index, adapter in enumerate(adapters):
        rows.setdefault(adapter, []).append(index)
    return list(rows.values())


def check_adapter(adapter: str | None, known: Sequence[str]) -> None:
    """ConfigError for an adapter that the model does not have."""
    if adapter is not None and adapter not in known:
        there = f"it has {', '.join(known)}, or none" if known else "it has none"
        raise ConfigError(f"the model has no adapter {adapter!r}; {there}")
