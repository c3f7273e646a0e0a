"""Live proof without a browser: what the check tells, broken rules on screen, rule 8, Compare."""

from __future__ import annotations

import json
import time

import pytest
from streamlit.testing.v1 import AppTest

from pagedviz.engine.errors import ConfigError
from pagedviz.engine.events import PageHashed
from pagedviz.engine.live_checker import LiveChecker
from pagedviz.faults import Fault, find_fault
from pagedviz.scenarios import ScenarioRun, apply_settings, load_scenario
from pagedviz.trace.check import check_steps
from pagedviz.trace.codec import dumps
from pagedviz.trace.trace import Moment, Trace
from pagedviz.trace.truth import sweep
from pagedviz.ui.check_line import check_words, file_words
from pagedviz.ui.file_check import FileCheck, FileChecked, file_checked
from pagedviz.ui.files import open_trace
from pagedviz.ui.recording import Recording
from pagedviz.ui.replays import TooFar, dense, new_replay, replay_of
from pagedviz.ui.runs import (
    MODEL_NAME,
    RecordedRun,
    bundled_model,
    fault_key,
    key_for,
    recorded_run,
    recording_of,
)
from pagedviz.ui.sweeps import Sweep
from pagedviz.views.violations import first_violation
from tests.ui.test_screens import opened, query, words


def recording() -> Recording:
    scenario = load_scenario("growing")
    return Recording(
        ScenarioRun(scenario, bundled_model(), MODEL_NAME, checker=LiveChecker()), limit=100
    )


def test_every_recorded_step_is_checked_and_its_cost_is_measured() -> None:
    made = recording()
    made.reach(9)
    checked = made.now().checked
    assert checked is not None
    assert checked.num_steps == 10 and checked.coverage == "full" and not checked.is_paused
    assert checked.mean_us is not None and checked.mean_us > 0
    assert "all rules hold" in check_words(checked, 10, None)


def test_a_paused_check_says_so_and_changes_nothing_in_the_trace() -> None:
    made, other = recording(), recording()
    made.reach(3)
    made.pause_check(True)
    made.reach(9)
    other.reach(9)
    paused = made.now().checked
    assert paused is not None and paused.num_steps == 4
    line = check_words(paused, 10, None)
    assert "4 of 10 steps checked" in line and "paused" in line
    assert made.now().trace.steps == other.now().trace.steps
    made.pause_check(False)
    made.reach(10)
    resumed = made.now().checked
    assert resumed is not None and resumed.num_steps == 5 and not resumed.is_paused


def test_a_run_never_checked_says_so() -> None:
    made = recording()
    made.pause_check(True)
    made.reach(3)
    assert check_words(made.now().checked, 4, None) == "Rules not checked: the check is paused"


def test_the_line_tells_how_many_steps_of_a_big_pool_are_checked() -> None:
    run = recorded_run(key_for("growing", {"num_pages": 1500}), 8)
    assert run.checked is not None
    assert "checked in 1 of 2 steps" in check_words(run.checked, run.trace.num_steps, None)


# It goes on, its events do not fit together, it raises, its first step is the wrong one.
ENDS = ("shared-tail", "own-hit-evicted", "whole-prompt-hit", "unwritten-slots")


@pytest.mark.parametrize("fault", [find_fault(name) for name in ENDS], ids=ENDS)
def test_a_fault_opens_on_the_step_screen_at_its_violation(fault: Fault) -> None:
    run = recorded_run(fault_key(fault.name))
    broken = first_violation(run.trace)
    assert broken is not None
    step, event = broken.moment
    app = opened("step", scenario=f"fault-{fault.name}", step=str(step), event=str(event))
    assert not app.warning and not app.error
    shown = words(app)
    assert f"Faulty: {fault.title}" in shown
    assert f"Rule {broken.event.rule} is broken: " in shown
    assert query(app, "scenario") == f"fault-{fault.name}"


def test_before_its_violation_a_faulty_run_shows_none_and_the_way_to_it() -> None:
    app = opened("step", scenario="fault-shared-tail", step="0")
    assert 'data-testid="violation"' not in str([e.proto.body for e in app.get("html")])
    app.button(key="to violation").click().run()
    assert "Rule 6 is broken: shared content is never written" in words(app)
    assert query(app, "step") == "1"
    app.button(key="page of violation").click().run()
    assert query(app, "panel") == "page"
    page = int(query(app, "page"))
    assert f"Rule 6 is broken (shared content is never written): seq:0 writes p{page}" in " ".join(
        words(app).split()
    ).replace("A seq:0", "seq:0")


def test_break_it_leads_to_the_faulty_run_just_before_the_damage() -> None:
    app = opened("break_it", fault="doubled-token")
    app.button(key="to the board").click().run()
    assert not app.exception
    assert query(app, "scenario") == "fault-doubled-token"
    assert query(app, "step") == "23"


def test_a_fault_takes_no_other_settings() -> None:
    app = opened("step", scenario="fault-orphans", num_pages="30")
    assert "leave the settings out" in app.warning[0].value
    assert query(app, "scenario") == "fault-orphans"


def compared(app: AppTest) -> str:
    """The table of the Proof panel."""
    (found,) = [e.proto.body for e in app.get("html") if 'data-testid="proof"' in e.proto.body]
    return str(found)


def test_proof_compares_the_step_at_rest() -> None:
    right = opened("step", scenario="growing", step="6", panel="proof")
    assert ">holds<" in compared(right) and ">broken<" not in compared(right)
    wrong = opened("step", scenario="fault-shared-tail", step="1", panel="proof")
    assert ">0.39<" in compared(wrong) and ">broken<" in compared(wrong)


def test_proof_of_a_far_step_computes_its_way_there_while_somebody_looks() -> None:
    late = {"late": {"prompt": "Once upon a time", "max_new_tokens": 9, "arrival_step": 1100}}
    link = {"scenario": "growing", "requests": json.dumps(late), "charts": "off"}
    run = recorded_run(key_for("growing", {"requests": late}), 1105)
    recording_of(run.key).reach(5000)
    with pytest.raises(TooFar, match="this is step 1105"):
        replay_of(recorded_run(run.key, 1105), 1105)
    app = opened("step", **link, step="1105", panel="proof")
    assert "Step 1105 is far from the start" in words(app)
    until = time.monotonic() + 60
    while "far from" in words(app):
        assert time.monotonic() < until
        time.sleep(0.05)
        app.run()
        assert not app.exception
    assert ">holds<" in compared(app)
    # What was run again serves the other panels.
    assert replay_of(recorded_run(run.key, 1105), 1105).is_near(1105)


def test_proof_of_a_foreign_file_says_why_there_is_none() -> None:
    trace = ScenarioRun(load_scenario("growing"), bundled_model(), "another").run(4)
    run = open_trace("foreign.jsonl", dumps(trace))
    with pytest.raises(ConfigError, match="another model"):
        replay_of(run, 2)


# ---- files -------------------------------------------------------------------------------------


def with_a_wrong_hash(trace: Trace) -> tuple[Trace, int]:
    """The run with the hash of its first hashed page told wrong, and in which step."""
    for step, record in enumerate(trace.steps):
        for number, event in enumerate(record.events):
            if isinstance(event, PageHashed):
                wrong = event._replace(page_hash=event.page_hash ^ 1)
                events = (*record.events[:number], wrong, *record.events[number + 1 :])
                steps = [*trace.steps]
                steps[step] = record._replace(events=events)
                return Trace(trace.header, steps), step
    raise AssertionError("no page is hashed")


@pytest.fixture(scope="module")
def whole() -> Trace:
    return ScenarioRun(load_scenario("growing"), bundled_model(), MODEL_NAME).run()


def shown_file(trace: Trace) -> AppTest:
    """The Step screen with a file, its check done."""
    run = open_trace("mine.jsonl", dumps(trace))
    app = opened("step", charts="off", panel="none")
    file_checked(run)
    app.session_state["view"].show(run)
    app.session_state["view"].go(Moment(0, 0))
    app.run()
    assert not app.exception
    checked_to_the_end(run)
    app.run()
    return app


def checked_to_the_end(run: RecordedRun) -> FileChecked:
    until = time.monotonic() + 60
    while not (found := file_checked(run)).is_done:  # type: ignore[union-attr]
        assert time.monotonic() < until
        time.sleep(0.01)
    assert found is not None
    return found


def test_a_file_is_checked_in_the_background_and_says_so(whole: Trace) -> None:
    shown = words(shown_file(whole))
    assert "Checked from the file" in shown and "all rules hold that a trace can tell" in shown
    assert "rules hold \u00b7 from the file" in shown


def test_a_file_that_breaks_a_rule_names_it_and_leads_to_its_step(whole: Trace) -> None:
    broken, step = with_a_wrong_hash(whole)
    app = shown_file(broken)
    assert "Rule 5 is broken" in words(app) and "found in the file" in words(app)
    assert 'data-testid="violation"' not in str([e.proto.body for e in app.get("html")])
    app.button(key="to violation").click().run()
    assert app.session_state["view"].moment == Moment(step)
    found = str([e.proto.body for e in app.get("html")])
    assert 'data-testid="violation" data-rule="5"' in found and "happened to p" in found
    app.button(key="page of violation").click().run()
    assert not app.exception


def test_the_check_of_a_file_takes_turns_and_stops_when_nobody_looks(
    whole: Trace, monkeypatch: pytest.MonkeyPatch
) -> None:
    check = FileCheck(whole)
    assert not check.turn(1) and check.now.num_done == 0  # nobody looks
    check.look()
    assert check.turn(0) is True and check.now.num_done == 0
    while check.turn(0.001):
        assert "Checking the rules from the file: " in file_words(check.now, None)
    assert check.now.is_done and not check.now.broken
    assert check.now.num_done == whole.num_steps and check.now.total_us > 0


def test_what_is_found_agrees_with_the_command(whole: Trace) -> None:
    for trace in (whole, with_a_wrong_hash(whole)[0]):
        check = FileCheck(trace)
        check.look()
        while check.turn(1):
            pass
        expected = [found for found in check_steps(trace) if found.violations][:1]
        assert [broken.event.rule for broken in check.now.broken] == [
            violation.rule for found in expected for violation in found.violations
        ]


def test_a_run_by_nano_vllm_holds_by_its_own_rule_for_prompts() -> None:
    scenario = apply_settings(
        load_scenario("shared_prompt"), {"profile": "nano_vllm", "max_tokens_per_step": 8}
    )
    trace = ScenarioRun(scenario, bundled_model(), MODEL_NAME).run()
    assert not [found for found in check_steps(trace) if found.violations]


def test_a_sweep_compares_every_step_while_somebody_looks() -> None:
    run = recorded_run(key_for("growing", {}))
    made = Sweep(run.trace.num_steps, lambda: new_replay(run.key, run.trace), dense)
    assert not made.turn(1) and made.now.num_done == 0  # nobody looks
    made.look()
    while made.turn(1):
        pass
    found = made.now
    assert found.is_done and found.broken is None and found.ended is None
    truths = [t for s in sweep(new_replay(run.key, run.trace), dense) for t in s.truths]
    assert found.num_compared == len(truths)
    assert found.largest == max(truths, key=lambda truth: truth.error)
    assert found.smallest == min(truths, key=lambda truth: truth.margin)


def test_a_sweep_finds_where_rule_8_is_broken() -> None:
    run = recorded_run(fault_key("shared-tail"))
    made = Sweep(run.trace.num_steps, lambda: new_replay(run.key, run.trace), dense)
    made.look()
    while made.turn(1):
        pass
    assert made.now.broken is not None and made.now.broken.step == 1


def test_compare_sets_a_fault_beside_the_healthy_engine() -> None:
    app = opened("compare", scenario="fault-shared-tail", step="0")
    assert "fault on: " in words(app) and "fault off: " in words(app)
    assert app.button(key="first pages").label == "First difference in pages: step 1"
    other = opened("compare", scenario="healthy-shared-tail", step="0")
    assert words(other).index("fault off: ") < words(other).index("fault on: ")
