"""From logits to a token: temperature, then top-k, then top-p, then min-p, then one seeded draw.

Invariant: the draw for output token i of a sequence is a function of (seed, i) alone, so batching,
chunking, caching and preemption never change it. Logprobs are those of the model, before
temperature.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from pagedviz.engine.config import check_int
from pagedviz.engine.errors import ConfigError


@dataclass(frozen=True, slots=True)
class SamplingParams:
    """How one sequence picks tokens.

    temperature: 0 = greedy. top_k: most candidates, None = all. top_p: smallest set of candidates
    with at least this probability. min_p: candidates at least this fraction as likely as the best.
    seed: of the draws. stop_ids: tokens that end the sequence, besides the model's EOS.
    num_logprobs: how many of the likeliest tokens are kept with their logprobs.
    """

    temperature: float = 0.0
    top_k: int | None = None
    top_p: float = 1.0
    min_p: float = 0.0
    seed: int = 0
    stop_ids: tuple[int, ...] = ()
    num_logprobs: int = 5

    def of_sample(self, number: int) -> SamplingParams:
        """The parameters of parallel sample `number`: sample 0 draws with the seed itself, each
        further one with the next."""
        return replace(self, seed=(self.seed + number) % (1 << 64))

    def __post_init__(self) -> None:
        for name, low, high in (("temperature", 0, 100), ("top_p", 0, 1), ("min_p", 0, 1)):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int | float):
                raise ConfigError(f"{name} must be a number, got {value!r}")
            if not low <= value <= high or (name == "top_p" and value == 0):
                raise ConfigError(f"{name} must be in [{low}, {high}], got {value}")
        if self.top_k is not None:
            check_int("top_k", self.top_k, 1)
        check_int("seed", self.seed, 0, (1 << 64) - 1)
        check_int("num_logprobs", self.num_logprobs, 0, 100)
        for token_id in self.stop_ids:
            check_int("a stop id", token_id, 0)


class SampledToken(NamedTuple):
    """A picked token and the likeliest candidates, (token_id, logprob), best first."""

    token_id: int
    top_logprobs: tuple[tuple[int, float], ...]


def uniform_draw(seed: int, output_index: int) -> float:
    """A number in [0, 1): the first double of Philox (a counter-based generator) with `seed` as its
    key and `output_index` as its counter."""
    bits = np.random.Philox(key=seed, counter=output_index)
    return float(np.random.Generator(bits).random())


def candidate_probabilities(
    logits: NDArray[np.floating], params: SamplingParams
) -> NDArray[np.float64]:
    """[vocab] probabilities after temperature, top-k, top-p and min-p; they sum to 1. The best of
    the logits must be finite.

    Ties at a cut are broken by the lower token id.
    """
    # The best logit becomes 0 first: a tiny temperature then tends to greedy instead of inf - inf.
    below_best = logits.astype(np.float64) - float(logits.max())  # [vocab] <= 0
    with np.errstate(over="ignore"):
        probabilities = np.exp(below_best / params.temperature)
    order = np.argsort(-probabilities, kind="stable")  # [vocab] best first
    if params.top_k is not None:
        order = order[: params.top_k]
    if params.top_p < 1:
        share = probabilities[order]
        cumulative = np.cumsum(share / share.sum())
        order = order[: int(np.searchsorted(cumulative, params.top_p)) + 1]
    order = order[probabilities[order] >= params.min_p * probabilities[order[0]]]
    kept = np.zeros_like(probabilities)
    kept[order] = probabilities[order]
    result: NDArray[np.float64] = kept / kept.sum()
    return result


def top_logprobs(logits: NDArray[np.floating], count: int) -> tuple[tuple[int, float], ...]:
    """The `count` likeliest tokens with their logprobs under the plain softmax, best first."""
    exact = logits.astype(np.float64)  # [vocab]
    best = np.argsort(-exact, kind="stable")[:count]
    log_total = exact.max() + np.log(np.exp(exact - exact.max()).sum())
    return tuple((int(i), float(exact[i] - log_total)) for i in best)


def sample_token(
    logits: NDArray[np.floating], params: SamplingParams, output_index: int
) -> SampledToken:
    """Pick output token `output_index` of a sequence from its logits, [vocab].

    Logits with NaN, from a page that was read before it was written, have no probabilities to draw
    by: the token is then the one that greedy takes too, the first NaN. It is one that the model
    knows, so the run goes on for rule 8 to show where it went wrong.
    """
    candidates = top_logprobs(logits, params.num_logprobs)
    if params.temperature == 0 or not math.isfinite(logits.max()):
        return SampledToken(int(np.argmax(logits)), candidates)
    probabilities = candidate_probabilities(logits, params)
    # Summed in order of token id, not of probability: rounding noise that swaps two neighbours in
    # the ranking then leaves the draw alone.
    cumulative = np.cumsum(probabilities)
    # Below the total even if the product rounds up, so that the token found is a candidate.
    total = np.nextafter(cumulative[-1], 0)
    draw = min(uniform_draw(params.seed, output_index) * cumulative[-1], total)
    token_id = int(np.searchsorted(cumulative, draw, side="right"))
    return SampledToken(token_id, candidates)
