"""What a visitor can do with the run on screen.

Invariants: a command that moves the board carries a number, so that it is obeyed once; a run that
cannot be made leaves the one on screen as it was.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

from pagedviz.engine.errors import PagedVizError
from pagedviz.model import ModelError
from pagedviz.scenarios import Change, parse_changes
from pagedviz.trace.trace import Moment
from pagedviz.ui.bookmarks import moment_of, read_bookmarks
from pagedviz.ui.runs import (
    RecordedRun,
    RunKey,
    fault_key,
    go_on_recording,
    key_for,
    pause_check,
    recorded_run,
    stop_recording,
    varied_key,
)
from pagedviz.ui.session import view
from pagedviz.ui.stepping import nearest

# Of a run that grows, at least so many steps follow when somebody comes near its end.
MORE_STEPS = 64


def go(moment: Moment) -> None:
    """Show a moment of the run on screen."""
    state = view()
    state.go(moment)
    state.problems = ()


def go_compared(step: int) -> None:
    """Show a step of two runs, of which the one on screen may be over before."""
    last = view().run.trace.num_steps - 1
    go(Moment(min(step, last)))
    view().looking.past_end = max(0, step - last)


def compare_with(settings: Mapping[str, Any]) -> None:
    """Compare the run on screen with one of these settings; on an error nothing changes."""
    state = view()
    try:
        recorded_run(varied_key(state.run.key, settings))
    except (PagedVizError, ModelError) as error:
        state.problems = (f"Not applied: {error}",)
        return
    state.problems = ()
    state.looking.other = dict(settings)


def swap_sides(right: RunKey, settings: Mapping[str, Any] | None) -> None:
    """Show the right run of a comparison and compare it with the one on screen, which has
    `settings` otherwise; None where nothing is chosen. On an error nothing changes."""
    state = view()
    step = state.moment.step + state.looking.past_end
    try:
        run = recorded_run(right, step)
    except (PagedVizError, ModelError) as error:
        state.problems = (f"Not swapped: {error}",)
        return
    state.show(run)
    state.looking.other = None if settings is None else dict(settings)
    go_compared(step)


def rest(step: Any, event: Any) -> None:
    """The board has come to rest; what is not a recorded moment is passed over."""
    state = view()
    moment = moment_of(state.run.trace, step, event)
    if moment is not None and moment != state.moment:
        state.moment = moment
        state.looking.past_end = 0
        state.problems = ()


def grow(step: Any) -> None:
    """Have what follows a step of the run on screen, which grows; nonsense is passed over."""
    if isinstance(step, int) and not isinstance(step, bool):
        catch_up(step + MORE_STEPS)


def catch_up(step: int = 0) -> None:
    """Take the run on screen as far as it is recorded by now, `step` included if it has it."""
    state = view()
    if not (state.run.is_growing or state.run.can_go_on):
        return
    try:
        run = recorded_run(state.run.key, step)
    except (PagedVizError, ModelError):
        # What could not be done has become the reason why the recording ended.
        run = recorded_run(state.run.key)
    # Nobody may have kept the recording, and it was begun anew.
    if run.trace.num_steps >= state.run.trace.num_steps:
        state.run = run


def stop_growing() -> None:
    """Do not record the run on screen further."""
    stop_recording(view().run.key)
    catch_up()


def go_on_growing() -> None:
    """Record on, after a stop."""
    go_on_recording(view().run.key)
    catch_up()


def watch(thing: Any) -> None:
    """A page or a sequence was chosen on the board: the panels show it. None: they show again what
    suits the moment. Nonsense is passed over."""
    looking = view().looking
    if thing is None:
        looking.page = looking.sequence = None
    elif isinstance(thing, Mapping) and _is_number(thing.get("page")):
        looking.page = thing["page"]
        if looking.panel == "attention":
            looking.panel = "page"
    elif isinstance(thing, Mapping) and _is_number(thing.get("sequence")):
        looking.sequence = thing["sequence"]
        if looking.panel == "page":
            looking.panel = "attention"


def _is_number(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 1_000_000


def keep_bookmarks(bookmarks: Any) -> None:
    """Those of the run on screen, as the board says them; nonsense is left out."""
    state = view()
    state.bookmarks = read_bookmarks(bookmarks, state.run.trace)


def open_scenario(name: str) -> None:
    """Show another scenario as it comes, at the step it is best looked at first."""
    _show(name, {})


def open_fault(name: str, step: int) -> None:
    """Show the run of a fault's workload on the Step screen, at the end of a step of it; before
    the first one if it is negative."""
    state = view()
    try:
        run = recorded_run(fault_key(name))
    except (PagedVizError, ModelError) as error:
        state.problems = (f"Not opened: {error}",)
        return
    state.show(run)
    last = run.trace.num_steps - 1
    state.go(Moment(0, 0) if step < 0 else Moment(min(step, last)))
    state.wanted_screen = "step"


def check_rules(is_on: bool) -> None:
    """Whether the rules are checked in the steps of the run on screen still to be recorded."""
    pause_check(view().run.key, not is_on)
    catch_up()


def show_page(page_id: int) -> None:
    """Open the panel of a page."""
    looking = view().looking
    looking.panel, looking.page = "page", page_id


def apply(overrides: Mapping[str, Any]) -> None:
    """Run the scenario on screen with these settings instead; on an error nothing changes."""
    _show(view().run.key.scenario, overrides)


def branch(change: Change) -> None:
    """Leave the run on screen at a step and show what would have been; what an earlier branch
    changed later than that is left out. On an error nothing changes."""
    key = view().run.key
    try:
        changes = [c for c in parse_changes(json.loads(key.changes)) if c.step <= change.step]
        parse_changes([c.as_json() for c in (*changes, change)])
    except PagedVizError as error:
        view().problems = (f"Not applied: {error}",)
        return
    if _show(key.scenario, json.loads(key.overrides), (*changes, change)):
        go(nearest(view().run.trace, change.step, None)[0])


def to_parent() -> None:
    """Back to the run that the branch on screen has left, at the step where it did."""
    key = view().run.key
    changes = parse_changes(json.loads(key.changes))
    if changes and _show(key.scenario, json.loads(key.overrides), changes[:-1]):
        go(nearest(view().run.trace, changes[-1].step, None)[0])


def dismiss() -> None:
    """Take away what the visitor was told."""
    view().problems = ()


def refuse(problem: str) -> None:
    """Say why something was not done; what is on screen stays."""
    view().problems = (problem,)


def open_file(run: RecordedRun) -> None:
    """Show a trace that this visitor has opened."""
    state = view()
    state.show(run, run.trace.header.bookmarks)
    state.go(Moment(0))


def _show(name: str, overrides: Mapping[str, Any], changes: Iterable[Change] = ()) -> bool:
    """Whether the run could be made and is on screen."""
    state = view()
    try:
        run = recorded_run(key_for(name, overrides, changes), state.moment.step)
    except (PagedVizError, ModelError) as error:
        state.problems = (f"Not applied: {error}",)
        return False
    is_other = run.key.scenario != state.run.key.scenario
    is_beyond = is_other or state.moment.step >= run.trace.num_steps
    there = run.start if is_beyond else Moment(state.moment.step)
    state.show(run, state.bookmarks if run.key == state.run.key else ())
    state.go(there)
    return True
