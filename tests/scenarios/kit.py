"""Compares what two runs generated, and tells a difference from rounding.

A model's logits depend on the batch in their last bits. Where the two likeliest tokens are closer
than TOLERANCE, another batch may pick the other: such a flip is reported, never passed over, and
what comes after it in that text (and in turns that follow) is not compared.
"""

from __future__ import annotations

import warnings

from pagedviz.scenarios import ScenarioRun

TOLERANCE = 1e-3


class RoundingFlip(UserWarning):
    """Two runs differ where two tokens are all but equally likely."""


def assert_same_outputs(run: ScenarioRun, other: ScenarioRun, what: str) -> None:
    """Token for token, but for flips by rounding, each of which is a RoundingFlip warning."""
    flipped: set[str] = set()
    for request in run.scenario.requests:
        name = request.name
        if request.follows in flipped:
            flipped.add(name)
            continue
        ours, theirs = (r.sequence(name).generated_ids for r in (run, other))
        if ours == theirs:
            continue
        pairs = enumerate(zip(ours, theirs, strict=False))
        place = next((i for i, (a, b) in pairs if a != b), min(len(ours), len(theirs)))
        margin = top_two_margin(run, name, place)
        assert margin < TOLERANCE, (
            f"{run.scenario.name}, {what}: output {place} of {name} is {ours[place]} or "
            f"{theirs[place]} with a margin of {margin}"
        )
        warnings.warn(
            f"{run.scenario.name}, {what}: output {place} of {name} flipped by rounding, the two "
            f"likeliest tokens are {margin:.4f} apart",
            RoundingFlip,
            stacklevel=2,
        )
        flipped.add(name)


def top_two_margin(run: ScenarioRun, name: str, place: int) -> float:
    """How much likelier, in log probability, the best token was than the next at an output."""
    seq_id = run.seq_ids[name]
    of_sequence = [r.logprobs[seq_id] for r in run.trace.steps if seq_id in (r.logprobs or {})]
    best, second = of_sequence[place][:2]
    return best[1] - second[1]
