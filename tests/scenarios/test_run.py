"""A run submits what the scenario says, when it says so, and refuses what could not end."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from pagedviz.engine.errors import ConfigError
from pagedviz.scenarios import ScenarioRun, parse_scenario
from pagedviz.trace.codec import dumps, loads
from tests.engine.kit import ChainModel


class Letters:
    """a, b, c, d are tokens 0 to 3; every text begins with `opening`."""

    def __init__(self, opening: tuple[int, ...] = ()) -> None:
        self.opening = opening

    def encode(self, text: str) -> list[int]:
        return [*self.opening, *("abcd".index(letter) for letter in text)]

    def decode(self, token_ids: Sequence[int]) -> str:
        return "".join("abcd"[token_id] for token_id in token_ids if token_id < 4)


class Model(ChainModel):
    def __init__(self, max_seq_len: int = 64, tokenizer: Letters | None = None) -> None:
        super().__init__(max_seq_len)
        self.tokenizer = tokenizer


LETTERS = Letters()


def request(name: str, prompt: str = "ab", new: int = 4, **more: Any) -> dict[str, Any]:
    return {"name": name, "prompt": prompt, "max_new_tokens": new, **more}


def start(*requests: dict[str, Any], model: Model | None = None, **engine: Any) -> ScenarioRun:
    values = {
        "title": "t",
        "description": "d",
        "engine": {"num_pages": 16, "block_size": 4, **engine},
        "requests": list(requests),
    }
    return ScenarioRun(parse_scenario(values, "s"), model or Model(tokenizer=LETTERS), "chain")


def submitted_at(run: ScenarioRun) -> dict[str, int]:
    """Before which step each request was submitted, in order of submission."""
    return {
        event.name: step
        for step, record in enumerate(run.trace.steps)
        for event in record.events
        if type(event).__name__ == "SequenceSubmitted"
    }


def test_requests_arrive_at_their_step_and_ids_count_up_in_that_order() -> None:
    run = start(
        request("late", arrival_step=3),
        request("b"),
        request("a"),
        request("idle", arrival_step=20),
    )
    run.run()
    assert submitted_at(run) == {"b": 0, "a": 0, "late": 3, "idle": 20}
    assert run.seq_ids == {"b": 0, "a": 1, "late": 2, "idle": 3}
    assert run.is_done and run.trace.num_steps == run.engine.num_steps > 20


def test_a_turn_is_all_that_was_said_before_and_its_own_text() -> None:
    run = start(
        request("one", "abc", 5),
        request("two", "dd", 3, follows="one", after=3),
        request("three", "a", 3, follows="two"),
    )
    run.run()
    one, two, three = (run.sequence(name) for name in ("one", "two", "three"))
    eos = run.model.eos_token_ids
    for before, turn, own in ((one, two, [3, 3]), (two, three, [0])):
        said = before.token_ids
        kept = said[:-1] if said[-1] in eos else said
        assert turn.prompt_ids == kept + own
    steps = submitted_at(run)
    finished = {
        int(event.seq_id): step
        for step, record in enumerate(run.trace.steps)
        for event in record.events
        if type(event).__name__ == "SequenceFinished"
    }
    assert steps["two"] == finished[one.id] + 3
    assert steps["three"] == finished[two.id] + 1


def test_an_end_mark_does_not_stay_in_the_conversation() -> None:
    model = Model(tokenizer=LETTERS)
    prompts = ["a" * n for n in range(1, 40)]
    prompt = next(p for p in prompts if 4 in model.continuation(LETTERS.encode(p), 12))
    run = start(request("one", prompt, 12), request("two", "b", 2, follows="one"))
    run.run()
    assert run.sequence("one").token_ids[-1] == 4
    assert 4 not in run.sequence("two").prompt_ids


def test_what_opens_every_text_is_not_repeated_inside_a_conversation() -> None:
    model = Model(tokenizer=Letters(opening=(2,)))
    run = start(request("one", "a", 1), request("two", "b", 1, follows="one"), model=model)
    run.run()
    assert run.sequence("one").prompt_ids == [2, 0]
    assert run.sequence("two").prompt_ids == [*run.sequence("one").token_ids, 1]


def test_a_turn_goes_on_after_an_abort() -> None:
    run = start(request("one", "abc", 30), request("two", "d", 2, follows="one"))
    run.step()
    run.engine.abort(run.seq_ids["one"])
    run.run()
    assert run.sequence("two").prompt_ids == [*run.sequence("one").token_ids, 3]


def test_a_run_can_be_stepped_in_pieces_and_gives_the_same_trace() -> None:
    def requests() -> list[dict[str, Any]]:
        return [request("a", "abcd", 9), request("b", "abcd", 9, arrival_step=2)]

    whole, pieces = start(*requests()), start(*requests())
    whole.run()
    while not pieces.is_done:
        pieces.run(2)
    assert pieces.run(5).num_steps == whole.trace.num_steps
    assert dumps(pieces.trace) == dumps(whole.trace)


def test_every_output_is_what_the_model_says_alone() -> None:
    prompts = {"a": "abcdabcd", "b": "abcdabca", "c": "dcba"}
    run = start(*(request(name, prompt, 12) for name, prompt in prompts.items()), num_pages=6)
    run.run()
    assert sum(s.num_preemptions for s in run.engine.sequences) > 0
    model = Model()
    for name, prompt in prompts.items():
        expected = model.continuation(LETTERS.encode(prompt), 12)
        assert run.sequence(name).generated_ids == expected
        assert run.text(name) == LETTERS.decode(expected)


def test_a_model_without_a_tokenizer_runs_token_ids() -> None:
    item = {"name": "a", "prompt_ids": [0, 1], "max_new_tokens": 3}
    run = start(item, model=Model())
    run.run()
    assert run.text("a") == "" and run.sequence("a").num_generated == 3
    with pytest.raises(ConfigError, match=r"no tokenizer\.json"):
        start(request("a"), model=Model())


def test_the_trace_says_where_it_comes_from() -> None:
    run = start(request("a"), chunk_size=3)
    run.run()
    header = loads(dumps(run.trace)).header
    assert (header.scenario, header.model, header.producer) == ("s", "chain", "pagedviz")
    assert header.settings == run.scenario.engine
    assert header.kv == (1, 1, 1, 4)
    assert header.scenario_settings is None


@pytest.mark.parametrize(
    ("requests", "engine", "sentence"),
    [
        (
            [request("a", "abcd", 61)],
            {"num_pages": 99},
            "request 'a': 4 prompt tokens and 61 new ones make 65; the model's context holds 64",
        ),
        (
            [request("a", "ab", 20), request("b", "abc", 40, follows="a")],
            {"num_pages": 99},
            "'b': up to 25 prompt tokens (22 of them from 'a') and 40 new ones make 65",
        ),
        (
            [request("a", "ab", 16)],
            {"num_pages": 4},
            "request 'a': 2 prompt tokens and 16 new ones need 5 pages of 4 slots; the pool has 4",
        ),
        (
            [{"name": "a", "prompt_ids": [0, 5], "max_new_tokens": 1}],
            {},
            "request 'a': token 1 is 5, allowed are 0 to 4",
        ),
        (
            [request("a"), request("b", adapter="sql", arrival_step=9)],
            {},
            "request 'b': the model has no adapter 'sql'; it has a, b, or none",
        ),
        (
            [request("a")],
            {"num_pages": 1 << 20, "block_size": 1 << 10},
            "num_pages 1048576 times block_size 1024 slots of 8 bytes make 8589934592 bytes",
        ),
    ],
)
def test_what_could_not_run_to_its_end_does_not_start(
    requests: list[dict[str, Any]], engine: dict[str, Any], sentence: str
) -> None:
    with pytest.raises(ConfigError) as caught:
        start(*requests, **engine)
    assert sentence in str(caught.value)


def test_what_just_fits_runs_to_its_end() -> None:
    run = start(request("a", "ab", 15), num_pages=4)
    run.run()
    assert run.is_done


def test_a_turn_may_go_on_under_another_adapter_and_finds_nothing_of_it() -> None:
    model = Model(tokenizer=LETTERS)
    run = start(
        request("x", "abcdabcd", 5, adapter="a"),
        request("y", "ab", 5, follows="x", adapter="b"),
        request("z", "ab", 5, follows="x", adapter="a"),
        model=model,
    )
    run.run()
    cached = {
        run.sequence(name).name: run.trace.final.sequence(run.seq_ids[name]).num_cached
        for name in ("x", "y", "z")
    }
    assert cached["y"] == 0 < cached["z"]
    for name, adapter in (("x", "a"), ("y", "b"), ("z", "a")):
        sequence = run.sequence(name)
        prompt = sequence.token_ids[: sequence.num_prompt_tokens]
        assert sequence.generated_ids == model.continuation(prompt, 5, adapter)
