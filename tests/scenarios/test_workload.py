"""Workload files and their replay: bad ones are one sentence, impossible ones a stall."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest

from pagedviz.engine.errors import ScenarioError
from pagedviz.scenarios import Stall, load_workload, replay
from pagedviz.scenarios.workload import parse_workload

KEYS = [
    "workload",
    "step",
    "scheduled",
    "preempted",
    "finished",
    "free_queue",
    "cached",
    "running",
    "waiting",
]


def request(name: str, prompt: int, output: int, arrival: int = 0) -> dict[str, Any]:
    return {
        "id": name,
        "arrival_step": arrival,
        "prompt_token_ids": list(range(10, 10 + prompt)),
        "output_token_ids": list(range(90, 90 + output)),
    }


def workload(*requests: dict[str, Any], **changes: Any) -> dict[str, Any]:
    """Three pages of two slots."""
    values: dict[str, Any] = {
        "name": "w",
        "num_blocks": 4,
        "block_size": 2,
        "max_num_batched_tokens": 8,
        "max_num_seqs": 4,
        "enable_prefix_caching": True,
        "requests": list(requests) or [request("a", 3, 2)],
    }
    return {key: value for key, value in (values | changes).items() if value is not None}


def run(values: dict[str, Any]) -> tuple[list[dict[str, Any]], str | None]:
    """The records, and the sentence of the stall they end with."""
    records = []
    try:
        for record in replay(parse_workload(values)):
            records.append(record)
    except Stall as stall:
        return records, str(stall)
    return records, None


def test_a_record_has_these_keys_in_this_order() -> None:
    records, stall = run(workload())
    assert stall is None
    assert [list(record) for record in records] == [KEYS, KEYS]
    assert records == [
        {
            "workload": "w",
            "step": 0,
            "scheduled": {"a": [3, 0, 0, [0, 1]]},
            "preempted": [],
            "finished": [],
            "free_queue": [2],
            "cached": [0],
            "running": ["a"],
            "waiting": [],
        },
        {
            "workload": "w",
            "step": 1,
            "scheduled": {"a": [1, 3, None, [0, 1]]},
            "preempted": [],
            "finished": ["a"],
            "free_queue": [2, 1, 0],
            "cached": [0, 1],
            "running": [],
            "waiting": [],
        },
    ]
    assert json.loads(json.dumps(records)) == records


def test_idle_steps_count_and_have_a_line() -> None:
    records, _ = run(workload(request("a", 1, 1), request("b", 1, 1, arrival=3)))
    assert [list(record["scheduled"]) for record in records] == [["a"], [], [], ["b"]]


def test_requests_of_one_step_come_in_the_order_of_the_file() -> None:
    late, early = request("a", 1, 1, arrival=2), request("c", 1, 1)
    records, _ = run(workload(late, early, request("b", 1, 1)))
    assert [list(record["scheduled"]) for record in records] == [["c", "b"], [], ["a"]]


def test_what_can_never_be_admitted_stalls_at_the_first_step_without_a_change() -> None:
    records, stall = run(workload(request("a", 1, 2), request("x", 9, 1), request("y", 1, 1)))
    assert [list(record["scheduled"]) for record in records] == [["a"], ["a"], []]
    assert records[-1]["waiting"] == ["x", "y"]
    assert stall == (
        "w: stalled at step 2: request 'x' needs 5 pages of 2 slots, the pool has 3; "
        "enlarge it or shorten the request"
    )


@pytest.mark.parametrize("caching", [True, False])
@pytest.mark.parametrize("gate", [True, False])
@pytest.mark.parametrize("prompt", [3, 9])
def test_what_outgrows_the_pool_ends_too(caching: bool, gate: bool, prompt: int) -> None:
    """Without the gate and the cache it is admitted and preempted again and again."""
    records, stall = run(
        workload(
            request("x", prompt, 9),
            request("y", 1, 2),
            enable_prefix_caching=caching,
            max_num_batched_tokens=3,
            vllm={"reserve_full_isl": gate},
        )
    )
    assert len(records) < 12
    assert stall is not None and "request 'x' needs" in stall and "the pool has 3" in stall


def test_a_stall_waits_for_the_requests_still_to_come() -> None:
    records, stall = run(workload(request("x", 9, 1), request("y", 1, 1, arrival=4)))
    assert len(records) == 5 and stall is not None and "stalled at step 4" in stall


def test_a_replay_keeps_within_its_steps() -> None:
    records, stall = run(workload(request("a", 1, 5), vllm={"max_steps": 3}))
    assert len(records) == 3
    assert stall == "w: 1 of 1 requests have not finished after 3 steps, the workload's max_steps"
    assert run(workload(request("a", 1, 3), vllm={"max_steps": 3}))[1] is None


def test_what_other_engines_are_told_is_let_pass() -> None:
    extra = {"note": "n", "nano_vllm": {"x": 1}, "vllm": {"later": 1}, "more": [1]}
    assert run(workload(**extra))[0] == run(workload())[0]


def test_the_watermark_counts_the_null_block() -> None:
    loaded = parse_workload(workload(num_blocks=10, vllm={"watermark": 0.2}))
    assert (loaded.engine.num_pages, loaded.engine.watermark_pages) == (9, 2)


@pytest.mark.parametrize(
    ("values", "sentence"),
    [
        ([], "a table of keys is expected, got []"),
        (None, "a table of keys is expected, got None"),
        (workload(name=None), '"name" is missing'),
        (workload(name=3), '"name" must be a text, got 3'),
        (workload(name="a\nb"), "one line of printable text"),
        (workload(note=3), '"note" must be a text'),
        (workload(num_blocks=1), '"num_blocks" must be from 2 to 1048577, got 1'),
        (workload(num_blocks=1 << 40), '"num_blocks" must be from 2'),
        (workload(num_blocks=True), '"num_blocks" must be a whole number, got True'),
        (workload(num_blocks=4.0), '"num_blocks" must be a whole number, got 4.0'),
        (workload(num_blocks="4"), "\"num_blocks\" must be a whole number, got '4'"),
        (workload(block_size=0), '"block_size" must be from 1'),
        (workload(block_size=-2), '"block_size" must be from 1'),
        (workload(max_num_seqs=0), '"max_num_seqs" must be from 1'),
        (workload(max_num_batched_tokens=None), '"max_num_batched_tokens" is missing'),
        (workload(enable_prefix_caching=1), '"enable_prefix_caching" must be true or false'),
        (workload(enable_prefix_caching=None), '"enable_prefix_caching" is missing'),
        (workload(requests=None), '"requests" is missing'),
        (workload(requests={}), '"requests" must be a list, got {}'),
        (workload(requests=[]), '"requests" is empty'),
        (workload(requests=[3]), "request 1: a table of keys is expected, got 3"),
        (workload(request("a", 1, 1), request("a", 1, 1)), "request 2: the id 'a' is taken"),
        (workload(request("a", 0, 1)), '"prompt_token_ids" is empty'),
        (workload(request("a", 1, 0)), '"output_token_ids" is empty'),
        (workload(request("", 1, 1)), '"id" is empty'),
        (workload(request("a", 1, 1, arrival=-1)), '"arrival_step" must be from 0'),
        (workload({**request("a", 1, 1), "arrival_step": True}), "must be a whole number"),
        (workload({**request("a", 1, 1), "output_token_ids": [1, -1]}), "token 1 must be from 0"),
        (workload({**request("a", 1, 1), "output_token_ids": [1 << 32]}), "must be from 0 to"),
        (workload({**request("a", 1, 1), "prompt_token_ids": [False]}), "got False"),
        (workload({**request("a", 1, 1), "prompt_token_ids": [10**999]}), "3319 bits"),
        (workload({**request("a", 1, 1), "prompt_token_ids": "abc"}), "must be a list"),
        (workload({"id": "a"}), 'request 1: "arrival_step" is missing'),
        (workload(vllm=3), '"vllm": a table of keys is expected, got 3'),
        (workload(vllm={"watermark": "x"}), '"watermark" must be a number'),
        (workload(vllm={"watermark": 1.5}), "watermark must be in [0, 1), got 1.5"),
        (workload(vllm={"watermark": -0.5}), "watermark must be in [0, 1), got -0.5"),
        (workload(vllm={"reserve_full_isl": 0}), '"reserve_full_isl" must be true or false'),
        (workload(vllm={"max_steps": 0}), '"max_steps" must be from 1'),
        (workload(nano_vllm=[]), '"nano_vllm": a table of keys is expected'),
    ],
)
def test_what_is_wrong_is_said_in_one_sentence(values: Any, sentence: str) -> None:
    with pytest.raises(ScenarioError) as caught:
        parse_workload(values)
    assert sentence in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("data", "sentence"),
    [
        (b"", "not JSON"),
        (b"{", "not JSON: Expecting property name"),
        (b"\xff", "byte 0 is not UTF-8"),
        (b'{"name": NaN}', "NaN is not a number"),
        (b'{"name": 1e999}', '"num_blocks"'),
        (b"[" * 100_000, "nested too deeply"),
        (b'{"num_blocks": ' + b"9" * 9999 + b"}", "not JSON that can be read"),
        (b'{"name": "a", "name": "b"}', "the key 'name' is given twice"),
    ],
)
def test_a_file_that_is_none_is_one_sentence(tmp_path: Path, data: bytes, sentence: str) -> None:
    path = tmp_path / "w.json"
    path.write_bytes(data)
    with pytest.raises(ScenarioError, match=r"w\.json") as caught:
        load_workload(path)
    assert sentence in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_file_that_is_not_there_is_one_sentence(tmp_path: Path) -> None:
    for path in (tmp_path, tmp_path / "none.json", "a\0b"):
        with pytest.raises(ScenarioError, match="cannot read"):
            load_workload(path)


@pytest.mark.random
def test_a_mutated_file_is_refused_or_replayed(soak: bool) -> None:
    rng = random.Random(21)
    original = json.dumps(workload(request("a", 3, 4), request("b", 5, 2, 1), note="n"))
    outcomes = {"refused": 0, "replayed": 0}
    for _ in range(2000 if soak else 200):
        text = original
        for _ in range(rng.randint(1, 3)):
            start = rng.randrange(len(text))
            new = rng.choice(["", "-", "1", "9", "true", "null", '"', "[", "{}", ",", "x"])
            text = text[:start] + new + text[start + rng.randint(0, 4) :]
        try:
            values = json.loads(text)
        except ValueError:
            continue
        try:
            records = run(parse_workload(values) and values)[0]
        except ScenarioError as error:
            assert "\n" not in str(error)
            outcomes["refused"] += 1
        else:
            assert all(list(record) == KEYS for record in records)
            outcomes["replayed"] += 1
    assert min(outcomes.values()) > 0
