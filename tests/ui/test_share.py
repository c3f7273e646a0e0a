"""What is passed on: an address that knows its state, files that know their bookmarks."""

from __future__ import annotations

import json

import pytest

from pagedviz.engine.state_hash import format_state_hash
from pagedviz.scenarios import ScenarioRun, load_scenario, scenario_names
from pagedviz.trace import codec
from pagedviz.trace.codec import dumps
from pagedviz.trace.header import Bookmark
from pagedviz.trace.trace import Trace
from pagedviz.ui import session
from pagedviz.ui.board import board_assets
from pagedviz.ui.bookmarks import read_bookmarks
from pagedviz.ui.files import file_stem, open_trace
from pagedviz.ui.recording import Recorded
from pagedviz.ui.runs import MODEL_NAME, RunKey, as_recorded, bundled_model
from pagedviz.views import export
from tests.ui.test_screens import opened, query


def run_of(name: str, forced: dict[str, list[int]] | None = None) -> Trace:
    return ScenarioRun(load_scenario(name), bundled_model(), MODEL_NAME, forced=forced).run()


def warnings(**link: str) -> list[str]:
    return [warning.value.replace("\\", "") for warning in opened("step", **link).warning]


def short(trace: Trace, step: int, event: int | None = None) -> str:
    return format_state_hash(trace.state_hash(step, event))


def test_every_address_has_the_state_on_screen_and_opens_without_a_word() -> None:
    app = opened("step", scenario="thrash", step="30", event="3")
    assert query(app, "state") == short(run_of("thrash"), 30, 3).replace(" ", "")
    link = {key: query(app, key) for key in app.query_params}
    assert warnings(**link) == []
    assert warnings(**{**link, "state": link["state"].upper()}) == []
    del link["state"]
    assert warnings(**link) == []


def test_an_address_with_another_state_says_up_to_which_step_something_differs() -> None:
    there = short(run_of("thrash"), 30)
    (warning,) = warnings(scenario="thrash", step="30", state="1a2b3c4d")
    assert warning.startswith("This machine computed a different token at step 30 or before")
    assert "made at state 1a2b 3c4d" in warning and f"here the state is {there}" in warning


def test_a_machine_that_samples_other_tokens_says_so_from_there_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ours = run_of("growing")
    (view,) = ours.final.sequences
    sampled = [int(token) for token in view.token_ids[view.num_prompt_tokens :]]
    assert len(sampled) > 12
    scenario = load_scenario("growing")
    other = run_of("growing", {scenario.requests[0].name: [*sampled[:8], sampled[8] ^ 1]})
    first = next(s for s in range(ours.num_steps) if ours.state_hash(s) != other.state_hash(s))
    elsewhere = as_recorded(RunKey("growing"), scenario, Recorded(other))
    monkeypatch.setattr(session, "recorded_run", lambda *_: elsewhere)
    for step, is_other in ((first - 1, False), (first, True), (first + 3, True)):
        link = {"scenario": "growing", "step": str(step)}
        found = warnings(**link, state=short(ours, step).replace(" ", ""))
        assert len(found) == is_other
        if is_other:
            assert f"different token at step {step} or before" in found[0]
            assert short(ours, step) in found[0] and short(other, step) in found[0]


@pytest.mark.parametrize("state", ["zzz", "<b>", "1" * 9, "-1a2b3c4"])
def test_a_state_that_is_none_is_one_sentence(state: str) -> None:
    (warning,) = warnings(scenario="growing", step="5", state=state)
    assert "state in the address must be 8 hexadecimal digits" in warning
    assert warning.count(". ") == 0


def test_where_the_moment_is_another_only_that_is_said() -> None:
    (warning,) = warnings(scenario="growing", step="5000", state="1a2b3c4d")
    assert "step 5000 is not recorded" in warning


def test_bookmarks_come_back_with_the_file() -> None:
    trace = run_of("growing")
    marks = (Bookmark(3, None, "<b>three</b>"), Bookmark(5, 2, "five"))
    assert open_trace("x.jsonl", dumps(trace, marks)).trace.header.bookmarks == marks


def test_names_of_bookmarks_are_what_a_file_may_hold() -> None:
    trace = run_of("growing")
    rows = json.loads('[[1,null,"\\ud800"],[2,null,"a\\ud800b"],[3,null,"  "]]')
    rows.append([4, None, f"{'x' * 59}  yz"])
    marks = read_bookmarks(rows, trace)
    assert marks == (Bookmark(2, None, "ab"), Bookmark(4, None, "x" * 59))
    dumps(trace, marks)


def test_a_bookmark_with_half_a_character_in_the_address_does_no_harm() -> None:
    app = opened("step", scenario="growing", step="5", bookmarks='[[1,null,"a\\ud800"]]')
    assert json.loads(query(app, "bookmarks")) == [[1, None, "a"]]


def test_half_a_character_in_a_prompt_of_the_address_is_a_sentence() -> None:
    requests = '{"lily":{"prompt":"Once\\ud800","max_new_tokens":4}}'
    app = opened("step", scenario="growing", requests=requests)
    assert len(app.warning) == 1


@pytest.mark.parametrize("name", scenario_names())
def test_sizes_are_told_before_a_file_is_made(name: str) -> None:
    trace, assets = run_of(name), board_assets()
    model = bundled_model()
    assert model.tokenizer is not None
    page = export.export_html(trace, model.tokenizer.token_text, name, assets)
    assert 0.8 < export.about_bytes(trace, assets) / len(page) < 1.25
    assert 0.7 < codec.about_bytes(trace) / len(dumps(trace)) < 1.4


def test_files_have_plain_names() -> None:
    data = dumps(run_of("growing"))
    assert file_stem(open_trace("../etc/<b>x</b>.jsonl", data)) == "etc--b-x--b"
    assert file_stem(open_trace("....", data)) == "run"
    assert len(file_stem(open_trace("x" * 500, data))) == 60


def test_a_long_link_says_that_a_file_is_safer() -> None:
    bookmarks = json.dumps([[step, None, "x" * 60] for step in range(36)])
    app = opened("trace", scenario="growing", bookmarks=bookmarks)
    assert any("pass on a file instead" in caption.value for caption in app.caption)
