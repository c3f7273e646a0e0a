"""The Step screen without a browser: what is on it, and what its controls do."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from streamlit.testing.v1 import AppTest

from pagedviz.scenarios import scenario_names
from pagedviz.trace.trace import Moment
from tests.views.replaying import Replay, decoded

ROOT = Path(__file__).resolve().parents[2]
SECONDS = 60


def opened(**link: str) -> AppTest:
    app = AppTest.from_file(str(ROOT / "app.py"), default_timeout=SECONDS)
    app.session_state["board awaited"] = False  # there is no browser that would tell
    for key, value in link.items():
        app.query_params[key] = value
    app.run()
    assert not app.exception
    return app


def sent(app: AppTest) -> dict[str, Any]:
    """What the board was given."""
    (component,) = app.get("bidi_component")
    data: dict[str, Any] = json.loads(component.proto.json)
    return data


def shown(app: AppTest) -> tuple[int, int | None, str]:
    """Step, event and state hash of the moment the board is sent to, computed from what it gets."""
    data = sent(app)
    replay = Replay(decoded(data["chunk"]))
    step, event = data["go"]["step"], data["go"]["event"]
    events = replay.chunk["events"][: step - replay.chunk["first"] + 1]
    place = sum(count + 1 for count in events[:-1])
    for _ in range(place + (events[-1] + 1 if event is None else event)):
        replay.on()
    return step, event, f"{replay.hash:016x}"


@pytest.mark.parametrize("panel", ["attention", "page"])
def test_a_chart_has_its_place_before_the_board_is_there(panel: str) -> None:
    link = {"scenario": "growing", "step": "12", "panel": panel}
    app = AppTest.from_file(str(ROOT / "app.py"), default_timeout=SECONDS)
    for key, value in link.items():
        app.query_params[key] = value
    app.run()
    assert not app.get("plotly_chart")
    bodies = "".join(element.proto.body for element in app.get("html"))
    kept = re.findall(r'class="awaited" style="height:(\d+)px"', bodies)
    charts = opened(**link).get("plotly_chart")
    high = [json.loads(chart.proto.spec)["layout"]["height"] for chart in charts]
    assert [int(height) for height in kept] == high
    assert len(high) >= 4


def test_first_paint_is_a_finished_example_at_its_interesting_step() -> None:
    app = opened()
    step, event, _ = shown(app)
    assert step > 0
    assert event is None
    assert len(app.get("plotly_chart")) == 4  # states, occupancy, attention by page and by token
    assert not app.warning
    assert app.query_params["scenario"] == "growing"


@pytest.mark.parametrize("scenario", scenario_names())
def test_every_scenario_opens(scenario: str) -> None:
    app = opened(scenario=scenario)
    assert not app.warning
    assert app.query_params["scenario"] == scenario


def test_a_link_with_settings_opens_the_same_moment_and_hash() -> None:
    app = opened(scenario="growing", step="9", event="2", block_size="6", num_pages="60")
    copied = dict(app.query_params)
    assert copied["block_size"] == "6"
    assert shown(opened(**copied)) == shown(app)
    assert shown(opened(scenario="growing", step="9", event="2")) != shown(app)


@pytest.mark.parametrize(
    ("link", "problem"),
    [
        ({"scenario": "nonsense"}, "there is no scenario"),
        ({"scenario": "<script>alert(1)</script>"}, "there is no scenario"),
        ({"scenario": "../../etc/passwd.toml"}, "there is no scenario"),
        ({"step": "minus one"}, "step in the address must be a whole number"),
        ({"step": "99999"}, "step 99999 is not recorded: this run has steps 0 to"),
        ({"step": "3", "event": "99"}, "step 3 has no event 99"),
        ({"block_size": "0"}, "“Slots a page” must be at least 1, got 0"),
        ({"block_size": '"x"'}, "“Slots a page” must be a whole number"),
        ({"num_pages": "1"}, "enlarge it, shorten the prompt"),
        ({"num_pages": "100000"}, "“Pages in the pool” 100000"),
        ({"requests": '{"lily": {"max_new_tokens": 900}}'}, "context holds 512"),
        ({"requests": "[1]"}, "requests"),
        ({"requests": '{"lily": {"colour": 1}}'}, "colour"),
    ],
)
def test_nonsense_in_a_link_is_one_sentence_and_something_is_shown(
    link: dict[str, str], problem: str
) -> None:
    app = opened(**link)
    (warning,) = app.warning
    assert problem in warning.value.replace("\\", "")
    assert shown(app)[2]


def field(app: AppTest, kind: str, label: str) -> object:
    return next(widget for widget in app.sidebar.get(kind) if widget.label == label)


def test_settings_apply_together_and_there_is_a_way_back() -> None:
    app = opened(scenario="growing", step="7")
    before = shown(app)
    field(app, "number_input", "Slots a page").set_value(6)
    field(app, "number_input", "Pages in the pool").set_value(60)
    next(b for b in app.sidebar.button if b.label == "Apply").click().run()
    assert not app.warning
    assert shown(app)[0] == 7
    assert shown(app)[2] != before[2]
    assert app.query_params["block_size"] == "6"
    next(b for b in app.main.button if b.label == "Undo changes").click().run()
    assert "block_size" not in app.query_params
    assert shown(app) == before


@pytest.mark.parametrize(
    ("kind", "label", "value", "problem"),
    [
        ("number_input", "Slots a page", 0, "“Slots a page” must be at least 1, got 0"),
        ("number_input", "Pages in the pool", 2, "the pool has 2"),
        ("number_input", "Tokens a step", -5, "“Tokens a step” must be at least 1, got -5"),
        ("number_input", "Chunk", 0, "“Chunk” must be at least 1, got 0"),
        ("number_input", "Host pages", -1, "“Host pages” must be at least 0, got -1"),
        ("selectbox", "When no page is left", "swap", "swap needs “Host pages” of at least 1"),
        ("number_input", "Samples", 0, "“Samples” must be from 1 to 16, got 0"),
        ("number_input", "Beam width", 99, "“Beam width” must be from 1 to 16"),
        ("number_input", "Temperature", -1.0, "“Temperature”"),
        ("number_input", "Max new tokens", 600, "the model's context holds 512"),
        ("text_area", "Prompt", "", "is empty"),
    ],
)
def test_a_bad_setting_is_one_sentence_and_the_run_on_screen_stays(
    kind: str, label: str, value: object, problem: str
) -> None:
    app = opened(scenario="growing", step="7")
    before = shown(app)
    field(app, kind, label).set_value(value)
    next(b for b in app.sidebar.button if b.label == "Apply").click().run()
    assert not app.exception
    (warning,) = app.warning
    assert "Not applied" in warning.value
    assert problem in warning.value.replace("\\", "")
    assert shown(app) == before
    assert field(app, kind, label).value == value


def test_a_prompt_can_be_changed_and_another_one_added() -> None:
    app = opened(scenario="growing")
    field(app, "text_area", "Prompt").set_value("<script>alert(1)</script> **One** day")
    field(app, "selectbox", "Request").set_value(1).run()
    (prompt,) = app.sidebar.get("text_area")
    assert prompt.value == ""
    prompt.set_value("One day Tom").run()
    next(b for b in app.sidebar.button if b.label == "Apply").click().run()
    assert not app.exception and not app.warning
    names = [lane for lane, _ in decoded(sent(app)["overview"])["lanes"]]
    assert len(names) == 2
    changed = json.loads(app.query_params["requests"])
    assert changed["lily"]["prompt"].startswith("<script>")
    assert changed["added 1"]["prompt"] == "One day Tom"


def test_what_was_typed_is_kept_until_another_run_is_shown() -> None:
    app = opened(scenario="samples", step="3")
    field(app, "number_input", "Max new tokens").set_value(9).run()
    field(app, "selectbox", "Request").set_value(1).run()
    field(app, "selectbox", "Request").set_value(0).run()
    assert field(app, "number_input", "Max new tokens").value == 9
    assert "requests" not in app.query_params
    next(b for b in app.sidebar.button if b.label == "Apply").click().run()
    assert "requests" in app.query_params
    next(b for b in app.main.button if b.label == "Undo changes").click().run()
    assert field(app, "number_input", "Max new tokens").value != 9


def test_what_is_sent_does_not_depend_on_where_the_board_rests() -> None:
    app = opened(scenario="growing", step="7")
    before = sent(app)
    app.session_state["view"].moment = Moment(9)
    app.run()
    assert sent(app) == before
    assert app.query_params["step"] == ["9"] or app.query_params["step"] == "9"


def test_bookmarks_of_an_address_reach_the_board_and_nonsense_does_not() -> None:
    rows = [[3, None, "first"], [5, 1, "<b>"], [999, None, "beyond"], [1, 2], "x", [2, None, " "]]
    app = opened(scenario="growing", bookmarks=json.dumps(rows))
    assert sent(app)["bookmarks"] == [
        {"step": 3, "event": None, "name": "first"},
        {"step": 5, "event": 1, "name": "<b>"},
    ]


def test_an_adapter_is_chosen_in_the_sidebar_and_named_on_the_board() -> None:
    app = opened(scenario="growing", step="3")
    chosen = field(app, "selectbox", "Adapter")
    assert chosen.options == ["none: the model alone", "brief", "golden"] and chosen.value == ""
    chosen.set_value("golden")
    next(b for b in app.sidebar.button if b.label == "Apply").click().run()
    assert not app.warning
    assert json.loads(app.query_params["requests"]) == {"lily": {"adapter": "golden"}}
    board = Replay(decoded(sent(app)["chunk"]))
    board.on()
    assert board.fields["seq/0/adapter"] == "golden"
    field(app, "selectbox", "Adapter").select_index(0)
    next(b for b in app.sidebar.button if b.label == "Apply").click().run()
    assert "requests" not in app.query_params


@pytest.mark.parametrize(
    ("kind", "label", "value", "link"),
    [
        ("selectbox", "When no page is left", "abort", {"preemption": '"abort"'}),
        ("selectbox", "Decides like", "nano_vllm", {"profile": '"nano_vllm"'}),
        ("number_input", "Host pages", 8, {"host_pages": "8"}),
        ("number_input", "Samples", 3, {"requests": '{"lily":{"num_samples":3}}'}),
        ("number_input", "Beam width", 2, {"requests": '{"lily":{"beam_width":2}}'}),
        ("number_input", "Temperature", 0.7, {"requests": '{"lily":{"temperature":0.7}}'}),
    ],
)
def test_policies_profiles_and_forks_are_set_up_and_in_the_address(
    kind: str, label: str, value: object, link: dict[str, str]
) -> None:
    app = opened(scenario="growing", step="7")
    field(app, kind, label).set_value(value)
    next(b for b in app.sidebar.button if b.label == "Apply").click().run()
    assert not app.exception and not app.warning
    assert {key: app.query_params[key] for key in link} == link
    again = opened(**dict(app.query_params))
    assert not again.warning
    assert shown(again) == shown(app)
    assert field(again, kind, label).value == value
