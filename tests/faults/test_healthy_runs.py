"""Without a fault nothing is broken: on 10,000 random steps with every setting varied (a tenth of
them unless PAGEDVIZ_SOAK=1) and the engine's own check on, and with NaN in all slots that hold
nothing."""

from __future__ import annotations

import math
from random import Random

import pytest

from pagedviz.engine import EngineConfig, PagedVizError, SamplingParams, SeqId
from pagedviz.engine.pages import KvPageConfig, PoisonedPool
from pagedviz.engine.profiles import PROFILES
from pagedviz.faults import Play, Workload
from pagedviz.model import load_tiny
from pagedviz.scenarios import ScenarioRun, load_scenario, scenario_names
from tests.conftest import SOAK

NUM_STEPS = 10_000 if SOAK else 1_000
PREFIXES = ([], [1, 1, 1, 1], [1, 1, 1, 1, 2, 2, 2, 2], [1, 2, 3, 1, 2, 3, 1, 2, 3, 1])


def random_config(random: Random) -> EngineConfig:
    return EngineConfig(
        num_pages=random.randint(4, 14),
        block_size=random.randint(1, 5),
        max_running=random.choice((2, 4, 8)),
        max_tokens_per_step=random.choice((3, 6, 10, 40)),
        prefix_caching=random.random() < 0.8,
        full_prompt_gate=random.random() < 0.5,
        watermark=random.choice((0.0, 0.0, 0.2)),
        chunk_size=random.choice((None, None, 2, 5)),
        preemption=random.choice(("recompute", "swap", "abort")),
        host_pages=random.choice((1, 4, 40)),
        profile=random.choice(tuple(PROFILES)),
    )


def random_run(random: Random, has_model: bool) -> Play:
    """Ten to forty steps of random requests, forks and aborts, then to the end."""
    workload = Workload(random_config(random), (), has_model=has_model, is_poisoned=True)
    play = Play(workload, load_tiny())
    engine = play.engine
    for _ in range(random.randint(10, 40)):
        for _ in range(random.choice((0, 0, 1, 1, 3))):
            outputs = random.choices((1, 2, 3), k=random.randint(1, 8))
            num_samples = random.choice((1, 1, 2))
            try:
                engine.submit(
                    random.choice(PREFIXES) + random.choices((1, 2, 3), k=random.randint(1, 5)),
                    SamplingParams(temperature=0.8, seed=random.randint(0, 99)),
                    len(outputs),
                    adapter=random.choice((None, *engine.model.adapter_names))
                    if engine.model is not None
                    else random.choice((None, "a")),
                    forced_ids=None if has_model else outputs,
                    num_samples=num_samples,
                    forced_forks=() if has_model else [outputs] * (num_samples - 1),
                )
            except PagedVizError:
                continue
        known = [sequence.seq_id for sequence in engine.snapshot().sequences]
        if known and random.random() < 0.3:
            chosen = SeqId(random.choice(known))
            try:
                if random.random() < 0.4:
                    engine.abort(chosen)
                else:
                    engine.fork(chosen, forced_ids=None if has_model else [1] * 8)
            except PagedVizError:
                pass
        play.step()
    while engine.has_unfinished and play.error is None:
        play.step()
    return play


@pytest.mark.random
@pytest.mark.parametrize("has_model", [False, True], ids=["books", "model"])
def test_ten_thousand_random_steps_raise_nothing_and_break_no_rule(has_model: bool) -> None:
    """Neither the engine's own live check nor the slow rules nor, with a model, the dense recompute
    finds anything."""
    # A step with a model is compared with a dense recompute, so there are fewer of these.
    num_steps, seed, limit = 0, 0, NUM_STEPS // 10 if has_model else NUM_STEPS
    num_preempted = 0
    while num_steps < limit:
        play = random_run(Random(seed), has_model)
        for step in play.steps:
            found = step.live, step.violations
            assert step.error is None and found == ((), ()), (seed, step.number, found)
        num_steps += len(play.steps)
        num_preempted += sum(sequence.num_preemptions for sequence in play.sequences)
        seed += 1
    assert num_preempted > 0


@pytest.mark.parametrize("name", scenario_names())
def test_poison_in_worthless_slots_changes_no_token(name: str) -> None:
    scenario, model = load_scenario(name), load_tiny()
    profile = PROFILES[scenario.engine.profile]._replace(pool=PoisonedPool)
    plain, poisoned = ScenarioRun(scenario, model), ScenarioRun(scenario, model, profile=profile)
    plain.run()
    poisoned.run()
    assert plain.trace.steps == poisoned.trace.steps


def test_pages_are_poisoned_when_they_are_handed_out_and_when_they_are_freed() -> None:
    pool = PoisonedPool(2, KvPageConfig(block_size=2, num_heads=1, head_dim=1))
    assert math.isnan(pool.keys[0, 0, 0, 0, 0]) and math.isnan(pool.values[0, 1, 1, 0, 0])
    page_id = pool.alloc_page()
    pool.keys[:, page_id] = pool.values[:, page_id] = 1
    pool.free_page(page_id)
    assert math.isnan(pool.keys[0, page_id, 1, 0, 0])
    pool.is_findable = lambda page_id: True
    assert pool.alloc_page() == page_id
    pool.keys[:, page_id] = pool.values[:, page_id] = 1
    pool.free_page(page_id)
    assert pool.keys[0, page_id, 1, 0, 0] == 1
    pool.alloc_page(), pool.alloc_page()
    assert math.isnan(pool.values[0, page_id, 0, 0, 0])
