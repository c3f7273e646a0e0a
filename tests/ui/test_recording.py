"""Runs that are shown while they are recorded: nothing in here waits for a thread or a clock."""

from __future__ import annotations

import gc
import json

import pytest
from streamlit.testing.v1 import AppTest

from pagedviz.engine.errors import ConfigError
from pagedviz.engine.state_hash import state_hash
from pagedviz.model import load_tiny
from pagedviz.scenarios import Scenario, ScenarioRun, apply_settings, load_scenario
from pagedviz.trace.queries import occupancy, phases
from pagedviz.ui import runs
from pagedviz.ui.board.packing import packed_chunk, packed_overview
from pagedviz.ui.recording import Recording
from pagedviz.ui.runs import FIRST_STEPS, key_for, recording_of
from pagedviz.ui.server_limits import WORKSHOP, LimitsError, ServerLimits, environment, limits
from pagedviz.ui.worker import Worker
from pagedviz.views.overview import overview
from tests.ui.test_step import opened, sent
from tests.views.replaying import decoded

MODEL = load_tiny()
# Nobody comes for a long time, so that a step costs next to nothing.
LATE = {"prompt": "Once upon a time", "max_new_tokens": 4, "arrival_step": 700}
TOO_LATE = LATE | {"arrival_step": 6000}
FOREVER = 1e9


def long_scenario() -> Scenario:
    return apply_settings(load_scenario("growing"), {"requests": {"late": LATE}})


def recording(limit: int = 5000) -> Recording:
    return Recording(ScenarioRun(long_scenario(), MODEL), limit)


def test_what_is_handed_out_does_not_grow_and_agrees_with_the_whole_run() -> None:
    growing = recording()
    growing.reach(300)
    part = growing.now()
    assert part.is_growing and part.trace.num_steps == 301
    assert growing.now() is part
    # Asked while it is short, so that whatever is kept of the answers is of the short one.
    held, lanes = occupancy(part.trace), phases(part.trace)
    while growing.turn(FOREVER):
        pass
    whole = growing.now()
    assert not whole.is_growing and whole.ended is None
    assert whole.trace.num_steps > 700 > part.trace.num_steps == 301
    assert occupancy(whole.trace).active[:301].tolist() == held.active.tolist()
    for seq_id, lane in phases(whole.trace).items():
        cut = [p._replace(last_step=min(p.last_step, 300)) for p in lane if p.first_step <= 300]
        assert tuple(cut) == lanes.get(seq_id, ())
    for step in (0, 31, 32, 33, 64, 300):
        assert part.trace.at(step) == whole.trace.at(step)
        assert part.trace.state_hash(step) == state_hash(whole.trace.at(step))
    assert part.trace.steps == whole.trace.steps[:301]


def test_a_run_recorded_in_turns_is_the_run_recorded_at_once() -> None:
    at_once = ScenarioRun(long_scenario(), MODEL).run()
    growing, turns = recording(), 0
    while growing.turn(0):
        turns += 1
        if turns % 100 == 0:
            growing.now()
    assert turns == at_once.num_steps - 1
    trace = growing.now().trace
    assert trace.steps == at_once.steps
    assert overview(trace) == overview(at_once)


def test_a_stopped_recording_says_so_and_goes_on_where_it_was() -> None:
    growing = recording()
    growing.reach(339)
    growing.stop()
    assert not growing.turn(FOREVER)
    growing.reach(500)
    stopped = growing.now()
    assert (stopped.is_growing, stopped.can_go_on) == (False, True)
    assert stopped.trace.num_steps == 340
    assert stopped.ended is not None and "stopped at step 339" in stopped.ended
    growing.go_on()
    assert growing.now().is_growing
    growing.reach(500)
    assert growing.now().trace.num_steps == 501


def test_the_limit_is_said_with_its_number() -> None:
    growing = recording(limit=150)
    growing.reach(5000)
    ended = growing.now()
    assert ended.trace.num_steps == 150
    assert ended.ended == (
        "Recording stopped at its limit of 150 steps; 0 sequences have not finished"
    )
    assert not (ended.is_growing or ended.can_go_on)


class Broken(ScenarioRun):
    def step(self):  # type: ignore[no-untyped-def]
        if self.trace.num_steps == 5:
            raise ConfigError("the sixth step cannot be made")
        return super().step()


def test_a_step_that_cannot_be_made_ends_the_recording_with_the_reason() -> None:
    by_turn = Recording(Broken(long_scenario(), MODEL), 100)
    assert not by_turn.turn(FOREVER)
    asked = Recording(Broken(long_scenario(), MODEL), 100)
    with pytest.raises(ConfigError):
        asked.reach(9)
    for broken in (by_turn, asked):
        now = broken.now()
        assert now.trace.num_steps == 5
        assert now.ended == "Recording stopped at step 4: the sixth step cannot be made"


class ByHand(Worker):
    """The turns are left to the test."""

    def start(self) -> None:
        pass


def test_long_runs_take_turns() -> None:
    worker, one, other = ByHand(), recording(), recording()
    for item in (one, other, one):
        worker.add(item)
    for _ in range(10):
        assert worker.turn(0)
    assert (one.num_steps, other.num_steps) == (5, 5)
    while worker.turn(FOREVER):
        pass
    assert not (one.is_growing or other.is_growing)


def test_a_run_that_nobody_keeps_is_not_recorded_further() -> None:
    worker, kept, dropped = ByHand(), recording(), recording()
    worker.add(kept)
    worker.add(dropped)
    del dropped
    gc.collect()
    for _ in range(4):
        worker.turn(0)
    assert kept.num_steps == 3  # one turn in four was that of the other


def test_a_stopped_run_leaves_the_queue_and_comes_back() -> None:
    worker, one = ByHand(), recording()
    worker.add(one)
    worker.turn(0)
    one.stop()
    worker.turn(0)
    assert not worker.turn(0)
    one.go_on()
    worker.add(one)
    worker.turn(0)
    assert one.num_steps == 2


# ---- in the app ----------------------------------------------------------------------------------


@pytest.fixture
def idle_worker(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is recorded but what requests record."""
    monkeypatch.setattr(Worker, "start", lambda self: None)


def shown_overview(app: AppTest) -> dict[str, object]:
    return decoded(sent(app)["overview"])


def names(app: AppTest) -> list[str]:
    return [button.label for button in app.main.button]


@pytest.mark.usefixtures("idle_worker")
def test_a_long_run_is_shown_at_once_and_can_be_stopped_and_continued() -> None:
    requests = {"late": LATE | {"max_new_tokens": 5}}
    app = opened(scenario="growing", step="3", requests=json.dumps(requests))
    seen = shown_overview(app)
    assert (seen["num_steps"], seen["is_complete"]) == (FIRST_STEPS, False)
    assert f"Recording ahead: step {FIRST_STEPS - 1}" in [c.value for c in app.main.caption]
    next(b for b in app.main.button if b.label == "Stop").click().run()
    assert not app.exception
    assert shown_overview(app)["is_complete"] is True
    assert "Stop" not in names(app)
    next(b for b in app.main.button if b.label == "Go on").click().run()
    assert shown_overview(app)["is_complete"] is False
    recording_of(key_for("growing", {"requests": requests})).reach(5000)
    app.run()
    assert not app.exception
    seen = shown_overview(app)
    assert seen["num_steps"] == 704 + 1
    assert seen["is_complete"] is True
    assert not {"Stop", "Go on"} & set(names(app))


@pytest.mark.usefixtures("idle_worker")
def test_an_address_of_a_late_step_is_recorded_that_far() -> None:
    requests = {"late": LATE | {"max_new_tokens": 6}}
    app = opened(scenario="growing", step="600", requests=json.dumps(requests))
    assert not app.warning
    assert sent(app)["go"]["step"] == 600
    assert shown_overview(app)["num_steps"] >= 601


@pytest.mark.usefixtures("idle_worker")
def test_only_the_last_chunk_and_the_overview_of_a_longer_run_are_packed_anew() -> None:
    key = key_for("growing", {"requests": {"late": LATE | {"max_new_tokens": 7}}})
    short = runs.recorded_run(key, 299)
    longer = runs.recorded_run(key, 340)
    assert (short.trace.num_steps, longer.trace.num_steps) == (300, 341)
    for number in range(4):
        assert packed_chunk(short, number) is packed_chunk(longer, number)
    assert decoded(packed_chunk(short, 4))["num_steps"] == 300 - 256
    assert decoded(packed_chunk(longer, 4))["num_steps"] == 64
    assert decoded(packed_overview(short))["num_steps"] == 300
    assert decoded(packed_overview(longer))["num_steps"] == 341


def test_the_limit_of_the_server_holds_and_is_said(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("PAGEDVIZ_RECORDED_STEPS", "400")
    link = {"requests": json.dumps({"late": TOO_LATE})}
    app = opened(scenario="growing", step="9999", **link)
    assert shown_overview(app)["num_steps"] == 400
    line = next(html.proto.body for html in app.get("html") if "checked" in html.proto.body)
    assert "limit of 400 steps" in line


def test_charts_can_be_turned_off_and_the_address_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    app = opened(scenario="growing", step="7")
    assert app.get("plotly_chart")
    toggle = next(t for t in app.main.toggle if t.label == "Charts")
    toggle.set_value(False).run()
    assert not app.get("plotly_chart")
    assert app.query_params["charts"] in ("off", ["off"])
    for panel in ("attention", "page"):
        assert not opened(charts="off", panel=panel).get("plotly_chart")
    monkeypatch.setenv("PAGEDVIZ_CHARTS", "off")
    app = opened(scenario="growing", step="7")
    assert not app.get("plotly_chart")
    assert "charts" not in app.query_params
    assert opened(charts="on").get("plotly_chart")


# ---- what the server grants ----------------------------------------------------------------------


@pytest.mark.parametrize(
    "granted", [ServerLimits(), WORKSHOP, ServerLimits(70, 3, False), ServerLimits(workshop=True)]
)
def test_limits_are_read_as_they_are_written(granted: ServerLimits) -> None:
    if granted.workshop and granted.sessions is None:
        granted = ServerLimits(sessions=WORKSHOP.sessions, workshop=True)
    assert limits(environment(granted)) == granted


def test_a_workshop_starts_smaller_and_nonsense_is_a_sentence() -> None:
    assert limits({}) == ServerLimits(5000, None, True, False)
    assert limits({"PAGEDVIZ_WORKSHOP": "on"}) == WORKSHOP
    assert limits({"PAGEDVIZ_WORKSHOP": "on", "PAGEDVIZ_CHARTS": "on"}).charts
    for name, text in (
        *(("RECORDED_STEPS", "0"), ("SESSIONS", "-3"), ("SESSIONS", "9" * 5000)),
        ("CHARTS", "maybe"),
    ):
        with pytest.raises(LimitsError, match=f"PAGEDVIZ_{name} must be .*{text[:40]}"):
            limits({f"PAGEDVIZ_{name}": text})
