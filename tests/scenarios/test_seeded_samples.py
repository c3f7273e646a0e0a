"""A seeded sample is the same alone and in a crowd: batched, chunked, cached, preempted."""

from __future__ import annotations

import random
from collections import Counter
from typing import Any

import pytest

from pagedviz.engine.events import Event, SequenceAdmitted, SequencePreempted, SequenceScheduled
from pagedviz.model import LanguageModel, load_tiny
from pagedviz.scenarios import Scenario, ScenarioRun, load_scenario, parse_scenario
from tests.scenarios.kit import assert_same_outputs

PROMPTS = [r.prompt for n in ("shared_prompt", "thrash") for r in load_scenario(n).requests]
NEW_TOKENS = 20


@pytest.fixture(scope="module")
def tiny() -> LanguageModel:
    return load_tiny()


def draw_requests(rng: random.Random) -> list[dict[str, Any]]:
    requests = []
    for number in range(3):
        sampling: dict[str, Any] = {
            "temperature": rng.choice([0.5, 0.8, 1.0, 1.5]),
            "seed": rng.randrange(1 << 32),
        }
        if rng.random() < 0.4:
            sampling["top_k"] = rng.choice([2, 5, 40])
        if rng.random() < 0.4:
            sampling["top_p"] = rng.choice([0.5, 0.9, 0.99])
        if rng.random() < 0.4:
            sampling["min_p"] = rng.choice([0.02, 0.1, 0.3])
        requests.append(
            {
                "name": f"r{number}",
                "prompt": rng.choice(PROMPTS),
                "max_new_tokens": NEW_TOKENS,
                "arrival_step": rng.randint(0, 3),
                **sampling,
            }
        )
    return requests


def scenario(requests: list[dict[str, Any]], **engine: Any) -> Scenario:
    values = {"title": "t", "description": "d", "engine": engine, "requests": requests}
    return parse_scenario(values, "samples")


def crowded(rng: random.Random, requests: list[dict[str, Any]], model: LanguageModel) -> Scenario:
    """All at once, in chunks, in as few pages as the longest needs and a few more."""
    assert model.tokenizer is not None
    block_size = rng.choice([3, 4, 8])
    longest = max(len(model.tokenizer.encode(r["prompt"])) for r in requests) + NEW_TOKENS
    return scenario(
        requests,
        block_size=block_size,
        num_pages=-(-longest // block_size) + rng.randint(0, 12),
        chunk_size=rng.choice([None, 5, 7, 16]),
        max_tokens_per_step=rng.choice([9, 16, 64]),
        full_prompt_gate=rng.random() < 0.5,
    )


@pytest.mark.random
def test_a_seeded_sample_is_the_same_alone_and_in_a_crowd(tiny: LanguageModel, soak: bool) -> None:
    seen = Counter[str]()
    for seed in range(200 if soak else 20):
        rng = random.Random(seed)
        requests = draw_requests(rng)
        together = ScenarioRun(crowded(rng, requests, tiny), tiny)
        together.run(max_steps=3000)
        assert together.is_done
        seen.update(_features(e) for r in together.trace.steps for e in r.events)
        for request in requests:
            alone = ScenarioRun(
                scenario(
                    [request],
                    block_size=16,
                    num_pages=64,
                    prefix_caching=False,
                    max_tokens_per_step=4096,
                ),
                tiny,
            )
            alone.run()
            assert_same_outputs(alone, together, f"seed {seed}")
    assert min(seen["hit"], seen["preempted"], seen["chunk"]) >= 5, seen


def _features(event: Event) -> str:
    match event:
        case SequenceAdmitted(num_cached=cached) if cached:
            return "hit"
        case SequencePreempted():
            return "preempted"
        case SequenceScheduled(start=start, num_tokens=count) if start and count > 1:
            return "chunk"
        case _:
            return "other"
