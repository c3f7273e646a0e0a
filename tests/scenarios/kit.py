"""Compares what two runs generated, and tells a difference from rounding.

A model's logits depend on the batch in their last bits. Where the two likeliest tokens are closer
than MARGIN (greedy), or the draw lies closer than CLOSE to a border between two tokens (sampled),
another batch may pick the other token. Such a flip is reported as a warning, never passed over, and
what comes after it in that text (and in turns that follow it) is not compared.
"""

from __future__ import annotations

import warnings
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from pagedviz.engine import SamplingParams
from pagedviz.engine.sampling import candidate_probabilities, uniform_draw
from pagedviz.model import dense_logits
from pagedviz.scenarios import ScenarioRun

MARGIN = 1e-3
CLOSE = 1e-5


class RoundingFlip(UserWarning):
    """Two runs differ where two tokens are all but equally likely."""


def assert_same_outputs(run: ScenarioRun, other: ScenarioRun, what: str) -> None:
    """Token for token, all requests of `run`; each flip by rounding is a RoundingFlip."""
    flipped: set[str] = set()
    for request in run.scenario.requests:
        if request.follows in flipped or not _same_output(run, other, request.name, what):
            flipped.add(request.name)


def _same_output(run: ScenarioRun, other: ScenarioRun, name: str, what: str) -> bool:
    ours, theirs = run.sequence(name), other.sequence(name)
    if ours.generated_ids == theirs.generated_ids:
        return True
    pairs = zip(ours.generated_ids, theirs.generated_ids, strict=False)
    shorter = min(ours.num_generated, theirs.num_generated)
    place = next((i for i, (a, b) in enumerate(pairs) if a != b), shorter)
    known = ours.token_ids[: ours.num_prompt_tokens + place]
    adapter = run.scenario.request(name).adapter
    logits = dense_logits(run.model, known, adapter=adapter)[-1]  # [vocab]
    if ours.sampling.temperature == 0:
        best = np.sort(logits)[-2:]
        distance, allowed = float(best[1] - best[0]), MARGIN
    else:
        distance, allowed = distance_to_another_token(logits, ours.sampling, place), CLOSE
    sentence = (
        f"{run.scenario.name}, {what}: output {place} of {name} differs, "
        f"{distance:.1e} from another token"
    )
    assert distance < allowed, sentence
    warnings.warn(f"{sentence}: rounding", RoundingFlip, stacklevel=3)
    return False


def distance_to_another_token(
    logits: NDArray[np.float32], sampling: SamplingParams, place: int
) -> float:
    """How far, in probability, output `place` is from being another token: from its draw to the
    next border between two tokens, or CLOSE / 2 if a cut (top-p, min-p) as near keeps others."""
    probabilities = candidate_probabilities(logits, sampling)  # [vocab]
    cumulative = np.cumsum(probabilities)
    draw = uniform_draw(sampling.seed, place) * cumulative[-1]
    nearest = float(np.abs(cumulative - draw).min())
    for shift in (-CLOSE, CLOSE):
        for moved in (
            replace(sampling, top_p=min(1.0, max(CLOSE, sampling.top_p + shift))),
            replace(sampling, min_p=min(1.0, max(0.0, sampling.min_p + shift))),
        ):
            kept = candidate_probabilities(logits, moved) > 0
            if (kept != (probabilities > 0)).any():
                nearest = min(nearest, CLOSE / 2)
    return nearest
