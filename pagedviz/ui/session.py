"""What one visitor looks at: the only reader and writer of Streamlit's session state and address.

Invariants: the browser steps by itself and says where it rests, an absolute moment; a command that
moves it carries a number, so that it is obeyed once; a run that cannot be made leaves the one on
screen as it was; the address always opens the moment at rest.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import streamlit as st

from pagedviz.engine.errors import PagedVizError
from pagedviz.engine.state_hash import format_state_hash
from pagedviz.model import ModelError
from pagedviz.scenarios import Change, parse_changes, scenario_names
from pagedviz.trace.trace import Moment
from pagedviz.ui.bookmarks import Bookmark, moment_of, read_bookmarks
from pagedviz.ui.links import Link, make_link, other_state, read_link
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
from pagedviz.ui.selection import Selection
from pagedviz.ui.stepping import nearest

# Of a run that grows, at least so many steps follow when somebody comes near its end.
MORE_STEPS = 64


@dataclass
class View:
    """moment: where the board rests. went_to: where the last command sent it, number go_id.
    by_event: one press was one event when it was sent there.
    visit: counts the runs that were shown one after the other.
    problems: sentences for the visitor, gone with the next command. looking: at what in the panels
    and on the other screens. published: what was last written into the address.
    wanted_screen: by its name, where a command leads."""

    run: RecordedRun
    moment: Moment
    went_to: Moment
    by_event: bool = False
    go_id: int = 0
    visit: int = 0
    bookmarks: tuple[Bookmark, ...] = ()
    problems: tuple[str, ...] = ()
    looking: Selection = dataclasses.field(default_factory=Selection)
    published: dict[str, str] = dataclasses.field(default_factory=dict)
    wanted_screen: str | None = None

    @property
    def run_name(self) -> str:
        """Differs between runs and says nothing else."""
        return self.run.key.short

    def show(self, run: RecordedRun, bookmarks: tuple[Bookmark, ...] = ()) -> None:
        if run.key != self.run.key:
            _forget_fields(self.run.key)
        self.run, self.bookmarks, self.problems = run, bookmarks, ()
        self.visit += 1

    def go(self, moment: Moment) -> None:
        self.moment = self.went_to = moment
        self.looking.past_end = 0
        self.by_event = moment.event is not None
        self.go_id += 1


def view() -> View:
    """The view of this visitor; the first time, what the address asks for."""
    state: View | None = st.session_state.get("view")
    if state is None:
        state = st.session_state["view"] = _opened(st.query_params.to_dict())
    return state


def _opened(parameters: Mapping[str, str]) -> View:
    state = _open(read_link(parameters))
    state.looking = Selection.read(parameters)
    if "file" in parameters:
        state.problems += (
            f"This address was of the file {parameters['file'][:80]}: open it on the Trace screen",
        )
    return state


def follow_address() -> None:
    """Go where the address says if the visitor has changed it: with Back, or by hand.

    To be called when the whole script runs. An address that is not the one last written, while
    nothing was commanded since, is the visitor's; an empty one is Streamlit's, which drops it on
    the way to another screen.
    """
    state, parameters = view(), st.query_params.to_dict()
    is_ours = not state.published or parameters in ({}, state.published)
    if is_ours or "file" in parameters or _address() != state.published:
        return
    there = _opened(parameters)
    state.show(there.run, there.bookmarks)
    state.problems = there.problems
    state.go(there.moment)
    state.looking = there.looking


def publish() -> None:
    """Write the moment at rest into the address. While it moves the board says nothing: every
    address becomes an entry of the browser's history."""
    address = view().published = _address()
    # Going to another screen empties the address, so it is compared with what it should be.
    if address != st.query_params.to_dict():
        st.query_params.from_dict(address)


def _address() -> dict[str, str]:
    return {**moment_link(), **view().looking.parameters()}


def moment_link() -> dict[str, str]:
    """The parameters that open the moment on screen, on any machine but for an opened file."""
    state = view()
    key = state.run.key
    if key.file:
        return {"file": state.run.scenario.title}
    return make_link(
        key.scenario,
        json.loads(key.overrides),
        state.moment,
        state.bookmarks,
        json.loads(key.changes),
        format_state_hash(state.run.trace.state_hash(*state.moment)),
    )


def field(key: str) -> Any:
    """What a widget holds. KeyError of one that was never drawn."""
    return st.session_state[key]


def field_or(key: str, otherwise: Any) -> Any:
    """What a widget holds; of one that was never drawn, `otherwise`."""
    return st.session_state.get(key, otherwise)


def fields_of(key: RunKey) -> str:
    """What the keys of the fields of a run begin with."""
    return f"{key.short}/"


def _forget_fields(key: RunKey) -> None:
    """Drop what was typed about a run: whoever comes back to it finds it as it is."""
    for name in list(st.session_state):
        if isinstance(name, str) and name.startswith(fields_of(key)):
            del st.session_state[name]


def set_field(key: str, value: object) -> None:
    """What a widget is to hold; before it is drawn."""
    st.session_state[key] = value


def _open(link: Link) -> View:
    problems = list(link.problems)
    first = RunKey(scenario_names()[0])
    name = link.scenario or first.scenario
    for key in (
        lambda: key_for(name, link.overrides, parse_changes(link.what_if)),
        lambda: key_for(name, link.overrides),
        lambda: key_for(name, {}),
        lambda: first,
    ):
        try:
            run = recorded_run(key(), link.step or 0)
            break
        except (PagedVizError, ModelError) as error:
            if str(error) not in problems:
                problems.append(str(error))
    else:
        raise PagedVizError(problems[-1])
    if problems:
        as_it_comes = "" if run.key.is_changed else " as it comes"
        problems = [
            f"Not all of this address makes sense, so \u201c{run.scenario.title}\u201d"
            f"{as_it_comes} is shown: {'; '.join(problems)}"
        ]
    moment, bookmarks = _start(run), ()
    if run.key.scenario == name:
        bookmarks = read_bookmarks(link.bookmarks, run.trace)
        if link.step is not None:
            moment, problem = nearest(run.trace, link.step, link.event)
            problems += [problem] if problem else []
    # With a problem the moment is not the one asked for, and its sentence has said so.
    if link.state is not None and not problems:
        found = format_state_hash(run.trace.state_hash(*moment))
        if found != link.state:
            problems.append(other_state(moment, link.state, found))
    is_event = moment.event is not None
    return View(run, moment, moment, is_event, bookmarks=bookmarks, problems=tuple(problems))


def _start(run: RecordedRun) -> Moment:
    return Moment(min(run.scenario.start_step, run.trace.num_steps - 1))


def said(component: str, name: str) -> Any:
    """The value a component keeps under a name; None if there is none."""
    state = st.session_state.get(component)
    return None if state is None else state.get(name)


def is_board_awaited() -> bool:
    """Whether this visitor's browser is still busy with its first board."""
    return st.session_state.get("board awaited", False)


def await_board() -> None:
    """The first board of this visitor is on its way."""
    st.session_state.setdefault("board awaited", True)


def meet_board() -> None:
    """It is there, or not asked for."""
    st.session_state["board awaited"] = False


# ---- commands ----------------------------------------------------------------------------------


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


def taken_to() -> str | None:
    """The screen that a command leads to; asked once."""
    state: View | None = st.session_state.get("view")
    if state is None:
        return None
    wanted, state.wanted_screen = state.wanted_screen, None
    return wanted


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
    there = _start(run) if is_beyond else Moment(state.moment.step)
    state.show(run, state.bookmarks if run.key == state.run.key else ())
    state.go(there)
    return True
