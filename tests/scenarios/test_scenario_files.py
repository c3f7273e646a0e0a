"""Scenario files: what is in them is checked to the last key, in one sentence each."""

from __future__ import annotations

import random
import tomllib
from pathlib import Path
from typing import Any

import pytest

from pagedviz.engine.errors import ScenarioError
from pagedviz.engine.sampling import SamplingParams
from pagedviz.scenarios import Request, Scenario, load_scenario, parse_scenario, scenario_names
from pagedviz.scenarios.scenario import (
    FOLDER,
    MAX_FILE_BYTES,
    MAX_PROMPT_CHARS,
    MAX_REQUESTS,
)

GOOD = """
title = "Two talk"
description = "One asks, one answers."
start_step = 2
look_for = [{ step = 1, text = "the first page is full" }]

[engine]
num_pages = 16
block_size = 4
chunk_size = 3

[[requests]]
name = "ask"
prompt = "Who?"
max_new_tokens = 4
arrival_step = 1
temperature = 0.5
seed = 7

[[requests]]
name = "answer"
follows = "ask"
after = 2
prompt_ids = [1, 2]
max_new_tokens = 3
"""


def parse(text: str) -> Scenario:
    return parse_scenario(tomllib.loads(text), "good")


def test_a_file_says_all_there_is_to_know() -> None:
    scenario = parse(GOOD)
    assert (scenario.title, scenario.start_step) == ("Two talk", 2)
    assert scenario.look_for == ((1, "the first page is full"),)
    assert (scenario.engine.num_pages, scenario.engine.chunk_size) == (16, 3)
    assert scenario.engine.reject_impossible
    ask, answer = scenario.requests
    assert ask == Request(
        "ask", "Who?", None, 4, 1, None, 1, SamplingParams(temperature=0.5, seed=7)
    )
    assert (answer.prompt, answer.prompt_ids) == (None, (1, 2))
    assert (answer.follows, answer.after) == ("ask", 2)


@pytest.mark.parametrize(
    ("old", "new", "sentence"),
    [
        ('title = "Two talk"', "", '"title" is missing'),
        ('title = "Two talk"', "title = 3", '"title" must be a text, got 3'),
        ('title = "Two talk"', 'title = ""', '"title" is empty'),
        ('title = "Two talk"', 'title = "a\\nb"', "one line of printable text"),
        ('title = "Two talk"', 'title = "a\\u001b[2J"', "one line of printable text"),
        ("start_step = 2", "start_stap = 2", "'start_stap' (did you mean start_step?); allowed"),
        ("start_step = 2", "start_step = -2", '"start_step" must be from 0 to 100000, got -2'),
        ("start_step = 2", "start_step = true", '"start_step" must be a whole number, got True'),
        ("step = 1, ", "", 'look_for 1: "step" is missing'),
        ("num_pages = 16", "", '[engine]: "num_pages" is missing'),
        ("num_pages = 16", "num_pages = 0", "num_pages must be at least 1, got 0"),
        ("block_size = 4", "block_size = 0", "block_size must be at least 1, got 0"),
        ("block_size = 4", 'block_size = "4"', "block_size must be a whole number, got '4'"),
        ("block_size = 4", "page_size = 4", "[engine]: unknown key 'page_size'"),
        ("block_size = 4", "blok_size = 4", "did you mean block_size?"),
        ("chunk_size = 3", "watermark = 1", "watermark must be in [0, 1), got 1"),
        ("[engine]", "[engines]", "unknown key 'engines' (did you mean engine?)"),
        ('name = "ask"', "", 'request 1: "name" is missing'),
        ('name = "answer"', 'name = "ask"', "the name 'ask' is taken by request 1"),
        ('prompt = "Who?"', "", "request 1 ('ask'): \"prompt\" is missing"),
        ('prompt = "Who?"', 'prompt = " "', '"prompt" is empty'),
        ('prompt = "Who?"', 'prompt = "Who?"\nprompt_ids = [1]', "both are given"),
        ("prompt_ids = [1, 2]", "prompt_ids = []", '"prompt_ids" is empty'),
        ("prompt_ids = [1, 2]", "prompt_ids = [1, -2]", "token 1 must be from 0"),
        ("prompt_ids = [1, 2]", "prompt_ids = [true]", "token 0 must be a whole number, got True"),
        ("max_new_tokens = 4", "", '"max_new_tokens" is missing'),
        ("max_new_tokens = 4", "max_new_tokens = 0", '"max_new_tokens" must be from 1 to'),
        ("max_new_tokens = 4", "max_new_token = 4", "did you mean max_new_tokens?"),
        ("arrival_step = 1", "arrival_step = -1", '"arrival_step" must be from 0 to 100000'),
        ("arrival_step = 1", "arrival_step = 1.0", '"arrival_step" must be a whole number'),
        ("arrival_step = 1", "after = 1", '"after" goes with "follows" only'),
        ("after = 2", "after = 0", '"after" must be from 1'),
        ("after = 2", "arrival_step = 2", '"arrival_step" and "follows" exclude each other'),
        ('follows = "ask"', 'follows = "asc"', "'asc' (did you mean ask?); allowed: ask"),
        ('follows = "ask"', 'follows = "answer"', '"follows" must name a request above'),
        ("temperature = 0.5", "temperature = -1", "temperature must be in [0, 100], got -1"),
        ("temperature = 0.5", "top_k = 0", "top_k must be at least 1, got 0"),
        ("temperature = 0.5", "top_p = 0", "top_p must be in [0, 1], got 0"),
        ("temperature = 0.5", "temprature = 1", "did you mean temperature?"),
        ("seed = 7", "seed = -1", "seed must be at least 0, got -1"),
        ("seed = 7", "adapter = 3", '"adapter" must be a text, got 3'),
        ("seed = 7", 'adapter = ""', '"adapter" is empty'),
        ("seed = 7", 'adaptor = "a"', "'adaptor' (did you mean adapter?)"),
    ],
)
def test_what_is_wrong_is_said_in_one_sentence(old: str, new: str, sentence: str) -> None:
    assert old in GOOD
    with pytest.raises(ScenarioError) as caught:
        parse(GOOD.replace(old, new, 1))
    assert sentence in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("data", "sentence"),
    [
        (b"", '"title" is missing'),
        (b"title = ", "not TOML"),
        (b"title = '\xff'", "byte 9 is not UTF-8"),
        (b"x = " + b"[" * 5000, "not TOML"),
        (b"x = " + b"9" * 5000, "not TOML"),
        (b"#" * (MAX_FILE_BYTES + 1), "larger than 1000000 bytes"),
        (b'title = "a"\ntitle = "b"', "not TOML"),
    ],
)
def test_a_file_that_is_none_is_refused(tmp_path: Path, data: bytes, sentence: str) -> None:
    path = tmp_path / "x.toml"
    path.write_bytes(data)
    with pytest.raises(ScenarioError, match=r"x\.toml") as caught:
        load_scenario(path)
    assert sentence in str(caught.value)


def test_sizes_have_limits() -> None:
    one = {"name": "a", "prompt": "x", "max_new_tokens": 1}
    base = {"title": "t", "description": "d", "engine": {"num_pages": 4}}
    many = [{**one, "name": f"r{number}"} for number in range(MAX_REQUESTS + 1)]
    with pytest.raises(ScenarioError, match="257 entries, at most 256"):
        parse_scenario({**base, "requests": many}, "many")
    long = {**one, "prompt": "x" * (MAX_PROMPT_CHARS + 1)}
    with pytest.raises(ScenarioError, match="100001 characters, at most 100000"):
        parse_scenario({**base, "requests": [long]}, "long")
    with pytest.raises(ScenarioError, match='"requests" is empty'):
        parse_scenario({**base, "requests": []}, "none")


def test_a_scenario_is_found_by_name_or_by_path(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text(GOOD, encoding="utf-8")
    assert load_scenario(path) == load_scenario(str(path))
    assert load_scenario(path).name == "mine"
    assert load_scenario("chat").name == "chat"


@pytest.mark.parametrize("name", ["thrsh", "", "..", "/etc/passwd", "chat.toml", "a\0b.toml"])
def test_a_scenario_that_is_not_there_is_one_sentence(name: str) -> None:
    with pytest.raises(ScenarioError, match=r"there is no scenario|cannot read"):
        load_scenario(name)


def test_a_name_that_is_nearly_right_gets_a_hint() -> None:
    with pytest.raises(ScenarioError, match=r"did you mean thrash\?"):
        load_scenario("thrsh")


def test_every_file_of_the_package_is_listed_and_loads() -> None:
    assert {path.stem for path in FOLDER.glob("*.toml")} == set(scenario_names())
    titles = [load_scenario(name).title for name in scenario_names()]
    assert len(set(titles)) == len(titles)


@pytest.mark.random
def test_a_mutated_file_is_refused_or_read(soak: bool) -> None:
    """Never anything but a ScenarioError, whatever happens to the bytes of a file."""
    rng = random.Random(20)
    originals = [(FOLDER / f"{name}.toml").read_bytes() for name in scenario_names()]
    refused = 0
    for _ in range(1000 if soak else 100):
        data = bytearray(rng.choice(originals))
        for _ in range(rng.randint(1, 6)):
            _mutate(data, rng)
        try:
            values: dict[str, Any] = tomllib.loads(data.decode())
        except ValueError:
            continue
        try:
            parse_scenario(values, "mutated")
        except ScenarioError as error:
            assert "\n" not in str(error)
            refused += 1
    assert refused


def _mutate(data: bytearray, rng: random.Random) -> None:
    place = rng.randrange(len(data))
    match rng.randrange(4):
        case 0:
            data[place] = rng.randrange(256)
        case 1:
            del data[place : place + rng.randint(1, 30)]
        case 2:
            data[place:place] = rng.choice([b"-1", b"true", b'""', b"x", b"\n", b"= [", b"0"])
        case _:
            start = rng.randrange(len(data))
            data[place:place] = data[start : start + 40]
