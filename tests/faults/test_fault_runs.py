"""Faults as recorded runs: what the board steps through is what the examination found."""

from __future__ import annotations

import pytest

from pagedviz.engine.events import InvariantViolated
from pagedviz.engine.live_checker import LiveChecker
from pagedviz.faults import FAULTS, Fault
from pagedviz.faults.run import FaultRun
from pagedviz.model import load_tiny
from pagedviz.trace.codec import dumps, loads
from tests.faults.test_faults import LIVE_BEFORE, examined

MODEL = load_tiny()


def recorded(fault: Fault, is_faulty: bool) -> FaultRun:
    run = FaultRun(fault, MODEL, "tiny", is_faulty=is_faulty, checker=LiveChecker())
    while not (run.is_done or run.ended or run.engine.is_stalled or run.trace.num_steps >= 80):
        run.step()
    run.trace.scan()
    return run


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)
def test_a_fault_is_recorded_as_it_was_examined_and_found_by_the_step_of_the_damage(
    fault: Fault,
) -> None:
    examination = examined(fault.name, "words")
    trace = recorded(fault, is_faulty=True).trace
    step, first = next(
        (step, event)
        for step in range(trace.num_steps)
        for event in trace.events(step)
        if isinstance(event, InvariantViolated)
    )
    # A recorded run is checked live, and that check may see a fault before state and memory do.
    seen_live = LIVE_BEFORE.get(fault.name, (0, examination.damage))[1]
    assert step == examination.seen_live == seen_live
    assert first.rule == fault.rules_for(fault.words)[0]
    healthy = recorded(fault, is_faulty=False)
    assert healthy.ended is None
    events = [healthy.trace.events(step) for step in range(healthy.trace.num_steps)]
    assert events == [step.events for step in examination.healthy.steps]


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)
def test_a_fault_run_is_kept_in_a_file(fault: Fault) -> None:
    run = FaultRun(fault, load_tiny(), "tiny", checker=LiveChecker())
    while not run.is_done and run.ended is None and run.engine.num_steps < fault.words.max_steps:
        run.step()
    again = loads(dumps(run.trace))
    assert again.num_steps == run.trace.num_steps > 1
    last = again.num_steps - 1
    assert again.state_hash(last, None) == run.trace.state_hash(last, None)
