"""Settings changed on top of a scenario: what differs is kept, and only that."""

from __future__ import annotations

import json
from typing import Any

import pytest

from pagedviz.engine.errors import ConfigError
from pagedviz.scenarios import Scenario, apply_settings, load_scenario, scenario_names

CHAT = load_scenario("chat")
FIRST, SECOND, FOLLOWER = (request.name for request in CHAT.requests[:3])


def everything(scenario: Scenario) -> dict[str, Any]:
    """What the sidebar sends: every field, changed or not."""
    engine = scenario.engine
    return {
        "num_pages": engine.num_pages,
        "block_size": engine.block_size,
        "chunk_size": engine.chunk_size,
        "prefix_caching": engine.prefix_caching,
        "max_tokens_per_step": engine.max_tokens_per_step,
        "requests": {
            request.name: {
                "prompt": request.prompt,
                "max_new_tokens": request.max_new_tokens,
                "adapter": request.adapter,
            }
            | ({} if request.follows else {"arrival_step": request.arrival_step})
            for request in scenario.requests
        },
    }


@pytest.mark.parametrize("name", scenario_names())
def test_the_values_of_the_file_are_no_overrides(name: str) -> None:
    scenario = load_scenario(name)
    same = apply_settings(scenario, everything(scenario))
    assert same == scenario
    assert same.overrides == {}


@pytest.mark.parametrize(
    "overrides",
    [
        {},
        {"block_size": 4},
        {"block_size": 4, "prefix_caching": False, "chunk_size": 7, "watermark": 0.25},
        {"max_running": 2, "full_prompt_gate": False, "max_tokens_per_step": 9},
        {"requests": {FIRST: {"prompt": "Who?", "temperature": 0.5, "seed": 3}}},
        {"requests": {FOLLOWER: {"arrival_step": 9}}},
        {"requests": {FOLLOWER: {"follows": SECOND, "after": 5}}},
        {"requests": {FIRST: {"prompt_ids": [1, 2, 3]}}},
        {"requests": {FIRST: {"adapter": "golden"}, FOLLOWER: {"adapter": "brief"}}},
        {"requests": {"new": {"prompt": "Who?", "max_new_tokens": 3}}},
        {"requests": {CHAT.requests[-1].name: None}},
    ],
)
def test_the_overrides_of_a_scenario_make_it_again(overrides: dict[str, Any]) -> None:
    changed = apply_settings(CHAT, overrides)
    assert (changed == CHAT) == (not overrides)
    carried = json.loads(json.dumps(changed.overrides))
    assert apply_settings(CHAT, carried) == changed
    assert apply_settings(changed, {}) == changed


def test_changes_add_up_and_can_be_taken_back() -> None:
    once = apply_settings(CHAT, {"block_size": 4, "requests": {FIRST: {"top_k": 3}}})
    twice = apply_settings(once, {"num_pages": 99, "requests": {FIRST: {"min_p": 0.5}}})
    assert twice.overrides == {
        "num_pages": 99,
        "block_size": 4,
        "requests": {FIRST: {"top_k": 3, "min_p": 0.5}},
    }
    back = apply_settings(
        twice,
        {
            "num_pages": CHAT.engine.num_pages,
            "block_size": CHAT.engine.block_size,
            "requests": {FIRST: {"top_k": None, "min_p": None}},
        },
    )
    assert back == CHAT and back.overrides == {}


def test_a_request_taken_out_and_put_back_stands_where_it_stood() -> None:
    last = CHAT.requests[-1]
    without = apply_settings(CHAT, {"requests": {last.name: None}})
    assert [request.name for request in without.requests] == [
        request.name for request in CHAT.requests[:-1]
    ]
    back = {"prompt": last.prompt, "max_new_tokens": last.max_new_tokens, "follows": last.follows}
    again = apply_settings(without, {"requests": {last.name: {**back, "after": last.after}}})
    assert again == CHAT and again.overrides == {}


def test_the_scenario_given_stays_as_it_was() -> None:
    before = json.dumps(CHAT.table)
    apply_settings(CHAT, {"block_size": 4, "requests": {FIRST: {"prompt": "x"}, SECOND: {}}})
    assert json.dumps(CHAT.table) == before and CHAT.overrides == {}


@pytest.mark.parametrize(
    ("overrides", "sentence"),
    [
        ({"blok_size": 4}, "'blok_size' (did you mean block_size?); allowed: num_pages"),
        ({"block_size": 0}, "block_size must be at least 1, got 0"),
        ({"block_size": 2.5}, "block_size must be a whole number, got 2.5"),
        ({"num_pages": None}, '"num_pages" must have a value'),
        ({"prefix_caching": 1}, "prefix_caching must be true or false, got 1"),
        ({"chunk_size": 0}, "chunk_size must be at least 1, got 0"),
        ({"max_tokens_per_step": -3}, "max_tokens_per_step must be at least 1, got -3"),
        ({"requests": []}, '"requests" must be a table by name'),
        ({"requests": {FIRST: 5}}, "a table of keys is expected, got 5"),
        ({"requests": {FIRST: {"promt": "x"}}}, "did you mean prompt?"),
        ({"requests": {FIRST: {"name": "x"}}}, "unknown key 'name'"),
        ({"requests": {FIRST: {"prompt": ""}}}, '"prompt" is empty'),
        ({"requests": {FIRST: {"prompt": "\ud800"}}}, "half a character"),
        ({"requests": {FIRST: {"max_new_tokens": 0}}}, '"max_new_tokens" must be from 1'),
        ({"requests": {FIRST: {"arrival_step": -1}}}, '"arrival_step" must be from 0'),
        ({"requests": {FIRST: None}}, '"follows" must name a request above'),
        ({"requests": {"new": {"max_new_tokens": 3}}}, '"prompt" is missing'),
        ({"requests": {r.name: None for r in CHAT.requests}}, '"requests" is empty'),
    ],
)
def test_settings_that_cannot_be_are_one_sentence(overrides: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ConfigError) as caught:
        apply_settings(CHAT, overrides)
    assert sentence in str(caught.value)
    assert "\n" not in str(caught.value)
