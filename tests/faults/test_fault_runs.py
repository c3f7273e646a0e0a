"""Faults as recorded runs: what the board steps through is what the examination found."""

from __future__ import annotations

import pytest

from pagedviz.engine.events import InvariantViolated
from pagedviz.engine.live_checker import LiveChecker
from pagedviz.faults import FAULTS, Fault, examine
from pagedviz.faults.run import FaultRun
from pagedviz.model import load_tiny

MODEL = load_tiny()


def recorded(fault: Fault, is_faulty: bool) -> FaultRun:
    run = FaultRun(fault, MODEL, "tiny", is_faulty=is_faulty, checker=LiveChecker())
    while not (run.is_done or run.ended or run.engine.is_stalled or run.trace.num_steps >= 80):
        run.step()
    run.trace.scan()
    return run


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)
def test_a_recorded_fault_is_found_where_the_examination_finds_it(fault: Fault) -> None:
    examination = examine(fault, "words", MODEL)
    trace = recorded(fault, is_faulty=True).trace
    broken = [
        (step, event)
        for step in range(trace.num_steps)
        for event in trace.events(step)
        if isinstance(event, InvariantViolated)
    ]
    step, first = broken[0]
    assert step == examination.damage
    assert first.rule == fault.rules_for(fault.words)[0]


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)
def test_without_its_fault_the_run_is_the_healthy_one(fault: Fault) -> None:
    examination = examine(fault, "words", MODEL)
    run = recorded(fault, is_faulty=False)
    assert run.ended is None
    events = [run.trace.events(step) for step in range(run.trace.num_steps)]
    assert events == [step.events for step in examination.healthy.steps]
