"""The other screens and the panels without a browser: what is on them, and what can go wrong."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path

import pytest
from streamlit.testing.v1 import AppTest

from pagedviz.engine.errors import TraceFormatError
from pagedviz.engine.events import SequenceSubmitted, SlotsWritten
from pagedviz.scenarios import ScenarioRun, load_scenario
from pagedviz.trace.codec import dumps
from pagedviz.trace.trace import Moment, StepRecord, Trace
from pagedviz.ui import files
from pagedviz.ui.files import open_trace
from pagedviz.ui.prefix_drawing import draw_lookup, draw_tree
from pagedviz.ui.runs import MODEL_NAME, bundled_model
from pagedviz.ui.selection import Selection
from pagedviz.views.board import make_board, moment_sentence
from pagedviz.views.lookup_view import lookup_report, lookups
from pagedviz.views.memory import memory_now, memory_on_average, memory_sizes
from pagedviz.views.page_view import page_report
from pagedviz.views.prefix_tree import prefix_tree
from tests.ui.test_step import shown

ROOT = Path(__file__).resolve().parents[2]
SECONDS = 60
EVIL = "<script>alert(1)</script><img src=x onerror=alert(1)>"


def opened(screen: str, **link: str) -> AppTest:
    app = AppTest.from_file(str(ROOT / "pages" / f"{screen}.py"), default_timeout=SECONDS)
    app.session_state["board awaited"] = False  # there is no browser that would tell
    for key, value in link.items():
        app.query_params[key] = value
    app.run()
    assert not app.exception
    return app


def query(app: AppTest, key: str) -> str:
    value = app.query_params[key]
    return value if isinstance(value, str) else value[0]


def html(app: AppTest) -> str:
    return "\n".join(element.proto.body for element in app.get("html"))


def words(app: AppTest) -> str:
    return re.sub("<[^>]*>", " ", html(app))


@pytest.fixture(scope="module")
def recorded() -> Trace:
    return ScenarioRun(load_scenario("shared_prompt"), bundled_model(), MODEL_NAME).run()


@pytest.mark.parametrize(
    "screen", ["step", "pages", "prefix_cache", "compare", "break_it", "trace", "model"]
)
@pytest.mark.parametrize(
    "link",
    [
        {},
        {"scenario": "thrash", "step": "30", "event": "2"},
        {"scenario": "growing", "step": "0", "event": "0"},
        {"scenario": "growing", "page": "9999", "seq": "77", "layer": "9", "head": "9"},
        {"scenario": "growing", "prefix_caching": "false"},
        {"page": "<b>", "seq": "-1", "layer": "1e9", "panel": "<b>"},
    ],
)
def test_every_screen_opens_at_any_address(screen: str, link: dict[str, str]) -> None:
    app = opened(screen, **link)
    assert not app.error
    assert app.query_params["scenario"] == link.get("scenario", "growing")


@pytest.mark.parametrize("panel", ["attention", "page", "what-if", "proof", "none"])
def test_every_panel_opens_and_stays_in_the_address(panel: str) -> None:
    app = opened("step", scenario="shared_prompt", step="20", panel=panel)
    assert "panel" not in app.query_params or query(app, "panel") == panel
    assert ("panel" in app.query_params) == (panel != "attention")
    charts = {"attention": 4, "page": 5, "what-if": 2, "proof": 2, "none": 2}
    assert len(app.get("plotly_chart")) == charts[panel]


def test_attention_is_that_of_the_chosen_sequence_layer_and_head() -> None:
    link = {"scenario": "shared_prompt", "step": "20"}
    app = opened("step", **link, seq="1", layer="2", head="3")
    assert "token 72 of  B seq:1" in words(app)
    assert "in layer 2 head 3 gave" in words(app)
    app.selectbox(key="attention Head").select("all heads").run()
    assert "in layer 2 all heads together gave" in words(app)
    assert "head" not in app.query_params


def test_a_sequence_that_has_computed_nothing_says_so() -> None:
    app = opened("step", scenario="thrash", step="2", seq="5")
    assert any("has computed nothing yet" in caption.value for caption in app.caption)


def test_before_the_first_request_panels_say_to_step_on() -> None:
    app = opened("step", scenario="growing", step="0", event="0")
    assert any("step on" in caption.value for caption in app.caption)


def test_a_page_shows_its_owners_tokens_chain_and_story() -> None:
    app = opened("pages", scenario="shared_prompt", step="20", page="1")
    shown = words(app)
    assert "very" in shown and "covers 16 tokens" in shown
    for place, name in enumerate(("lily", "tom", "zoe", "max")):
        assert f"seq:{place}  {name} as its page 1" in re.sub(" +", "  ", shown).replace(
            f"{name}  as  its  page  1", f"{name} as its page 1"
        )
    assert "becomes findable" in shown
    assert "2 \u00d7 4 layers \u00d7 2 KV heads \u00d7 24 dimensions" in shown


def test_lookups_say_where_and_why_they_ended() -> None:
    app = opened("prefix_cache", scenario="shared_prompt", step="20")
    assert "token 7 differs" in words(app)
    assert 'class="other" title="token 7"' in html(app)


def test_a_cache_that_is_off_says_how_to_switch_it_on() -> None:
    app = opened("prefix_cache", scenario="growing", prefix_caching="false")
    assert "switch it on in Set up" in words(app)


def test_typed_text_is_cut_into_tokens_and_shown_as_text() -> None:
    app = opened("model")
    app.text_area(key="text to read").set_value("Lily <b>ran</b>").run()
    assert "&lt;" in html(app) and "<b>ran" not in html(app)
    app.text_area(key="text to read").set_value("").run()
    assert any("Type something" in caption.value for caption in app.caption)


@pytest.mark.parametrize("screen", ["pages", "trace", "model"])
def test_memory_is_reckoned_wherever_it_is_claimed(screen: str) -> None:
    link = {"scenario": "swap", "step": "6"}
    shown = re.sub(r"\s+", " ", words(opened(screen, **link)))
    run = ScenarioRun(load_scenario("swap"), bundled_model(), MODEL_NAME).run()
    amounts = (*memory_sizes(run), *memory_on_average(run))
    assert [amount.name for amount in amounts] == [
        *("a token", "a page", "the pool", "the host pool"),
        *("in use", "wasted", "saved by sharing", "in one piece each", "on the host"),
    ]
    if screen == "pages":
        amounts = (*amounts, *memory_now(run, Moment(6)))
    for amount in amounts:
        assert amount.formula in shown, amount
        assert amount.value in shown, amount
    assert "estimate" in shown


# ---- what if -----------------------------------------------------------------------------------


def what_if(app: AppTest, **values: object) -> AppTest:
    (key,) = [w.key for w in app.number_input if (w.key or "").startswith("what if")][:1]
    prefix = key.split("/")[0]
    for field, value in values.items():
        key = f"{prefix}/{field}"
        for kind in (app.number_input, app.multiselect, app.selectbox, app.text_input, app.toggle):
            if key in [widget.key for widget in kind]:
                kind(key=key).set_value(value)
    next(b for b in app.button if b.label.startswith("Continue from")).click().run()
    assert not app.exception
    return app


def state_hash(app: AppTest) -> str:
    return shown(app)[2]


def sentence(app: AppTest) -> str:
    view = app.session_state["view"]
    return moment_sentence(view.run.trace, view.moment, view.run.token_text)


@pytest.fixture(scope="module")
def state_of_the_parent() -> str:
    """At the step where the branches below begin."""
    return state_hash(opened("step", scenario="shared_prompt", step="10"))


@pytest.mark.parametrize(
    ("values", "item"),
    [
        ({"chunk": 3}, {"settings": {"chunk_size": 3}}),
        ({"budget": 2}, {"settings": {"max_tokens_per_step": 2}}),
        ({"slots": 4}, {"settings": {"block_size": 4}}),
        ({"pages": 30}, {"settings": {"num_pages": 30}}),
        ({"caching": False}, {"settings": {"prefix_caching": False}}),
        (
            {"preemption": "swap", "host": 8},
            {"settings": {"host_pages": 8, "preemption": "swap"}},
        ),
        ({"profile": "nano_vllm"}, {"settings": {"profile": "nano_vllm"}}),
        ({"aborts": ["tom"]}, {"aborts": ["tom"]}),
        ({"who": "tom", "text": "Once upon"}, {"prompts": {"tom": "Once upon"}}),
    ],
)
def test_a_branch_says_what_is_different_can_be_linked_and_left(
    values: dict[str, object], item: dict[str, object], state_of_the_parent: str
) -> None:
    link = {"scenario": "shared_prompt", "panel": "what-if", "charts": "off"}
    app = opened("step", **link, step="9")
    what_if(app, **values)
    address = {
        key: value if isinstance(value, str) else value[0]
        for key, value in app.query_params.items()
    }
    assert json.loads(address["what_if"]) == [{"step": 10, **item}]
    assert address["step"] == "10"
    again = opened("step", **address)
    assert state_hash(again) == state_hash(app)
    app.button(key="to parent").click().run()
    assert "what_if" not in app.query_params
    assert state_hash(app) == state_of_the_parent


def test_a_branch_of_a_branch_leads_back_one_by_one() -> None:
    app = opened("step", scenario="shared_prompt", step="9", panel="what-if")
    what_if(app, chunk=3)
    what_if(app, aborts=["tom"])
    assert len(json.loads(query(app, "what_if"))) == 2
    app.button(key="to parent").click().run()
    assert len(json.loads(query(app, "what_if"))) == 1


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({}, "it changes nothing"),
        ({"pages": 2}, "the pool has 2"),
        ({"budget": 0}, "“Tokens a step” must be at least 1"),
        ({"preemption": "swap"}, "by swap needs \u201cHost pages\u201d of at least 1, got 0"),
        ({"pages": 100_000}, "more than this screen can draw"),
    ],
)
def test_what_cannot_be_is_a_sentence_and_the_run_stays(
    values: dict[str, object], message: str
) -> None:
    app = opened("step", scenario="shared_prompt", step="9", panel="what-if")
    before = state_hash(app)
    what_if(app, **values)
    assert message in app.warning[0].value.replace("\\", "")
    assert state_hash(app) == before and "what_if" not in app.query_params


def test_at_the_end_of_the_run_there_is_nothing_to_change() -> None:
    app = opened("step", scenario="growing", step="999", panel="what-if")
    assert any("step back" in caption.value for caption in app.caption)


@pytest.mark.parametrize("text", ["[", "7", '[{"step":1}]', '[{"step":3,"aborts":["<b>"]}]'])
def test_a_what_if_in_the_address_that_makes_no_sense_is_a_sentence(text: str) -> None:
    app = opened("step", scenario="growing", what_if=text)
    assert len(app.warning) == 1
    assert "<b>" not in app.warning[0].value.replace("\\<b\\>", "")


# ---- files -------------------------------------------------------------------------------------


def test_a_trace_file_opens_as_it_was_saved(recorded: Trace) -> None:
    run = open_trace("mine.jsonl", dumps(recorded))
    assert run.scenario.title == "mine.jsonl"
    assert run.trace.final == recorded.final
    assert run.token_text(47) == "O"


def evil(recorded: Trace) -> bytes:
    """Our trace with a script wherever a text may stand."""
    header = replace(recorded.header, producer=EVIL, scenario=EVIL, model=EVIL)
    records = [
        record._replace(
            events=tuple(
                event._replace(name=EVIL) if isinstance(event, SequenceSubmitted) else event
                for event in record.events
            )
        )
        for record in recorded.steps
    ]
    return dumps(Trace(header, records))


def test_texts_of_a_file_are_shown_as_texts(recorded: Trace) -> None:
    run = open_trace(f"{EVIL}.jsonl", evil(recorded))
    assert run.trace.final.sequences[0].name == EVIL
    # A vocabulary may hold anything, too.
    for name in ("tree", "lookup", "page"):
        drawn = drawn_of(name, run.trace)
        assert "<script" not in drawn and "<img" not in drawn, name
        assert "&lt;script" in drawn


def drawn_of(name: str, trace: Trace) -> str:
    from pagedviz.ui.panel_drawing import draw_page_card, draw_story

    def text(token_id: int) -> str:
        return EVIL

    if name == "tree":
        return draw_tree(prefix_tree(trace, Moment(20), text), 6, False)
    if name == "lookup":
        return draw_lookup(lookup_report(trace, lookups(trace)[-1], text))
    report = page_report(trace, Moment(20), 0, text)
    return draw_page_card(report, 6) + draw_story(report, {0: 0}, 6)


def test_a_write_of_a_token_that_nobody_told_is_drawn_too(recorded: Trace) -> None:
    records = list(recorded.steps)
    place = next(i for i, e in enumerate(records[5].events) if isinstance(e, SlotsWritten))
    events = list(records[5].events)
    events[place] = events[place]._replace(start=events[place].start + 1)
    run = open_trace("x", dumps(Trace(recorded.header, [*records[:5], StepRecord(tuple(events))])))
    said = make_board(run.trace, Moment(5, place + 1), run.token_text).sentence
    assert "an unknown token" in said


def many_steps(trace: Trace, number: int) -> Trace:
    return Trace(trace.header, [*trace.steps, *([StepRecord(())] * number)])


def test_files_that_are_too_much_are_refused_with_both_numbers(
    recorded: Trace, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(TraceFormatError, match=r"has 10,000,001 bytes; up to 10 MB"):
        open_trace("x", b" " * 10_000_001)
    with pytest.raises(TraceFormatError, match=r"6,0.. lines; up to 5,000 are opened here"):
        open_trace("x", dumps(many_steps(recorded, 6000)))
    with pytest.raises(TraceFormatError, match=r"1,000,001 lines"):
        open_trace("x", b"{}\n" * 1_000_001)
    data = dumps(recorded)
    for limit, message in (
        ("MAX_EVENTS", "more than 3 events"),
        ("MAX_LINE_BYTES", "a line may have 3"),
        ("PAGE_LIMIT", "48 pages; up to 3 are read here"),
        ("MAX_SEQUENCES", "more than 3 sequences"),
        ("MAX_TOKENS", "known tokens; a trace may have 3"),
    ):
        with monkeypatch.context() as patch:
            patch.setattr(files, limit, 3)
            with pytest.raises(TraceFormatError, match=message):
                open_trace("x", data)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "the file is empty"),
        (b"\xff\xfe", "not UTF-8"),
        (b"[" * 100_000, "nested too deeply"),
        (b'{"format": "other"}', "line 1"),
        (b'{"format": "pagedviz-trace", "version": 99}', "line 1"),
        (b"<script>alert(1)</script>", "not JSON"),
    ],
)
def test_files_that_are_no_trace_are_one_sentence(data: bytes, message: str) -> None:
    with pytest.raises(TraceFormatError, match=message) as error:
        open_trace("x.jsonl", data)
    assert "\n" not in str(error.value)


def test_a_file_without_steps_is_refused(recorded: Trace) -> None:
    with pytest.raises(TraceFormatError, match="no steps"):
        open_trace("x", dumps(Trace(recorded.header)))


def test_a_branch_shows_the_budget_of_each_step() -> None:
    app = opened("step", scenario="shared_prompt", step="9", panel="what-if")
    what_if(app, budget=7)
    assert "of 7 in budget" in sentence(app)
    address = {key: query(app, key) for key in app.query_params}
    assert "of 512 in budget" in sentence(opened("step", **{**address, "step": "9"}))


def test_selections_survive_the_way_through_an_address() -> None:
    for chosen in (
        Selection(),
        Selection(3, 0, 2, 1, "what if"),
        Selection(head=0),
        Selection(presenter=True),
    ):
        assert Selection.read(chosen.parameters()) == chosen
