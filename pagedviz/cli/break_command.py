"""`pagedviz break`: engines with a real-world fault, what the user sees, and which rule finds it.

Invariant: everything printed was run just now, on a healthy and on a faulty engine.
"""

from __future__ import annotations

from collections.abc import Iterator

from pagedviz.cli.step_report import printable, report_step
from pagedviz.cli.trace_commands import show_event
from pagedviz.engine.errors import PagedVizError
from pagedviz.engine.events import PrefixLookedUp
from pagedviz.faults import (
    FAULTS,
    SCENARIOS,
    Examination,
    PageMoment,
    Source,
    examine,
    find_fault,
    page_life,
    source_of,
)
from pagedviz.model import load_tiny

# Steps shown before the one that is caught.
_STEPS_BEFORE = 2


class FaultMissed(PagedVizError):
    """A fault was not caught as it must be."""


class NothingToBreak(PagedVizError):
    """Neither a fault nor all of them were asked for."""


def break_engine(name: str | None, is_all: bool, scenario: str) -> None:
    """Print the table of all faults, or one in full. UnknownFault, FaultMissed, NothingToBreak."""
    if is_all == (name is not None):
        known = ", ".join(fault.name for fault in FAULTS)
        what = "either a fault or --all, not both" if is_all else "the name of a fault, or --all"
        raise NothingToBreak(f"break needs {what}; there are {known}")
    if name is not None:
        _break_one(find_fault(name).name, scenario)
    else:
        _break_all()


# ---- all ---------------------------------------------------------------------------------------


def _break_all() -> None:
    model = load_tiny()
    print(f"{'':2}  {'fault':17} {'scenario':8}  {'damage':7}  {'live':10}  caught by")
    missed, unseen = [], []
    for fault in FAULTS:
        for scenario in SCENARIOS:
            examination = examine(fault, scenario, model)
            print("\n".join(_rows(examination)))
            if not examination.is_caught:
                missed.append(f"{fault.name} ({scenario})")
            if not examination.is_caught_live:
                unseen.append(f"{fault.name} ({scenario})")
    if missed:
        raise FaultMissed(f"not caught in the step of the damage: {', '.join(missed)}")
    if unseen:
        raise FaultMissed(f"not caught live in the step of the damage: {', '.join(unseen)}")
    print(
        f"\nok: {len(FAULTS)} faults caught by their rules in the step of the damage; without a "
        "fault the same runs break no rule\nlive: the rules that the engine's own check names in "
        "that step, or before; it checks all but 8, which needs a dense recompute"
    )


def _rows(examination: Examination) -> Iterator[str]:
    fault, is_first = examination.fault, examination.scenario == SCENARIOS[0]
    label = f"{fault.number:2}  {fault.name:17}" if is_first else " " * 21
    damage = "none" if examination.damage is None else f"step {examination.damage}"
    live = " ".join(map(str, examination.live_rules)) or "nothing"
    if examination.live_rules and examination.seen_live != examination.damage:
        live += f", step {examination.seen_live}"
    yield f"{label} {examination.scenario:8}  {damage:7}  {live:10}  {_caught_by(examination)}"
    if not examination.is_healthy_clean:
        yield f"{'':42}the healthy run breaks a rule"
    difference = examination.difference
    if difference is not None:
        name = f"{difference.name} gets"
        width = max(len(name), len("instead of"))
        yield f"{'':42}{name:{width}}  {printable(difference.wrong)}"
        yield f"{'':42}{'instead of':{width}}  {printable(difference.right)}"


def _caught_by(examination: Examination) -> str:
    if examination.caught is None:
        return "nothing"
    names = {violation.rule: violation.name for violation in examination.violations}
    wanted = examination.fault.rules
    named = [f"rule {rule} ({names[rule]})" for rule in wanted if rule in names]
    others = [str(rule) for rule in names if rule not in wanted]
    text = ", ".join(named) or "no rule of its own"
    also = f", also {', '.join(others)}" if others else ""
    return f"step {examination.caught.number}: {text}{also}"


# ---- one ---------------------------------------------------------------------------------------


def _break_one(name: str, scenario: str) -> None:
    fault = find_fault(name)
    examination = examine(fault, scenario, load_tiny())
    print(f"{fault.number}. {fault.title}\n")
    print(f"seen in     {fault.real_case}")
    print(f"shows as    {fault.shows}")
    print(f"is right    {fault.is_right}")
    difference = examination.difference
    if difference is not None:
        width = max(len(difference.name) + 5, len("instead of"))
        print(f"\n{difference.name + ' gets':{width}}  {printable(difference.wrong)}")
        print(f"{'instead of':{width}}  {printable(difference.right)}")
    caught = examination.caught
    if caught is not None:
        print("\nsteps up to the damage")
        for line in _steps(examination, caught.number):
            print(f"  {line}")
        print(f"\nbroken in step {caught.number}")
        for violation in examination.violations:
            print(f"  {violation}")
        page_id = examination.page_id
        if page_id is not None:
            print(f"\nlife of p{page_id:d}")
            for moment in page_life(examination.faulty, page_id, caught.number):
                print(f"  {_show_moment(moment)}")
    print("\nwhat is wrong")
    print(_listing(source_of(fault.part)))
    print("the lines that are right")
    for method in fault.right:
        print(_listing(source_of(method)))
    if not examination.is_caught:
        raise FaultMissed(f"{fault.name} ({scenario}) was not caught in the step of the damage")


def _steps(examination: Examination, last: int) -> Iterator[str]:
    play = examination.faulty
    tokenizer = None if play.model is None else play.model.tokenizer
    token_text = None if tokenizer is None else tokenizer.token_text
    for step in play.steps[max(0, last - _STEPS_BEFORE) : last + 1]:
        yield report_step(step.number, step.events, step.after, token_text).as_line
        if step.error is not None:
            yield f"          raised: {step.error}"


def _show_moment(moment: PageMoment) -> str:
    text = f"step {moment.step:3}  {show_event(moment.event)}"
    if moment.slots is not None:
        return f"{text} (slots {moment.slots.start} to {moment.slots.stop - 1})"
    if isinstance(moment.event, PrefixLookedUp):
        return f"step {moment.step:3}  found by a lookup of seq:{moment.event.seq_id:d}"
    return text


def _listing(source: Source) -> str:
    lines = "\n".join(f"    {line}".rstrip() for line in source.text.splitlines())
    return f"  {source.file}, line {source.line}\n{lines}\n"
