"""Rule 8 of an engine that may be faulty: the tokens of every sequence, from events alone, and
whether its tokens and logits are those.

Invariants: the history of a sequence is what was submitted and sampled, never what the engine says
it has; logits are compared with a dense pass over that history, which knows no pages.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial

import numpy as np
from numpy.typing import NDArray

from pagedviz.engine.commit import StepOutcome
from pagedviz.engine.events import (
    Event,
    SequenceForked,
    SequenceScheduled,
    SequenceSubmitted,
    TokenSampled,
)
from pagedviz.engine.invariants import Violation
from pagedviz.engine.snapshot import Snapshot
from pagedviz.model import LanguageModel, dense_logits
from pagedviz.trace.step_logits import StepLogits
from pagedviz.trace.truth import TRUTH, TRUTH_RULE, check_logits


class Histories:
    def __init__(self) -> None:
        self._token_ids: dict[int, list[int]] = {}
        self._adapters: dict[int, str | None] = {}
        self._computed: dict[int, tuple[int, ...]] = {}
        """Of each sequence that the step followed last has scheduled: its computed tokens then."""

    def follow(self, events: Sequence[Event]) -> None:
        """Read the events of a step."""
        self._computed.clear()
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
                    known = self._token_ids[event.seq_id]
                    self._computed[event.seq_id] = tuple(known[: event.start + event.num_tokens])
                case TokenSampled(seq_id=seq_id, token_id=int(token_id)):
                    self._token_ids[seq_id].append(token_id)
                case _:
                    pass

    def untrue_logits(
        self, step: int, outcome: StepOutcome, model: LanguageModel
    ) -> Iterator[Violation]:
        """Rule 8. The logits of the step followed last are those of a plain dense pass of `model`
        over each sequence's history."""
        if outcome.logits is None:
            return
        found = [
            StepLogits(step, s.number, self._computed[s.number], self._adapters[s.number], logits)
            for s, logits in zip(outcome.plan.sequences, outcome.logits, strict=True)
        ]
        for truth in check_logits(found, partial(_dense, model)):
            violated = truth.violated
            if violated is not None:
                yield Violation(
                    TRUTH_RULE, TRUTH.name, violated.message, violated.page_id, violated.seq_id
                )

    def untrue_tokens(self, after: Snapshot) -> Iterator[Violation]:
        """Rule 8. A sequence has the tokens that were submitted and sampled, in that order."""
        for sequence in after.sequences:
            wanted = self._token_ids[sequence.seq_id]
            if list(sequence.token_ids) != wanted:
                yield Violation(
                    TRUTH_RULE,
                    TRUTH.name,
                    f"seq:{sequence.seq_id:d} has {sequence.num_tokens} tokens, {len(wanted)} were "
                    "submitted and sampled",
                    seq_id=sequence.seq_id,
                )


def _dense(
    model: LanguageModel, token_ids: Sequence[int], adapter: str | None
) -> NDArray[np.float32]:
    return dense_logits(model, token_ids, adapter=adapter)
