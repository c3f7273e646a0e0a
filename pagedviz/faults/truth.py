"""What only the model can tell: whether tokens and logits are true, and what attention read.

Invariants: the history of a sequence is what was submitted and sampled, never what the engine says
it has; logits are compared with a dense pass over that history, which knows no pages.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from pagedviz.engine.events import (
    Event,
    SequenceForked,
    SequenceScheduled,
    SequenceSubmitted,
    TokenSampled,
)
from pagedviz.engine.invariants import Violation
from pagedviz.engine.rules import RULES, logit_tolerance
from pagedviz.engine.snapshot import Snapshot
from pagedviz.engine.sub_batches import sub_batches
from pagedviz.faults.model_tap import ModelTap
from pagedviz.model import LanguageModel, dense_logits
from pagedviz.trace.truth import TRUTH, TRUTH_RULE

READS = 11


class Computed(NamedTuple):
    """A chunk of a step: `stop` tokens are computed once it is done, and those are `token_ids`."""

    seq_id: int
    adapter: str | None
    stop: int
    token_ids: list[int]


class Histories:
    """The tokens of every sequence, from what was submitted, forked and sampled, and what the step
    followed last has computed of them, in the order in which the model answers."""

    def __init__(self) -> None:
        self._token_ids: dict[int, list[int]] = {}
        self._adapters: dict[int, str | None] = {}
        self.computed: list[Computed] = []

    def tokens(self, seq_id: int) -> list[int]:
        return self._token_ids[seq_id]

    def follow(self, events: Sequence[Event]) -> None:
        """Read the events of a step."""
        chunks: list[Computed] = []
        for event in events:
            match event:
                case SequenceSubmitted():
                    self._token_ids[event.seq_id] = list(event.prompt_ids)
                    self._adapters[event.seq_id] = event.adapter
                case SequenceForked():
                    parent = self._token_ids[event.parent_id]
                    self._token_ids[event.seq_id] = parent[: event.num_tokens]
                    self._adapters[event.seq_id] = self._adapters[event.parent_id]
                case SequenceScheduled():
                    stop = event.start + event.num_tokens
                    known = self._token_ids[event.seq_id][:stop]
                    adapter = self._adapters[event.seq_id]
                    chunks.append(Computed(event.seq_id, adapter, stop, known))
                case TokenSampled(seq_id=seq_id, token_id=int(token_id)):
                    self._token_ids[seq_id].append(token_id)
                case _:
                    pass
        rows = sub_batches(chunk.adapter for chunk in chunks)
        self.computed = [chunks[index] for batch in rows for index in batch]


def untrue_tokens(histories: Histories, after: Snapshot) -> Iterator[Violation]:
    """Rule 8. A sequence has the tokens that were submitted and sampled, in that order."""
    for sequence in after.sequences:
        wanted = histories.tokens(sequence.seq_id)
        if list(sequence.token_ids) != wanted:
            yield _untrue(
                f"seq:{sequence.seq_id:d} has {sequence.num_tokens} tokens, {len(wanted)} were "
                "submitted and sampled",
                sequence.seq_id,
            )


def untrue_logits(model: LanguageModel, tap: ModelTap, histories: Histories) -> Iterator[Violation]:
    """Rule 8. The logits of a step are those of a plain dense pass over each sequence's history."""
    for logits, chunk in zip(tap.logits, histories.computed, strict=False):
        dense = dense_logits(model, chunk.token_ids, adapter=chunk.adapter)[-1]  # [vocab]
        error = float(np.abs(logits.astype(np.float64) - dense).max())
        allowed = logit_tolerance(float(np.abs(dense).max()))
        if not error <= allowed:  # NaN is not
            yield _untrue(
                f"the logits of seq:{chunk.seq_id:d} after {chunk.stop} tokens are off by "
                f"{error:.3g} from a dense recompute, {allowed:.3g} is allowed",
                chunk.seq_id,
            )


def _untrue(message: str, seq_id: int) -> Violation:
    return Violation(TRUTH_RULE, TRUTH.name, message, seq_id=seq_id)


def unplanned_reads(tap: ModelTap, histories: Histories, after: Snapshot) -> Iterator[Violation]:
    """Rule 11. Attention reads no slot behind computed + scheduled."""
    for num_keys, chunk in zip(tap.num_keys, histories.computed, strict=False):
        if num_keys > chunk.stop:
            yield Violation(
                READS,
                RULES[READS].name,
                f"attention of seq:{chunk.seq_id:d} reads {num_keys} slots, {chunk.stop} are "
                f"computed or scheduled: slots {chunk.stop} to {num_keys - 1} are not written",
                _page_of(after, chunk.seq_id, chunk.stop),
                chunk.seq_id,
            )


def _page_of(snapshot: Snapshot, seq_id: int, position: int) -> int | None:
    page_ids = snapshot.sequence(seq_id).page_ids
    index = position // snapshot.block_size
    return page_ids[index] if index < len(page_ids) else None
