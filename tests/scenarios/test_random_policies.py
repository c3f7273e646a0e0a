"""Swapped out and back, computed again, never preempted: the same tokens, on random workloads."""

from __future__ import annotations

import random
from collections import Counter
from typing import Any

import pytest

from pagedviz.engine.events import SequencePreempted, SwappedIn, SwappedOut
from pagedviz.model import LanguageModel, load_tiny
from pagedviz.scenarios import Scenario, ScenarioRun, parse_scenario
from tests.conftest import SOAK
from tests.scenarios.kit import assert_same_outputs
from tests.scenarios.test_seeded_samples import PROMPTS

BLOCKS = 10
PER_BLOCK = 50 if SOAK else 5
NEW_TOKENS = 12


@pytest.fixture(scope="module")
def tiny() -> LanguageModel:
    return load_tiny()


def draw_requests(rng: random.Random, model: LanguageModel) -> list[dict[str, Any]]:
    """Greedy and sampled ones, some under an adapter, some in several samples."""
    return [
        {
            "name": f"r{number}",
            "prompt": rng.choice(PROMPTS)[: rng.randint(20, 90)],
            "max_new_tokens": rng.randint(2, NEW_TOKENS),
            "arrival_step": rng.randint(0, 4),
            "temperature": rng.choice((0.0, 0.0, 0.8)),
            "seed": rng.randrange(1 << 32),
            "num_samples": rng.choice((1, 1, 1, 2)),
            **rng.choice(({}, {}, {"adapter": rng.choice(model.adapter_names)})),
        }
        for number in range(rng.randint(3, 5))
    ]


def with_engine(requests: list[dict[str, Any]], engine: dict[str, Any]) -> Scenario:
    values = {"title": "t", "description": "d", "engine": engine, "requests": requests}
    return parse_scenario(values, "policies")


def finished(requests: list[dict[str, Any]], model: LanguageModel, **engine: Any) -> ScenarioRun:
    run = ScenarioRun(with_engine(requests, engine), model)
    run.run(max_steps=2000)
    assert run.is_done
    return run


@pytest.mark.random
@pytest.mark.parametrize("block", range(BLOCKS))
def test_swapped_computed_again_and_never_preempted_give_the_same_tokens(
    block: int, tiny: LanguageModel
) -> None:
    assert tiny.tokenizer is not None
    seen = Counter[str]()
    for seed in range(block * PER_BLOCK, (block + 1) * PER_BLOCK):
        rng = random.Random(seed)
        requests = draw_requests(rng, tiny)
        size = rng.choice((2, 3, 4, 8))
        longest = max(len(tiny.tokenizer.encode(r["prompt"])) for r in requests) + NEW_TOKENS
        tight = {
            "block_size": size,
            "num_pages": -(-longest // size) + rng.randint(0, 4),
            "max_tokens_per_step": rng.choice((8, 20, 64)),
            "full_prompt_gate": rng.random() < 0.5,
            "prefix_caching": rng.random() < 0.7,
        }
        calm = finished(requests, tiny, block_size=16, num_pages=64, max_tokens_per_step=4096)
        for policy, host_pages in (("recompute", 0), ("swap", rng.choice((3, 64)))):
            run = finished(requests, tiny, **tight, preemption=policy, host_pages=host_pages)
            assert_same_outputs(calm, run, f"{policy}, seed {seed}")
            events = [type(event) for record in run.trace.steps for event in record.events]
            seen.update(f"{policy} {kind.__name__}" for kind in events)
        assert not any(
            isinstance(event, SequencePreempted)
            for record in calm.trace.steps
            for event in record.events
        )
    for kind in (SequencePreempted, SwappedOut, SwappedIn):
        assert seen[f"swap {kind.__name__}"] > 0, seen
    assert seen[f"recompute {SequencePreempted.__name__}"] > 0
