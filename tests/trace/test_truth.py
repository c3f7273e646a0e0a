"""The logits that came through pages are those of a plain dense computation, and a run in which
they are not is caught."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from pagedviz.engine.config import EngineConfig
from pagedviz.engine.engine import Engine
from pagedviz.engine.errors import ConfigError, MomentNotFound
from pagedviz.engine.sampling import SamplingParams
from pagedviz.model import LanguageModel, dense_logits, load_adapter, load_model
from pagedviz.trace.header import TraceHeader
from pagedviz.trace.recorder import Recorder
from pagedviz.trace.replay import Replay
from pagedviz.trace.step_logits import StepLogits, step_logits
from pagedviz.trace.trace import Trace
from pagedviz.trace.truth import (
    TRUTH_RULE,
    Dense,
    Truth,
    check_logits,
    check_recorded_step,
    sweep,
)
from tests.trace.runs import bookkeeping_run

DATA = Path(__file__).resolve().parents[1] / "data"
CONFIG = EngineConfig(num_pages=14, block_size=4, max_tokens_per_step=24, chunk_size=7)


@pytest.fixture(scope="module")
def model() -> LanguageModel:
    return load_model(DATA / "models" / "llama")


@pytest.fixture(scope="module")
def dense(model: LanguageModel) -> Dense:
    def compute(token_ids: Sequence[int], adapter: str | None) -> np.ndarray:
        return dense_logits(model, list(token_ids), adapter=adapter)

    return compute


def make_engine(model: LanguageModel, recorder: Recorder | None = None) -> Engine:
    """Shared starts, chunks, and a pool too small for all."""
    engine = Engine(CONFIG, model, None if recorder is None else recorder.emit)
    for number in range(4):
        prompt = [*range(20, 29), number, 5, 6]
        engine.submit(prompt, SamplingParams(temperature=0.9, seed=number), 14)
    return engine


@pytest.fixture(scope="module")
def trace(model: LanguageModel) -> Trace:
    recorder = Recorder(TraceHeader(14, 4, settings=CONFIG, model="llama"))
    engine = make_engine(model, recorder)
    while engine.has_unfinished:
        engine.step()
        recorder.end_step()
    assert any(sequence.num_preemptions for sequence in engine.sequences)
    return recorder.trace


def test_every_step_of_a_running_engine_tells_the_truth(model: LanguageModel, dense: Dense) -> None:
    engine = make_engine(model)
    seen = 0
    while engine.has_unfinished:
        step = engine.num_steps
        outcome = engine.step()
        truths = check_logits(step_logits(step, outcome), dense)
        assert [t.seq_id for t in truths] == [s.id for s in outcome.plan.sequences]
        assert [t.num_tokens for t in truths] == outcome.stops
        for truth in truths:
            assert truth.is_ok and truth.violated is None, truth
            assert truth.error < 1e-4 <= truth.tolerance and truth.margin >= 0
        seen += len(truths)
    assert seen > 50


def test_a_step_of_a_recorded_run_is_run_again_and_tells_the_truth(
    model: LanguageModel, dense: Dense, trace: Trace
) -> None:
    replay = Replay(trace, model)
    for step in (9, 3, 4, trace.num_steps - 1):
        truths = check_recorded_step(replay, step, dense)
        assert truths and all(truth.is_ok and truth.step == step for truth in truths)
        scheduled = {v.seq_id: v.num_computed for v in trace.at(step).sequences}
        for truth in truths:
            if scheduled[truth.seq_id]:  # it was not preempted
                assert scheduled[truth.seq_id] == truth.num_tokens


def test_a_sweep_goes_over_all_steps_and_can_be_stopped(
    model: LanguageModel, dense: Dense, trace: Trace
) -> None:
    calls: list[int] = []

    def counting(token_ids: Sequence[int], adapter: str | None) -> np.ndarray:
        calls.append(len(token_ids))
        return dense(token_ids, adapter)

    replay = Replay(trace, model)
    swept = list(sweep(replay, counting))
    assert [s.step for s in swept] == list(range(trace.num_steps))
    assert [s.num_done for s in swept] == list(range(1, trace.num_steps + 1))
    assert {s.num_steps for s in swept} == {trace.num_steps}
    assert all(truth.is_ok for s in swept for truth in s.truths)
    assert all(a.seconds < b.seconds for a, b in pairwise(swept))
    assert len(calls) == 4  # one dense computation a sequence

    calls.clear()
    partial = sweep(replay, counting)
    assert next(partial).truths
    partial.close()
    assert len(calls) <= 4


def test_a_sweep_says_the_same_as_the_steps_asked_for_one_by_one(
    model: LanguageModel, dense: Dense, trace: Trace
) -> None:
    replay = Replay(trace, model)
    for swept in sweep(replay, dense, (2, 7, 11)):
        for truth, single in zip(
            swept.truths, check_recorded_step(replay, swept.step, dense), strict=True
        ):
            assert truth[:3] == single[:3]
            assert truth.margin == pytest.approx(single.margin, abs=1e-4)
            assert truth.is_ok and single.is_ok


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("poison", [1.5, float("nan")])
def test_a_slot_that_holds_something_else_is_a_violation(
    model: LanguageModel, dense: Dense, poison: float
) -> None:
    engine = make_engine(model)
    engine.step()
    engine.step()
    victim = engine.scheduler.running[0]
    page_id = victim.table.page_ids[0]
    engine.block_manager.pool.values[0, page_id, 1] = poison
    step = engine.num_steps
    truths = check_logits(step_logits(step, engine.step()), dense)
    (truth,) = [t for t in truths if t.seq_id == victim.id]
    assert not truth.is_ok
    violated = truth.violated
    assert violated is not None
    assert (violated.rule, violated.page_id, violated.seq_id) == (TRUTH_RULE, None, victim.id)
    assert f"after {truth.num_tokens} tokens the paged logits of seq:0 differ" in violated.message


def test_the_adapter_of_a_sequence_is_part_of_the_truth() -> None:
    base = load_model(DATA / "models" / "llama")
    names = sorted(path.name for path in (DATA / "adapters").iterdir() if path.is_dir())
    name = names[0]
    adapted = base.with_adapters({name: load_adapter(DATA / "adapters" / name, base)})
    engine = Engine(CONFIG, adapted)
    engine.submit(list(range(20, 30)), max_new_tokens=4, adapter=name)
    engine.submit(list(range(20, 30)), max_new_tokens=4)
    found = step_logits(0, engine.step())
    assert {item.adapter for item in found} == {name, None}

    def right(token_ids: Sequence[int], adapter: str | None) -> np.ndarray:
        return dense_logits(adapted, list(token_ids), adapter=adapter)

    def wrong(token_ids: Sequence[int], adapter: str | None) -> np.ndarray:
        return dense_logits(adapted, list(token_ids))

    assert all(truth.is_ok for truth in check_logits(found, right))
    by_adapter = {
        item.adapter: truth.is_ok
        for item, truth in zip(found, check_logits(found, wrong), strict=True)
    }
    assert by_adapter == {name: False, None: True}


def test_the_tolerance_grows_with_the_logits() -> None:
    small, large = (
        check_logits(
            [item],
            lambda token_ids, adapter, size=size: np.array([[0.0, size]], dtype=np.float32),
        )[0]
        for size, item in ((4.0, _item(4.0)), (160.0, _item(160.0)))
    )
    assert small == Truth(3, 7, 2, 0.0, 1e-4, 4.0)
    assert large.tolerance == pytest.approx(1e-3)


def _item(size: float) -> StepLogits:
    return StepLogits(3, 7, (1, 2), None, np.array([0.0, size], dtype=np.float32))


def test_without_a_model_there_is_no_truth_to_check(dense: Dense) -> None:
    trace = bookkeeping_run(seed=1).trace
    recorder = Recorder(trace.header)
    assert trace.header.settings is not None
    engine = Engine(trace.header.settings, emit=recorder.emit)
    engine.submit([1, 2, 3], max_new_tokens=2, forced_ids=[1, 2])
    outcome = engine.step()
    recorder.end_step()
    assert step_logits(0, outcome) == ()
    with pytest.raises(ConfigError, match="no logits"):
        check_recorded_step(Replay(recorder.trace), 0, dense)


def test_a_step_that_was_not_recorded_is_refused(
    model: LanguageModel, dense: Dense, trace: Trace
) -> None:
    with pytest.raises(MomentNotFound):
        check_recorded_step(Replay(trace, model), trace.num_steps, dense)
