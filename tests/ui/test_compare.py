"""The Compare screen without a browser: two runs at one step, chosen, stepped, in the address."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from streamlit.testing.v1 import AppTest

from pagedviz.engine.errors import ScenarioError
from pagedviz.scenarios import apply_settings, load_scenario
from pagedviz.ui.pairs import COMPARED, setting_words
from pagedviz.ui.runs import FIRST_STEPS, RunKey, key_for, recording_of, varied_key
from pagedviz.ui.selection import MAX_WITH_CHARS, Selection
from pagedviz.ui.worker import Worker
from tests.ui.test_screens import html, opened, query, words

SIZES = {"scenario": "shared_prompt", "block_size": "4", "with": '{"block_size":16}'}


def press(app: AppTest, label: str) -> AppTest:
    next(button for button in app.button if button.label.startswith(label)).click().run()
    assert not app.exception
    return app


def chosen(app: AppTest, **values: object) -> AppTest:
    """Type into the form and press Compare."""
    for name, value in values.items():
        widgets = (*app.number_input, *app.selectbox)
        widget = next(
            w for w in widgets if (w.key or "").startswith("compare") and w.key.endswith(f"/{name}")
        )
        widget.set_value(value)
    return press(app, "Compare")


def test_settings_of_the_other_run_survive_an_address() -> None:
    looking = Selection(other={"block_size": 16, "chunk_size": None}, past_end=3)
    assert looking.parameters()["with"] == '{"block_size":16,"chunk_size":null}'
    assert Selection.read(looking.parameters()) == looking


@pytest.mark.parametrize(
    "text", ["", "{", "[1]", "7", "[" * 1500, '{"block_size":' + " " * MAX_WITH_CHARS + "4}"]
)
def test_settings_that_are_none_are_left_out(text: str) -> None:
    assert Selection.read({"with": text, "past": "-1"}) == Selection()


def test_the_other_run_is_a_run_like_any_other() -> None:
    left = key_for("thrash", {"block_size": 8, "num_pages": 50})
    assert varied_key(left, {"num_pages": 60}) == key_for(
        "thrash", {"block_size": 8, "num_pages": 60}
    )
    assert varied_key(left, {"block_size": 4, "num_pages": 40}) == RunKey("thrash")
    assert varied_key(left, {}) == left
    with pytest.raises(ScenarioError, match="'requests' is none"):
        varied_key(left, {"requests": {}})
    with pytest.raises(ScenarioError, match="comes from a file"):
        varied_key(RunKey("thrash", file="x"), {"block_size": 4})


def test_both_runs_stand_beside_each_other_with_what_differs() -> None:
    app = opened("compare", **SIZES, step="20")
    shown = words(app)
    assert "Left run \u00b7 slots a page 4" in shown
    assert "Right run \u00b7 slots a page 16" in shown
    assert "nora) is admitted with 4 tokens from the prefix cache in the left run, none" in shown
    assert "45 active and 0 cached pages of 4 slots" in shown
    assert "All texts are equal in both runs" in shown
    assert '<td class="right differs">' in html(app) and "\u2260" in shown
    assert "step  20  of 92" in shown
    assert (query(app, "step"), query(app, "with")) == ("20", '{"block_size":16}')


def test_before_anything_is_chosen_the_other_caching_is_compared() -> None:
    app = opened("compare", scenario="thrash", step="30")
    assert "Right run \u00b7 prefix caching off" in words(app)
    assert "with" not in app.query_params
    press(app, "First difference in pages: step 4")
    assert query(app, "step") == "4"


def test_equal_settings_differ_in_nothing() -> None:
    app = opened("compare", scenario="thrash", step="30", **{"with": "{}"})
    assert not [b for b in app.button if b.label.startswith("First difference")]
    assert "differs" not in re.sub("<style>.*?</style>", "", html(app), flags=re.DOTALL)
    assert words(app).count("the same settings") == 2


def test_settings_are_chosen_in_the_form_and_only_what_differs_is_kept() -> None:
    app = opened("compare", scenario="thrash", step="30")
    chosen(app, prefix_caching=True, preemption="swap", host_pages=64)
    assert json.loads(query(app, "with")) == {"preemption": "swap", "host_pages": 64}
    assert "Right run \u00b7 preemption swap, host pages 64" in words(app)
    assert "tokens on the host" in words(press(app, "First difference in decisions"))
    chosen(app, host_pages=0)
    assert any("Not applied" in warning.value for warning in app.warning)
    assert json.loads(query(app, "with")) == {"preemption": "swap", "host_pages": 64}


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ('{"block_size":0}', "must be at least 1"),
        ('{"bloc":4}', "and 'bloc' is none"),
        ('{"num_pages":2}', "the pool has 2"),
    ],
)
def test_a_run_that_cannot_be_is_a_sentence_and_can_be_changed(text: str, sentence: str) -> None:
    app = opened("compare", scenario="growing", **{"with": text})
    assert any(sentence in warning.value for warning in app.warning)
    chosen(app, block_size=16, num_pages=32)
    assert not app.warning
    assert json.loads(query(app, "with"))["block_size"] == 16


def test_the_longer_run_is_followed_past_the_end_of_the_run_on_screen() -> None:
    link = {"scenario": "shared_prompt", "block_size": "16", "with": '{"block_size":4}'}
    app = opened("compare", **link)
    press(app, "Last")
    shown = words(app)
    assert "step  92  of 92" in shown
    assert "This run was over after step 68 and stays as it was" in shown
    assert (query(app, "step"), query(app, "past")) == ("68", "24")
    again = opened("compare", **{key: query(app, key) for key in app.query_params})
    assert "step  92  of 92" in words(again)
    press(again, "Back")
    assert query(again, "past") == "23"
    press(again, "First")
    assert query(again, "step") == "0" and "past" not in again.query_params


def strip(app: AppTest) -> dict[str, Any]:
    """What Python sends to the strip."""
    (component,) = app.get("bidi_component")
    data: dict[str, Any] = json.loads(component.proto.json)
    return data


def test_the_strip_has_a_row_for_the_host_when_either_run_has_one() -> None:
    app = opened("compare", scenario="swap", step="20", **{"with": '{"preemption":"recompute"}'})
    drawn = strip(app)["html"]
    assert "host pages of 64" in drawn and "no host pool" in drawn
    assert "11 of 64 host pages in use" in words(app)
    assert "11 host pages in the left run" in words(app)
    assert "host" not in strip(opened("compare", scenario="thrash", step="30"))["html"]


def test_swapped_sides_stand_the_other_way_round_and_swapping_again_brings_them_back() -> None:
    app = opened("compare", **SIZES, step="80")
    there = {key: query(app, key) for key in app.query_params}
    press(app, "Swap sides")
    shown = words(app)
    assert "Left run \u00b7 slots a page 16" in shown and "Right run \u00b7 slots a page 4" in shown
    assert "step  80  of 92" in shown and "45 active" not in shown
    assert (query(app, "with"), query(app, "past")) == ('{"block_size":4}', "12")
    press(app, "Swap sides")
    assert {key: query(app, key) for key in app.query_params} == there


def test_a_fault_swaps_sides_with_the_healthy_engine_and_rules_are_a_kind_of_difference() -> None:
    app = opened("compare", scenario="fault-wiped-hash", step="4")
    assert "rule 9 is broken in the left run only" in words(app)
    assert "1 of 9 steps differ" in strip(app)["html"]
    press(app, "Swap sides")
    assert query(app, "scenario") == "healthy-wiped-hash" and query(app, "step") == "4"
    assert "rule 9 is broken in the right run only" in words(app)
    press(app, "First")
    press(app, "First difference in rules: step 4")
    assert query(app, "step") == "4"


def test_a_branch_is_compared_with_the_same_branch_under_other_settings() -> None:
    changes = '[{"step":20,"aborts":["lily"]}]'
    app = opened("compare", scenario="thrash", step="30", what_if=changes)
    assert not app.warning and "Right run" in words(app)
    assert "All texts are equal in both runs" in words(app)


def test_names_from_an_address_are_text() -> None:
    evil = "<script>alert(1)</script><img src=x>"
    requests = {evil: {"prompt": "Once upon a time", "max_new_tokens": 3}}
    link = {"requests": json.dumps(requests), "with": '{"num_pages":40,"max_tokens_per_step":8}'}
    app = opened("compare", scenario="growing", step="0", **link)
    assert "&lt;script&gt;" in html(app)
    assert "<script>" not in html(app) and "<img src" not in html(app)


def test_while_a_run_is_recorded_what_both_have_is_compared(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(Worker, "start", lambda self: None)
    late = {"prompt": "Once upon a time", "max_new_tokens": 6, "arrival_step": 700}
    overrides = {"requests": {"late": late}}
    link = {"scenario": "growing", "requests": json.dumps(overrides["requests"])}
    app = opened("compare", **link, **{"with": '{"block_size":8}'})
    captions = [caption.value for caption in app.main.caption]
    assert f"Compared are the {FIRST_STEPS} steps that both runs have" in captions
    assert f"The right run is still being recorded: step {FIRST_STEPS - 1}" in captions
    assert "All texts so far are equal in both runs" in words(app)
    left = key_for("growing", overrides)
    for key in (left, varied_key(left, {"block_size": 8})):
        recording_of(key).reach(5000)
    app.run()
    assert "All texts are equal in both runs" in words(app)
    assert not [c for c in app.main.caption if "recorded" in c.value]
    press(app, "Last")
    assert query(app, "step") == "705"


def test_what_is_told_of_two_runs_is_what_each_has_otherwise() -> None:
    scenario = load_scenario("thrash")
    other = apply_settings(scenario, {"chunk_size": 8, "profile": "vllm", "prefix_caching": False})
    assert setting_words(scenario, other) == "prefix caching on, chunk no limit"
    assert setting_words(other, scenario) == "prefix caching off, chunk 8"
    assert all(hasattr(scenario.engine, name) for name in COMPARED)
