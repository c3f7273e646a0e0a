"""Live proof without a browser: what the check tells, broken rules on screen, rule 8, Compare."""

from __future__ import annotations

import pytest
from streamlit.testing.v1 import AppTest

from pagedviz.engine.errors import ConfigError
from pagedviz.engine.live_checker import LiveChecker
from pagedviz.faults import Fault, find_fault
from pagedviz.scenarios import ScenarioRun, load_scenario
from pagedviz.trace.codec import dumps
from pagedviz.trace.truth import sweep
from pagedviz.ui.check_line import check_words
from pagedviz.ui.files import open_trace
from pagedviz.ui.recording import Recording
from pagedviz.ui.replays import dense, new_replay, replay_of
from pagedviz.ui.runs import MODEL_NAME, bundled_model, fault_key, key_for, recorded_run
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


def test_proof_of_a_foreign_file_says_why_there_is_none() -> None:
    trace = ScenarioRun(load_scenario("growing"), bundled_model(), "another").run(4)
    run = open_trace("foreign.jsonl", dumps(trace))
    with pytest.raises(ConfigError, match="another model"):
        replay_of(run, 2)


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
