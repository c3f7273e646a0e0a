"""Run again, a trace gives the same events, keys, values and attention as the first time."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest

from pagedviz.engine.config import EngineConfig
from pagedviz.engine.engine import Engine
from pagedviz.engine.errors import ConfigError, MomentNotFound, PageOutOfBounds, ReplayDivergence
from pagedviz.engine.events import PageEvicted, SlotsWritten, TokenSampled
from pagedviz.engine.sampling import SamplingParams
from pagedviz.model import LanguageModel, dense_logits, load_adapter, load_model
from pagedviz.trace import replay as replay_module
from pagedviz.trace.attention_tap import AttentionTap
from pagedviz.trace.changed_limits import settings_at
from pagedviz.trace.header import TraceHeader
from pagedviz.trace.recorder import Recorder
from pagedviz.trace.replay import Replay, last_computed
from pagedviz.trace.trace import Moment, StepRecord, Trace
from tests.trace.runs import bookkeeping_run

MODEL = Path(__file__).resolve().parents[1] / "data" / "models" / "llama"
CONFIG = EngineConfig(num_pages=14, block_size=4, max_tokens_per_step=24, chunk_size=7)


class Recorded(NamedTuple):
    """The trace, and per step what was seen the first time: all keys and values at its end, and the
    weights of each sequence, [layers, heads, queries, tokens]."""

    trace: Trace
    keys: list[np.ndarray]
    values: list[np.ndarray]
    weights: list[dict[int, np.ndarray]]


@pytest.fixture(scope="module")
def model() -> LanguageModel:
    return load_model(MODEL)


@pytest.fixture(scope="module")
def run(model: LanguageModel) -> Recorded:
    """Shared starts, chunks, sampling, an abort, preemptions."""
    recorder = Recorder(TraceHeader(14, 4, settings=CONFIG, model="llama"))
    tap = AttentionTap(model)
    engine = Engine(CONFIG, tap, recorder.emit)
    seen = Recorded(recorder.trace, [], [], [])
    pool = engine.block_manager.pool
    start = list(range(20, 29))
    for step in range(60):
        if step in (0, 1, 2, 14, 20):
            sampling = SamplingParams(temperature=0.9, seed=step)
            engine.submit([*start, step, 5, 6], sampling, 22, name=f"r{step}")
        if step == 30:
            engine.abort(engine.scheduler.running[-1].id)
        tap.weights = []
        outcome = engine.step()
        recorder.end_step()
        seen.keys.append(pool.keys.copy())
        seen.values.append(pool.values.copy())
        layers = tap.weights
        seen.weights.append(
            {int(s.id): np.stack([w[i] for w in layers]) for i, s in enumerate(outcome.plan[0])}
        )
    return seen


def kinds(trace: Trace) -> set[str]:
    return {type(event).__name__ for record in trace.steps for event in record.events}


def test_the_run_is_worth_repeating(run: Recorded) -> None:
    assert {"PageShared", "SequencePreempted", "PageEvicted"} <= kinds(run.trace)
    reasons = {view.finish_reason for view in run.trace.final.sequences}
    assert {"aborted", "max_length"} <= reasons


def test_the_whole_run_is_repeated_event_for_event(run: Recorded, model: LanguageModel) -> None:
    Replay(run.trace, model).check()


@pytest.mark.parametrize("seed", [1, 2, 3])
@pytest.mark.parametrize("preemption", ["recompute", "swap", "abort"])
def test_a_run_without_a_model_is_repeated_too(seed: int, preemption: str) -> None:
    run = bookkeeping_run(seed, prefix_caching=seed != 2, preemption=preemption)
    Replay(run.trace).check()


def test_keys_and_values_are_those_of_the_first_time_in_any_order_of_asking(
    run: Recorded, model: LanguageModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(replay_module, "CHECKPOINT_EVERY", 7)
    replay = Replay(run.trace, model)
    for step in (59, 3, 4, 31, 30, 0, 58, 14, 13):
        for page in run.trace.at(step).pages:
            keys, values = replay.page_tensors(Moment(step), page.page_id)
            assert keys.shape == (3, page.fill, 2, 12)
            np.testing.assert_array_equal(keys, run.keys[step][:, page.page_id, : page.fill])
            np.testing.assert_array_equal(values, run.values[step][:, page.page_id, : page.fill])


def test_a_far_step_is_approached_one_step_at_a_time(run: Recorded, model: LanguageModel) -> None:
    replay = Replay(run.trace, model)
    assert replay.is_near(16) and not replay.is_near(50)
    done = 0
    while not replay.is_near(50):
        assert replay.approach(50) == done + 1
        done += 1
    assert 50 - done == 16
    # Whoever asks about another moment meanwhile costs nothing of the way.
    tensors = replay.page_tensors(Moment(3), 0)
    fill = len(tensors.keys[0])
    assert fill and np.array_equal(tensors.keys, run.keys[3][:, 0, :fill])
    assert replay.approach(50) == 33  # from the checkpoint at 32
    assert np.array_equal(
        replay.page_tensors(Moment(40), 0).keys,
        run.keys[40][:, 0, : run.trace.at(40).pages[0].fill],
    )


def test_inside_a_step_a_page_shows_what_was_in_it_at_that_event(
    run: Recorded, model: LanguageModel
) -> None:
    replay = Replay(run.trace, model)
    moments = 0
    for step in range(1, 60):
        for number, event in enumerate(run.trace.events(step), 1):
            if isinstance(event, PageEvicted):
                page_id = event.page_id
                before = replay.page_tensors(Moment(step, number - 1), page_id).keys
                np.testing.assert_array_equal(before, run.keys[step - 1][:, page_id])
                assert replay.page_tensors(Moment(step, number), page_id).keys.shape[1] == 0
                moments += 1
    assert moments > 3


def test_attention_recorded_and_recomputed_is_equal(run: Recorded, model: LanguageModel) -> None:
    replay = Replay(run.trace, model)
    for step in (0, 1, 40, 5, 22):
        for seq_id, weights in run.weights[step].items():
            found = replay.attention(Moment(step), seq_id)
            assert found is not None and found.step == step
            np.testing.assert_array_equal(found.weights, weights)
            np.testing.assert_allclose(found.weights.sum(axis=-1), 1, rtol=1e-5)
            assert len(found.page_ids) == -(-weights.shape[-1] // 4)
            assert found.first_query + weights.shape[2] == weights.shape[3]


def test_attention_by_the_walk_over_pages_is_the_same(run: Recorded, model: LanguageModel) -> None:
    class Walking(LanguageModel):
        def forward(  # type: ignore[override]
            self, *args: object, **options: object
        ) -> np.ndarray:
            return model.forward(*args, path="walk", **options)  # type: ignore[arg-type]

    walking = Replay(run.trace, Walking(model.config, model.weights))
    for step in (0, 22, 40):
        for seq_id, weights in run.weights[step].items():
            found = walking.attention(Moment(step), seq_id)
            assert found is not None
            np.testing.assert_allclose(found.weights, weights, atol=1e-5)


def test_attention_is_of_the_last_time_a_sequence_computed(
    run: Recorded, model: LanguageModel
) -> None:
    replay = Replay(run.trace, model)
    trace = run.trace
    first = trace.events(0)
    written = next(n for n, event in enumerate(first, 1) if isinstance(event, SlotsWritten))
    assert replay.attention(Moment(0, written - 1), 0) is None
    assert replay.attention(Moment(0, written), 0) is not None
    last = last_computed(trace, Moment(59), 0)
    assert last is not None and last < 59
    found = replay.attention(Moment(59), 0)
    assert found is not None and found.step == last


def test_a_trace_that_was_changed_diverges_at_the_changed_event(
    run: Recorded, model: LanguageModel
) -> None:
    records = list(run.trace.steps)
    events = list(records[6].events)
    place = next(i for i, e in enumerate(events) if isinstance(e, SlotsWritten))
    events[place] = events[place]._replace(start=events[place].start - 1)
    records[6] = StepRecord(tuple(events))
    replay = Replay(Trace(run.trace.header, records), model)
    with pytest.raises(
        ReplayDivergence, match=f"step 6 goes another way after {place} ev"
    ) as error:
        replay.check()
    assert (error.value.step, error.value.event) == (6, place)
    # What lies before can still be looked at.
    assert replay.attention(Moment(5), 0) is not None


def test_what_cannot_be_run_again_says_why(run: Recorded, model: LanguageModel) -> None:
    with pytest.raises(ConfigError, match="does not tell its engine's settings"):
        Replay(Trace(TraceHeader(4, 4)), model)
    records = list(run.trace.steps)
    untold = [e._replace(prompt_ids=()) for e in records[0].events[:1]]
    records[0] = StepRecord((*untold, *records[0].events[1:]))
    with pytest.raises(ConfigError, match="does not tell the prompt of seq:0"):
        Replay(Trace(run.trace.header, records), model)
    place = next(i for i, e in enumerate(run.trace.events(2)) if isinstance(e, TokenSampled))
    records = list(run.trace.steps)
    events = list(records[2].events)
    events[place] = TokenSampled(events[place].seq_id, None)
    records[2] = StepRecord(tuple(events))
    with pytest.raises(ConfigError, match="does not tell the tokens of seq:"):
        Replay(Trace(run.trace.header, records), model)


def test_a_pool_too_large_to_repeat_is_refused_with_both_numbers(model: LanguageModel) -> None:
    settings = EngineConfig(num_pages=100_000, block_size=16)
    with pytest.raises(ConfigError, match="takes 921,600,000 bytes; runs of up to 268,435,456"):
        Replay(Trace(TraceHeader(100_000, 16, settings=settings)), model)


def test_moments_and_pages_that_are_not_there_are_named(
    run: Recorded, model: LanguageModel
) -> None:
    replay = Replay(run.trace, model)
    with pytest.raises(MomentNotFound, match="step 60 is not recorded"):
        replay.page_tensors(Moment(60), 0)
    with pytest.raises(PageOutOfBounds, match="page 14 does not exist"):
        replay.page_tensors(Moment(5), 14)


def test_without_a_model_there_is_nothing_to_show() -> None:
    replay = Replay(bookkeeping_run(1).trace)
    with pytest.raises(ConfigError, match="no model, so its pages hold no keys"):
        replay.page_tensors(Moment(3), 0)
    with pytest.raises(ConfigError, match="no model, so it has no attention"):
        replay.attention(Moment(3), 0)


def test_a_trace_that_grows_meanwhile_is_repeated_to_its_new_end(
    run: Recorded, model: LanguageModel
) -> None:
    grown = Trace(run.trace.header, run.trace.steps[:20])
    replay = Replay(grown, model)
    replay.check()
    for record in run.trace.steps[20:]:
        grown.append(record)
    replay.check()


def test_a_sequence_that_a_stop_token_ended_is_stopped_again() -> None:
    recorder = Recorder(TraceHeader(14, 4, settings=CONFIG))
    engine = Engine(CONFIG, emit=recorder.emit)
    engine.submit([1, 2], SamplingParams(stop_ids=(9, 8)), 5, forced_ids=[7, 7, 8, 7, 7])
    for _ in range(4):
        engine.step()
        recorder.end_step()
    assert recorder.trace.final.sequence(0).finish_reason == "stop"
    Replay(recorder.trace).check()


def test_a_prefix_longer_than_the_stack_is_copied() -> None:
    config = EngineConfig(num_pages=3000, block_size=1, max_tokens_per_step=3000)
    recorder = Recorder(TraceHeader(3000, 1, settings=config))
    engine = Engine(config, emit=recorder.emit)
    prompt = [token % 50 for token in range(2500)]
    engine.submit(prompt, max_new_tokens=20, forced_ids=[7] * 20)
    for _ in range(20):
        engine.step()
        recorder.end_step()
    Replay(recorder.trace).check()


def test_settings_that_changed_on_the_way_are_those_of_their_step() -> None:
    what_if = [{"step": 3, "settings": {"chunk_size": 2, "num_pages": 9}}, {"step": "x"}, 7]
    header = TraceHeader(14, 4, settings=CONFIG, scenario_settings={"what_if": what_if})
    assert settings_at(header, 2) == CONFIG
    changed = settings_at(header, 3)
    assert changed is not None and (changed.chunk_size, changed.num_pages) == (2, 14)
    assert settings_at(TraceHeader(14, 4), 3) is None


def test_attention_of_a_step_with_several_adapters_goes_to_its_own_sequences(
    model: LanguageModel,
) -> None:
    adapters = MODEL.parent.parent / "adapters"
    names = ("all_four", "rank_stabilised")
    mixed = model.with_adapters({name: load_adapter(adapters / name, model) for name in names})
    recorder = Recorder(TraceHeader(14, 4, settings=CONFIG, model="llama"))
    engine = Engine(CONFIG, mixed, recorder.emit)
    chosen = ("all_four", None, "rank_stabilised", None, "all_four")
    for number, adapter in enumerate(chosen):
        engine.submit([20, 21, 22, 23, number, 5], max_new_tokens=4, adapter=adapter)
    for _ in range(4):
        engine.step()
        recorder.end_step()
    replay = Replay(recorder.trace, mixed)
    for seq_id, adapter in enumerate(chosen):
        found = replay.attention(Moment(3), seq_id)
        assert found is not None and found.step == 3
        tokens = recorder.trace.at(3).sequence(seq_id).token_ids[: found.weights.shape[-1]]
        dense: list[np.ndarray] = []
        dense_logits(mixed, tokens, adapter=adapter, attention=dense)
        expected = np.stack(dense)[:, :, found.first_query :]
        np.testing.assert_allclose(found.weights, expected, atol=1e-5)
