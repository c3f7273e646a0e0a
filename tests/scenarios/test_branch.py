"""What if: a branch keeps the past it shares, and goes on as a run of its own from there."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from pagedviz.engine.errors import ConfigError, ReplayDivergence
from pagedviz.engine.events import (
    SequenceFinished,
    SequenceSubmitted,
    SlotsWritten,
)
from pagedviz.model import load_tiny
from pagedviz.scenarios import BranchRun, Change, ScenarioRun, load_scenario, parse_changes
from pagedviz.trace.changed_limits import settings_at
from pagedviz.trace.codec import dumps, loads
from pagedviz.trace.replay import Replay
from pagedviz.trace.run_facts import Preemption, run_facts
from pagedviz.trace.trace import StepRecord, Trace
from tests.scenarios.test_run import LETTERS, Model, request, start

MODEL = Model(tokenizer=LETTERS)


def parent(*requests: dict[str, Any], **engine: Any) -> ScenarioRun:
    chosen = requests or (
        request("a", "abcdabc", 9),
        request("b", "abcdabd", 9, temperature=0.8, seed=4),
        request("c", "ab", 6, arrival_step=5),
    )
    run = start(*chosen, model=MODEL, **engine)
    run.run()
    return run


def branch(run: ScenarioRun, *changes: Change, max_steps: int = 200) -> BranchRun:
    made = BranchRun(run.scenario, MODEL, "chain", run.trace, changes)
    made.run(max_steps)
    return made


def shared_steps(run: ScenarioRun, other: ScenarioRun) -> int:
    """How many steps from the start are equal, event for event."""
    pairs = zip(run.trace.steps, other.trace.steps, strict=False)
    return next((i for i, (a, b) in enumerate(pairs) if a.events != b.events), 10_000)


def texts(run: ScenarioRun) -> dict[str, list[int]]:
    return {sequence.name: sequence.generated_ids for sequence in run.engine.sequences}


def test_an_abort_releases_the_pages_at_its_step_and_leaves_the_past_alone() -> None:
    run = parent()
    other = branch(run, Change(3, aborts=("b",)))
    assert shared_steps(run, other) == 3
    assert other.trace.events(3)[0] == SequenceFinished(1, "aborted")
    assert other.trace.final.sequence(1).page_ids == ()
    assert texts(other)["a"] == texts(run)["a"]
    assert other.trace.record(1).logprobs == run.trace.record(1).logprobs


def test_a_smaller_budget_acts_from_its_step_on() -> None:
    run = parent(request("a", "ab" * 8, 3), request("b", "ba" * 8, 3, arrival_step=2))
    other = branch(run, Change(2, settings={"max_tokens_per_step": 5, "chunk_size": 3}))
    assert shared_steps(run, other) == 2
    assert texts(other) == texts(run)
    for step in range(other.trace.num_steps):
        scheduled = sum(e.num_tokens for e in other.trace.events(step) if "Scheduled" in repr(e))
        assert scheduled <= (512 if step < 2 else 5)
        settings = settings_at(other.trace.header, step)
        assert settings is not None and settings.max_tokens_per_step == (512 if step < 2 else 5)


@pytest.mark.parametrize(
    "settings",
    [{"block_size": 2}, {"num_pages": 4}, {"prefix_caching": False}, {"profile": "nano_vllm"}],
)
def test_a_rebuilt_setting_repeats_the_run_and_keeps_the_tokens(settings: dict[str, Any]) -> None:
    run = parent()
    other = branch(run, Change(4, settings=settings))
    assert {key: getattr(other.trace.header.settings, key) for key in settings} == settings
    assert shared_steps(run, other) < 4
    # The texts so far are given; paging never changes what the model says after them.
    assert texts(other) == texts(run)


def tight_parent(**engine: Any) -> ScenarioRun:
    """Somebody is preempted again and again."""
    requests = (request(name, "abc" + name * 3, 9, arrival_step=0) for name in "abcd")
    return parent(*requests, num_pages=7, block_size=2, prefix_caching=False, **engine)


def victims(run: ScenarioRun) -> list[Preemption]:
    return [event for made in run_facts(run.trace).decisions for event in made.preempted.values()]


def test_what_would_have_been_with_swap_and_a_host_pool() -> None:
    run = tight_parent()
    other = branch(run, Change(6, settings={"preemption": "swap", "host_pages": 16}))
    assert victims(run) and not any(event.num_kept for event in victims(run))
    assert victims(other) and not any(event.num_lost for event in victims(other))
    assert texts(other) == texts(run) and other.is_done
    # With a smaller host pool some fall back on computing again.
    small = branch(other, *other.changes, Change(8, settings={"host_pages": 1}))
    assert small.engine.config == replace(run.engine.config, preemption="swap", host_pages=1)
    assert any(event.num_lost for event in victims(small))
    assert texts(small) == texts(run)


def test_whoever_was_given_up_goes_on_when_victims_are_computed_again() -> None:
    run = tight_parent(preemption="abort")
    cut = {view.name: len(view.generated_ids) for view in run.trace.final.sequences}
    assert min(cut.values()) < 9
    other = branch(run, Change(6, settings={"preemption": "recompute"}))
    for name, generated in texts(other).items():
        assert generated[: cut[name]] == texts(run)[name]
        assert len(generated) == len(MODEL.continuation(other.sequence(name).prompt_ids, 9))


def test_a_branch_by_another_profile_decides_as_that_engine_does() -> None:
    run = parent(request("a", "abcdabc", 9), request("b", "ab", 3, arrival_step=3))
    other = branch(run, Change(4, settings={"profile": "nano_vllm"}))
    # Never a prompt and an answer in one step.
    for step in range(other.trace.num_steps):
        found = [e for e in other.trace.events(step) if isinstance(e, SlotsWritten)]
        assert len({event.num_tokens == 1 for event in found}) <= 1
    assert texts(other) == texts(run)


@pytest.mark.parametrize(
    "settings", [{"preemption": "swap", "host_pages": 12}, {"profile": "nano_vllm"}]
)
def test_a_branch_of_the_real_model_is_run_again_for_its_attention(
    settings: dict[str, Any],
) -> None:
    model = load_tiny()
    run = ScenarioRun(load_scenario("thrash"), model, "tiny")
    run.run(60)
    other = BranchRun(run.scenario, model, "tiny", run.trace, [Change(40, settings)])
    trace = other.run(60)
    for name, output in texts(other).items():
        said = texts(run)[name]
        assert output[: len(said)] == said[: len(output)]
    Replay(trace, model).check()


def test_given_tokens_are_kept_even_where_the_model_would_say_something_else() -> None:
    run = parent()
    assert texts(run)["a"][:3] != [1, 1, 1] and len(texts(run)["a"]) > 5
    records = [
        StepRecord(tuple(e._replace(token_id=1) if "TokenS" in repr(e) else e for e in r.events))
        for r in run.trace.steps
    ]
    other = BranchRun(
        run.scenario,
        MODEL,
        None,
        Trace(run.trace.header, records),
        [Change(3, settings={"block_size": 2})],
    )
    other.run(100)
    assert texts(other)["a"][:3] == [1, 1, 1]
    assert texts(other)["a"][3:] != [1] * (len(texts(other)["a"]) - 3)


def test_a_new_text_takes_the_place_of_the_old_one() -> None:
    run = parent()
    other = branch(run, Change(3, prompts={"a": "abcdabdd"}))
    events = other.trace.events(3)
    assert events[0] == SequenceFinished(0, "aborted")
    submitted = next(e for e in events if isinstance(e, SequenceSubmitted))
    assert (submitted.name, submitted.prompt_ids) == ("a, edited", (0, 1, 2, 3, 0, 1, 3, 3))
    assert other.sequence("a").name == "a, edited"
    # Its first page is that of the old text, still in the cache.
    assert other.trace.at(3).sequence(submitted.seq_id).num_cached == 4


def test_a_request_that_has_not_arrived_arrives_with_the_new_text_or_never() -> None:
    run = parent()
    edited = branch(run, Change(3, prompts={"c": "dddd"}))
    assert edited.sequence("c").prompt_ids == [3, 3, 3, 3]
    assert shared_steps(run, edited) == 5
    never = branch(run, Change(3, aborts=("c",)))
    assert never.is_done and "c" not in never.seq_ids


def test_whoever_follows_a_request_that_never_comes_does_not_come_either() -> None:
    run = parent(
        request("a", "ab", 3),
        request("b", "ab", 3, arrival_step=9),
        {"name": "c", "prompt": "d", "max_new_tokens": 2, "follows": "b"},
    )
    other = branch(run, Change(2, aborts=("b",)))
    assert other.is_done and set(other.seq_ids) == {"a"}


def test_a_branch_can_be_branched_again() -> None:
    run = parent()
    first = Change(2, settings={"chunk_size": 2}, aborts=("b",))
    middle = branch(run, first)
    last = branch(middle, first, Change(6, prompts={"a": "dd"}))
    assert shared_steps(middle, last) == 6
    rebuilt = branch(last, *last.changes, Change(8, settings={"block_size": 2}))
    assert texts(rebuilt) == texts(last)


def test_a_parent_that_is_not_what_the_engine_does_is_noticed() -> None:
    run = parent()
    records = [*run.trace.steps[:1], StepRecord(()), *run.trace.steps[2:]]
    other = BranchRun(
        run.scenario, MODEL, None, Trace(run.trace.header, records), [Change(4, aborts=("a",))]
    )
    with pytest.raises(ReplayDivergence, match="step 1 goes another way after 0 events"):
        other.run()


def test_a_branch_is_kept_in_a_file_with_what_was_changed() -> None:
    run = parent()
    other = branch(run, Change(3, settings={"max_tokens_per_step": 2}, aborts=("b",)))
    read = loads(dumps(other.trace))
    assert read.header == other.trace.header
    what_if = read.header.scenario_settings["what_if"]  # type: ignore[index]
    assert parse_changes(what_if) == other.changes


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (Change(3, aborts=("z",)), "there is no sequence 'z' at step 3"),
        (Change(99, aborts=("a",)), "steps 0 to .*, so nothing can be changed at step 99"),
        (Change(3, settings={"num_pages": 1}), "need . pages of 4 slots; the pool has 1"),
        (
            Change(3, settings={"preemption": "swap"}),
            "preemption by swap needs host_pages of at least 1, got 0",
        ),
        (
            Change(3, settings={"preemption": "forget"}),
            "preemption must be one of recompute, swap, abort, got 'forget'",
        ),
        (
            Change(3, settings={"profile": ["vllm"]}),
            "profile must be one of vllm, nano_vllm",
        ),
        (Change(3, settings={"host_pages": -1}), "host_pages must be at least 0, got -1"),
        (Change(3, settings={"chunk_size": 0}), "chunk_size must be at least 1, got 0"),
        (Change(3, prompts={"a": "ab" * 40}), "leaves no room in a context of 64"),
    ],
)
def test_what_cannot_be_changed_says_why(change: Change, message: str) -> None:
    run = parent()
    with pytest.raises(ConfigError, match=message):
        branch(run, change)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({}, "must be a list of at most 8 changes"),
        ([{"step": 1}] * 9, "must be a list of at most 8 changes"),
        ([7], "a table of keys is expected, got 7"),
        ([{"step": 1}], "change 1: it changes nothing"),
        ([{"step": 1, "aborts": ["\ud800"]}], "half a character"),
        ([{"step": 1, "prompts": {"\ud800": "a"}}], "half a character"),
        ([{"step": -1, "aborts": ["a"]}], '"step" must be from 0'),
        ([{"step": 1, "aborts": [7]}], "the name of a sequence is expected, got 7"),
        ([{"step": 1, "prompts": ["a"]}], '"prompts" must be a short table'),
        ([{"step": 1, "prompts": {"a": 3}}], '"a" must be a text'),
        ([{"step": 1, "settings": {"watermark": 1}}], "unknown key 'watermark'"),
        (
            [{"step": 5, "aborts": ["a"]}, {"step": 4, "aborts": ["a"]}],
            "a change at step 5 stands before one at step 4",
        ),
    ],
)
def test_changes_from_elsewhere_are_checked(values: object, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        parse_changes(values)


def test_a_sample_has_no_text_of_its_own() -> None:
    model, scenario = load_tiny(), load_scenario("samples")
    parent = ScenarioRun(scenario, model, "tiny").run()
    changes = (Change(17, prompts={"sampled/2": "Once"}),)
    with pytest.raises(ConfigError, match="'sampled/2' is a sample or a beam"):
        BranchRun(scenario, model, "tiny", parent, changes).run()


def test_changes_nested_too_deeply_are_one_sentence() -> None:
    deep: object = "swap"
    for _ in range(20_000):
        deep = [deep]
    with pytest.raises(ConfigError, match=r"^what_if is nested too deeply$"):
        parse_changes([{"step": 1, "settings": {"preemption": deep}}])


def test_changes_survive_being_written_as_json() -> None:
    change = Change(3, {"chunk_size": None, "block_size": 8}, ("a",), {"b": "text"})
    assert parse_changes([change.as_json()]) == (change,)


def test_a_new_text_is_computed_under_the_adapter_of_the_old_one() -> None:
    run = parent(request("a", "cab", 9, adapter="b"))
    other = branch(run, Change(3, prompts={"a": "dcba"}))
    view = other.trace.final.sequences[-1]
    assert (view.name, view.adapter) == ("a, edited", "b")
    prompt = view.token_ids[: view.num_prompt_tokens]
    assert list(view.generated_ids) == MODEL.continuation(prompt, 9, "b")
