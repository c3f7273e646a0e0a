"""Sampling: the filters in their order, logprobs of the model itself, and draws that depend on
nothing but (seed, output index)."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import pytest
from numpy.typing import NDArray

from pagedviz.engine import EngineConfig, SamplingParams, sampling
from pagedviz.engine.sampling import (
    candidate_probabilities,
    sample_token,
    top_logprobs,
    uniform_draw,
)
from tests.engine.kit import ChainModel, CheckedEngine, next_digest


def logits_of(*probabilities: float) -> NDArray[np.float32]:
    return np.log(np.array(probabilities)).astype(np.float32)  # [vocab]


def candidates(logits: NDArray[np.float32], params: SamplingParams) -> list[float]:
    return [round(float(p), 4) for p in candidate_probabilities(logits, params)]


# ---- greedy and logprobs -----------------------------------------------------------------------


def test_temperature_zero_takes_the_likeliest_token_and_the_lower_id_of_equals() -> None:
    assert sample_token(logits_of(0.2, 0.5, 0.3), SamplingParams(), 0).token_id == 1
    assert sample_token(logits_of(0.2, 0.4, 0.4), SamplingParams(), 0).token_id == 1


def test_logprobs_are_those_of_the_model_before_temperature_and_filters() -> None:
    logits = logits_of(0.1, 0.6, 0.3) + np.float32(5)  # softmax does not mind a shift
    for params in (
        SamplingParams(),
        SamplingParams(temperature=4, top_k=1, top_p=0.1, min_p=0.9),
    ):
        found = sample_token(logits, params, 0).top_logprobs
        assert [token_id for token_id, _ in found] == [1, 2, 0]
        expected = [math.log(p) for p in (0.6, 0.3, 0.1)]
        assert [logprob for _, logprob in found] == pytest.approx(expected, abs=1e-6)


def test_as_many_logprobs_are_kept_as_asked_for_and_no_more_than_there_are_tokens() -> None:
    logits = logits_of(0.1, 0.6, 0.3)
    assert sample_token(logits, SamplingParams(num_logprobs=0), 0).top_logprobs == ()
    assert len(sample_token(logits, SamplingParams(num_logprobs=2), 0).top_logprobs) == 2
    assert len(sample_token(logits, SamplingParams(num_logprobs=100), 0).top_logprobs) == 3


def test_logprobs_of_huge_logits_do_not_overflow() -> None:
    found = top_logprobs(np.array([1e4, -1e4, 0.0], dtype=np.float32), 3)
    assert found[0] == (0, pytest.approx(0.0))
    assert [token_id for token_id, _ in found] == [0, 2, 1]


# ---- the filters and their order ---------------------------------------------------------------


def test_temperature_sharpens_and_flattens() -> None:
    logits = logits_of(0.8, 0.2)
    assert candidates(logits, SamplingParams(temperature=1)) == [0.8, 0.2]
    assert candidates(logits, SamplingParams(temperature=0.5)) == [0.9412, 0.0588]  # squared
    assert candidates(logits, SamplingParams(temperature=2)) == [0.6667, 0.3333]  # square roots


def test_a_tiny_temperature_tends_to_greedy_instead_of_overflowing() -> None:
    params = SamplingParams(temperature=1e-320, seed=3)
    logits = np.array([1.0, 9.0, 8.5, -400.0], dtype=np.float32)
    assert sampling.sample_token(logits, params, 0).token_id == 1
    assert candidate_probabilities(logits, params).tolist() == [0, 1, 0, 0]


def test_top_k_keeps_the_k_likeliest_and_the_lower_ids_of_equals() -> None:
    logits = logits_of(0.1, 0.3, 0.3, 0.3)
    assert candidates(logits, SamplingParams(temperature=1, top_k=2)) == [0, 0.5, 0.5, 0]
    assert candidates(logits, SamplingParams(temperature=1, top_k=9)) == [0.1, 0.3, 0.3, 0.3]


def test_top_p_keeps_the_smallest_set_with_that_probability() -> None:
    logits = logits_of(0.5, 0.25, 0.125, 0.125)
    assert candidates(logits, SamplingParams(temperature=1, top_p=0.4)) == [1, 0, 0, 0]
    assert candidates(logits, SamplingParams(temperature=1, top_p=0.7)) == [0.6667, 0.3333, 0, 0]
    assert candidates(logits, SamplingParams(temperature=1, top_p=0.8)) == [
        0.5714,
        0.2857,
        0.1429,
        0,
    ]
    assert candidates(logits, SamplingParams(temperature=1, top_p=1.0)) == [0.5, 0.25, 0.125, 0.125]


def test_min_p_keeps_what_is_at_least_that_fraction_of_the_best() -> None:
    logits = logits_of(0.5, 0.26, 0.24)
    assert candidates(logits, SamplingParams(temperature=1, min_p=0.5)) == [0.6579, 0.3421, 0]


def test_temperature_comes_before_top_p() -> None:
    # At temperature 0.5 the first token alone has 0.73; at 1 it takes two.
    logits = logits_of(0.5, 0.25, 0.125, 0.125)
    assert candidates(logits, SamplingParams(temperature=0.5, top_p=0.7)) == [1, 0, 0, 0]


def test_temperature_comes_before_min_p() -> None:
    # The second is half as likely as the first, 0.71 times at temperature 2.
    logits = logits_of(0.5, 0.25, 0.125, 0.125)
    assert candidates(logits, SamplingParams(temperature=2, min_p=0.6)) == [0.5858, 0.4142, 0, 0]


def test_top_k_comes_before_top_p() -> None:
    # Of the two left by top-k the first has 0.67; of all four it has 0.5.
    logits = logits_of(0.5, 0.25, 0.125, 0.125)
    assert candidates(logits, SamplingParams(temperature=1, top_k=2, top_p=0.6)) == [1, 0, 0, 0]


def test_top_p_comes_before_min_p() -> None:
    # Once min-p had dropped the third, the first alone would have 0.506.
    logits = logits_of(0.45, 0.44, 0.11)
    params = SamplingParams(temperature=1, top_p=0.5, min_p=0.9)
    assert candidates(logits, params) == [0.5056, 0.4944, 0]


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("params", [SamplingParams(), SamplingParams(temperature=1, top_k=2)])
@pytest.mark.parametrize(("bad", "token_id"), [([0, 1, 2, 3], 0), ([2, 3], 2)])
def test_logits_with_nan_give_a_token_that_the_model_knows(
    params: SamplingParams, bad: list[int], token_id: int
) -> None:
    logits = logits_of(0.1, 0.2, 0.3, 0.4)
    logits[bad] = math.nan
    assert sample_token(logits, params, 0).token_id == token_id


@pytest.mark.parametrize("draw", [0.0, 1 - 2**-53])
def test_a_filtered_token_is_never_drawn(monkeypatch: pytest.MonkeyPatch, draw: float) -> None:
    monkeypatch.setattr(sampling, "uniform_draw", lambda seed, output_index: draw)
    rng = np.random.default_rng(5)
    for _ in range(50):
        logits = rng.normal(size=20).astype(np.float32)
        params = SamplingParams(temperature=1, top_k=3)
        token_id = sample_token(logits, params, 0).token_id
        assert candidate_probabilities(logits, params)[token_id] > 0


# ---- draws -------------------------------------------------------------------------------------


def test_a_draw_is_a_function_of_seed_and_index() -> None:
    draws = [uniform_draw(seed, index) for seed in range(20) for index in range(20)]
    again = [uniform_draw(seed, index) for seed in range(20) for index in range(20)]
    assert draws == again
    assert len(set(draws)) == 400
    assert all(0 <= draw < 1 for draw in draws)


def test_draws_are_the_same_on_every_machine() -> None:
    assert uniform_draw(0, 0) == 0.011546754286331562
    assert uniform_draw(2**64 - 1, 0) == 0.23494158814525556
    assert uniform_draw(2**64 - 1, 1) == 0.3501621337115973


def chi_square(counts: Sequence[int], probabilities: Sequence[float]) -> float:
    total = sum(counts)
    return sum(
        (count - total * p) ** 2 / (total * p)
        for count, p in zip(counts, probabilities, strict=True)
        if p
    )


# The value that chi-square exceeds once in a thousand times, by degrees of freedom.
CRITICAL = {2: 13.82, 3: 16.27, 5: 20.52}


@pytest.mark.parametrize(
    "params",
    [
        SamplingParams(temperature=1, seed=11),
        SamplingParams(temperature=0.7, seed=12),
        SamplingParams(temperature=1.5, top_k=4, seed=13),
        SamplingParams(temperature=1, top_p=0.8, seed=14),
        SamplingParams(temperature=1, min_p=0.4, seed=15),
    ],
)
def test_frequencies_over_the_outputs_of_one_seed_fit_the_distribution(
    params: SamplingParams,
) -> None:
    logits = logits_of(0.3, 0.25, 0.2, 0.13, 0.08, 0.04)
    expected = [float(p) for p in candidate_probabilities(logits, params)]
    counts = [0] * len(expected)
    for index in range(4_000):
        counts[sample_token(logits, params, index).token_id] += 1
    assert all(count == 0 for count, p in zip(counts, expected, strict=True) if not p)
    assert chi_square(counts, expected) < CRITICAL[sum(p > 0 for p in expected) - 1]


def test_frequencies_over_seeds_fit_the_distribution_too() -> None:
    logits = logits_of(0.4, 0.3, 0.2, 0.1)
    counts = [0] * 4
    for seed in range(4_000):
        params = SamplingParams(temperature=1, seed=seed)
        counts[sample_token(logits, params, 3).token_id] += 1
    assert chi_square(counts, [0.4, 0.3, 0.2, 0.1]) < CRITICAL[3]


# ---- in the engine -----------------------------------------------------------------------------


class SpreadModel(ChainModel):
    """As ChainModel, with logits that leave a choice; token 4 does not end a sequence."""

    eos_token_ids = ()

    @staticmethod
    def make_logits(digest: int) -> NDArray[np.float32]:
        spread = [digest * factor % 97 / 40 for factor in (3, 5, 7, 11, 13)]
        return np.array(spread, dtype=np.float32)  # [vocab]

    def sampled(self, prompt: Sequence[int], params: SamplingParams, count: int) -> list[int]:
        digest, tokens = 1, list[int]()
        for token_id in prompt:
            digest = next_digest(digest, token_id)
        for index in range(count):
            tokens.append(sample_token(self.make_logits(digest), params, index).token_id)
            digest = next_digest(digest, tokens[-1])
        return tokens


@pytest.mark.parametrize(
    "settings",
    [
        {"num_pages": 64},
        {"num_pages": 64, "max_running": 1},
        {"num_pages": 64, "prefix_caching": False},
        {"num_pages": 64, "chunk_size": 2, "max_tokens_per_step": 7},
        {"num_pages": 8, "full_prompt_gate": False},
    ],
    ids=["together", "one by one", "no caching", "chunked", "preempted"],
)
def test_seeded_samples_do_not_depend_on_batching_caching_chunks_or_preemption(
    settings: dict[str, int],
) -> None:
    model = SpreadModel()
    lab = CheckedEngine(EngineConfig(**{"block_size": 3, **settings}), model)
    prompts = [[0, 1, 2, 3, 4, 0, last % 5] for last in range(8)]
    for seed, prompt in enumerate(prompts):
        params = SamplingParams(temperature=1, top_p=0.95, seed=seed // 2)
        lab.engine.submit(prompt, params, max_new_tokens=12)
    lab.finish()
    num_preemptions = sum(view.num_preemptions for view in lab.after.sequences)
    assert (num_preemptions > 0) == (settings["num_pages"] == 8)
    generated = [list(view.generated_ids) for view in lab.after.sequences]
    assert generated == [
        model.sampled(prompt, SamplingParams(temperature=1, top_p=0.95, seed=seed // 2), 12)
        for seed, prompt in enumerate(prompts)
    ]
    assert len({tuple(tokens) for tokens in generated}) > 4
