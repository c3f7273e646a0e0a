"""The logits of one step with the tokens they follow from, which is all that is needed to compute
them once more in another way.

Invariant: nothing here knows of pages.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from pagedviz.engine.commit import StepOutcome


class StepLogits(NamedTuple):
    """token_ids: all tokens of a sequence that were computed by the end of `step`; logits: of the
    last of them, float32 [vocab]."""

    step: int
    seq_id: int
    token_ids: tuple[int, ...]
    adapter: str | None
    logits: NDArray[np.float32]


def step_logits(step: int, outcome: StepOutcome) -> tuple[StepLogits, ...]:
    """Of every sequence that an engine's step computed; none without a model."""
    if outcome.logits is None:
        return ()
    return tuple(
        StepLogits(
            step,
            sequence.number,
            tuple(sequence.token_ids[:stop]),
            None if sequence.adapter_id is None else sequence.adapter_id.name,
            logits,
        )
        for sequence, stop, logits in zip(
            outcome.plan.sequences, outcome.stops, outcome.logits, strict=True
        )
    )
