"""The Step screen without a browser: what is on it, and what its controls do."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from streamlit.testing.v1 import AppTest

ROOT = Path(__file__).resolve().parents[2]
SECONDS = 60


def opened(**link: str) -> AppTest:
    app = AppTest.from_file(str(ROOT / "app.py"), default_timeout=SECONDS)
    for key, value in link.items():
        app.query_params[key] = value
    app.run()
    assert not app.exception
    return app


def board(app: AppTest) -> dict[str, str]:
    """The data attributes of the board."""
    (html,) = [e.proto.body for e in app.get("html") if 'data-testid="board"' in e.proto.body]
    return dict(re.findall(r'data-(step|event|state-hash)="([^"]*)"', html))


def sentence(app: AppTest) -> str:
    (html,) = [e.proto.body for e in app.get("html") if 'data-testid="board"' in e.proto.body]
    found = re.search(r'data-testid="sentence".*?<span>(.*?)</span></p>', html, re.DOTALL)
    assert found is not None
    return re.sub("<[^>]*>", "", found[1])


def press(app: AppTest, key: str) -> dict[str, str]:
    app.button(key=key).click().run()
    assert not app.exception
    return board(app)


def test_first_paint_is_a_finished_example_at_its_interesting_step() -> None:
    app = opened()
    assert board(app)["step"] != "0"
    assert board(app)["event"] == "end"
    # States, occupancy, and attention by page and by token.
    assert len(app.get("plotly_chart")) == 4
    assert not app.warning
    assert app.query_params["scenario"] == "growing"


@pytest.mark.parametrize("scenario", ["growing", "shared_prompt", "burst", "thrash", "chat"])
def test_every_scenario_opens(scenario: str) -> None:
    app = opened(scenario=scenario)
    assert not app.warning
    assert app.query_params["scenario"] == scenario


def test_step_and_back_move_by_exactly_one_and_back_shows_the_same_state() -> None:
    app = opened(scenario="growing", step="5")
    there = board(app)
    assert press(app, "step")["step"] == "6"
    assert press(app, "step")["step"] == "7"
    assert press(app, "back")["step"] == "6"
    assert press(app, "back") == there
    assert app.query_params["step"] == "5"


def test_first_and_last_lead_to_the_ends() -> None:
    app = opened(scenario="growing", step="5")
    last = press(app, "last")
    assert app.button(key="step").disabled and app.button(key="last").disabled
    assert press(app, "first")["step"] == "0"
    assert app.button(key="back").disabled
    assert press(app, "last") == last


def test_by_event_one_press_is_one_event() -> None:
    app = opened(scenario="growing", step="5", event="1")
    there = press(app, "step")
    assert (there["step"], there["event"]) == ("5", "2")
    assert press(app, "back")["event"] == "1"
    last_of_4 = press(app, "back")
    assert last_of_4["step"] == "4"
    assert last_of_4 == board(opened(scenario="growing", step="4", event=last_of_4["event"]))


def test_an_event_of_the_list_can_be_chosen() -> None:
    app = opened(scenario="shared_prompt", step="16")
    assert app.radio[0].value is None
    app.radio[0].set_value(4).run()
    assert (board(app)["step"], board(app)["event"]) == ("16", "4")
    assert app.query_params["event"] == "4"
    assert app.radio[0].options[3].startswith("4")


def test_the_slider_goes_to_a_step() -> None:
    app = opened(scenario="growing", step="5")
    app.slider[0].set_value(11).run()
    assert board(app)["step"] == "11"


def test_a_link_with_settings_opens_the_same_moment_and_hash() -> None:
    app = opened(scenario="growing", step="9", event="2", block_size="6", num_pages="60")
    copied = dict(app.query_params)
    assert copied["block_size"] == "6"
    assert board(opened(**copied)) == board(app)
    assert board(opened(scenario="growing", step="9", event="2")) != board(app)


@pytest.mark.parametrize(
    ("link", "problem"),
    [
        ({"scenario": "nonsense"}, "there is no scenario"),
        ({"scenario": "<script>alert(1)</script>"}, "there is no scenario"),
        ({"scenario": "../../etc/passwd.toml"}, "there is no scenario"),
        ({"step": "minus one"}, "step in the address must be a whole number"),
        ({"step": "99999"}, "step 99999 is not recorded: this run has steps 0 to"),
        ({"step": "3", "event": "99"}, "step 3 has no event 99"),
        ({"block_size": "0"}, "block_size must be at least 1, got 0"),
        ({"block_size": '"x"'}, "block_size must be a whole number"),
        ({"num_pages": "1"}, "enlarge it, shorten the prompt"),
        ({"num_pages": "100000"}, "num_pages 100000"),
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
    assert board(app)["step"]
    press(app, "back")
    assert not app.warning


def field(app: AppTest, kind: str, label: str) -> object:
    return next(widget for widget in app.sidebar.get(kind) if widget.label == label)


def test_settings_apply_together_and_there_is_a_way_back() -> None:
    app = opened(scenario="growing", step="7")
    before = board(app)
    field(app, "number_input", "Slots a page").set_value(6)
    field(app, "number_input", "Pages in the pool").set_value(60)
    next(b for b in app.sidebar.button if b.label == "Apply").click().run()
    assert not app.warning
    assert board(app)["step"] == "7"
    assert board(app)["state-hash"] != before["state-hash"]
    assert app.query_params["block_size"] == "6"
    next(b for b in app.main.button if b.label == "Undo changes").click().run()
    assert "block_size" not in app.query_params
    press(app, "first")
    assert board(app) == board(opened(scenario="growing", step="0"))


@pytest.mark.parametrize(
    ("kind", "label", "value", "problem"),
    [
        ("number_input", "Slots a page", 0, "block_size must be at least 1, got 0"),
        ("number_input", "Pages in the pool", 2, "the pool has 2"),
        ("number_input", "Tokens a step", -5, "max_tokens_per_step must be at least 1, got -5"),
        ("number_input", "Chunk", 0, "chunk_size must be at least 1, got 0"),
        ("number_input", "Max new tokens", 600, "the model's context holds 512"),
        ("text_area", "Prompt", "", "is empty"),
    ],
)
def test_a_bad_setting_is_one_sentence_and_the_run_on_screen_stays(
    kind: str, label: str, value: object, problem: str
) -> None:
    app = opened(scenario="growing", step="7")
    before = board(app)
    field(app, kind, label).set_value(value)
    next(b for b in app.sidebar.button if b.label == "Apply").click().run()
    assert not app.exception
    (warning,) = app.warning
    assert "Not applied" in warning.value
    assert problem in warning.value.replace("\\", "")
    assert board(app) == before
    assert field(app, kind, label).value == value


def test_a_prompt_can_be_changed_and_another_one_added() -> None:
    app = opened(scenario="growing")
    field(app, "text_area", "Prompt").set_value("<script>alert(1)</script> **One** day")
    app.sidebar.get("text_area")[1].set_value("One day Tom")
    next(b for b in app.sidebar.button if b.label == "Apply").click().run()
    assert not app.exception and not app.warning
    press(app, "last")
    (html,) = [e.proto.body for e in app.get("html") if 'data-testid="board"' in e.proto.body]
    assert "<script" not in html
    assert html.count("<article") == 2


def test_playing_goes_on_and_stops_at_the_end() -> None:
    app = opened(scenario="growing")
    press(app, "last")
    assert press(app, "play")["step"] == "0"
    assert app.button(key="play").label == "Pause"
    assert press(app, "step")["step"] == "1"
    assert app.button(key="play").label == "Play"
