"""Rule 8: are the logits that came through the pages those of a plain computation without any?

    engine step -> paged logits of each sequence --+
    all its tokens -> dense model, no pages -------+--> largest difference <= tolerance?

Invariants: the plain computation is handed in and shares no state with the engine; nothing that it
gives changes the run; a NaN is never within the tolerance.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from time import perf_counter
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from pagedviz.engine.events import InvariantViolated
from pagedviz.engine.rules import Rule, logit_tolerance
from pagedviz.trace.replay import Replay
from pagedviz.trace.step_logits import StepLogits

TRUTH_RULE = 8
TRUTH = Rule(
    "truth",
    "The logits computed through the pages are those of a plain dense computation of the same "
    "tokens.",
)

Dense = Callable[[Sequence[int], str | None], NDArray[np.float32]]
"""(token_ids, adapter) -> logits of every position, float32 [T, vocab], without pages."""


class Truth(NamedTuple):
    """How far the paged logits of a sequence's newest computed token are from the dense ones.

    error: largest absolute difference. tolerance: 1e-4 * max(1, max|dense logit| / 16). margin: by
    how much the likeliest token leads in the dense logits: where it is below the error, the pages
    may have chosen another token. num_tokens: computed tokens of the sequence.
    """

    step: int
    seq_id: int
    num_tokens: int
    error: float
    tolerance: float
    margin: float

    @property
    def is_ok(self) -> bool:
        return self.error <= self.tolerance

    @property
    def violated(self) -> InvariantViolated | None:
        """The event, if the rule is broken."""
        if self.is_ok:
            return None
        return InvariantViolated(
            TRUTH_RULE,
            f"after {self.num_tokens} tokens the paged logits of seq:{self.seq_id:d} differ from "
            f"the dense ones by {self.error:.3g}, allowed are {self.tolerance:.3g}; the likeliest "
            f"token leads by {self.margin:.3g}",
            None,
            self.seq_id,
        )


class SweptStep(NamedTuple):
    """The truths of one step of a sweep; `num_done` of `num_steps` steps have taken `seconds`."""

    step: int
    truths: tuple[Truth, ...]
    num_done: int
    num_steps: int
    seconds: float


def check_logits(found: Iterable[StepLogits], dense: Dense) -> tuple[Truth, ...]:
    """Each sequence's whole prefix computed densely once more: for a step that was just executed
    (`step_logits` of its outcome)."""
    return tuple(_compare(item, dense(item.token_ids, item.adapter)[-1]) for item in found)


def check_recorded_step(replay: Replay, step: int, dense: Dense) -> tuple[Truth, ...]:
    """The same for a step of a recorded run. As `Replay.logits` raises."""
    return check_logits(replay.logits(step), dense)


def sweep(replay: Replay, dense: Dense, steps: Iterable[int] | None = None) -> Iterator[SweptStep]:
    """All steps of a recorded run, or those given, one at a time: stop by asking for no more.

    Each sequence is computed densely once, with all tokens it ever had: later tokens change no
    earlier logits. As `Replay.logits` raises.
    """
    chosen = range(replay.trace.num_steps) if steps is None else tuple(steps)
    known: dict[int, NDArray[np.float32]] = {}
    seconds = 0.0
    for num_done, step in enumerate(chosen, start=1):
        began = perf_counter()
        truths = []
        for item in replay.logits(step):
            rows = known.get(item.seq_id)  # [T, vocab]
            if rows is None or len(rows) < len(item.token_ids):
                rows = dense(_all_tokens(replay, item), item.adapter)
                known[item.seq_id] = rows
            truths.append(_compare(item, rows[len(item.token_ids) - 1]))
        seconds += perf_counter() - began
        yield SweptStep(step, tuple(truths), num_done, len(chosen), seconds)


def _all_tokens(replay: Replay, item: StepLogits) -> tuple[int, ...]:
    """Those a sequence has at the end of the trace, the last of which may never be computed."""
    final = replay.trace.final.sequence(item.seq_id).token_ids
    known = tuple(token_id for token_id in final if token_id is not None)
    starts_alike = known[: len(item.token_ids)] == item.token_ids
    return known[:-1] if starts_alike and len(known) > len(item.token_ids) else item.token_ids


def _compare(item: StepLogits, dense: NDArray[np.float32]) -> Truth:
    """item.logits, dense: [vocab]."""
    error = float(np.abs(item.logits - dense).max())
    largest = float(np.abs(dense).max())
    second, first = np.partition(dense, -2)[-2:] if len(dense) > 1 else (dense[0], dense[0])
    return Truth(
        item.step,
        item.seq_id,
        len(item.token_ids),
        error,
        logit_tolerance(largest),
        float(first - second),
    )
