"""What one visitor looks at: the only reader and writer of Streamlit's session state and address.

Invariants: commands carry the moment they lead to, never "one further", so that a press that comes
twice does not count twice; a run that cannot be made leaves the one on screen as it was; the
address always opens the moment on screen.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from time import monotonic
from typing import Any

import streamlit as st

from pagedviz.engine.errors import PagedVizError
from pagedviz.model import ModelError
from pagedviz.scenarios import Change, parse_changes, scenario_names
from pagedviz.trace.trace import Moment
from pagedviz.ui.links import Link, make_link, read_link
from pagedviz.ui.runs import RecordedRun, RunKey, key_for, recorded_run
from pagedviz.ui.selection import Selection
from pagedviz.ui.stepping import nearest, targets

PLAY_SECONDS = 0.5


@dataclass
class View:
    """problems: sentences for the visitor, gone with the next command. looking: at what in the
    panels and on the other screens."""

    run: RecordedRun
    moment: Moment
    by_event: bool = False
    is_playing: bool = False
    problems: tuple[str, ...] = ()
    played_at: float = 0.0
    looking: Selection = dataclasses.field(default_factory=Selection)


def view() -> View:
    """The view of this visitor; the first time, what the address asks for."""
    state: View | None = st.session_state.get("view")
    if state is None:
        parameters = st.query_params.to_dict()
        state = st.session_state["view"] = _open(read_link(parameters))
        state.looking = Selection.read(parameters)
        if "file" in parameters:
            state.problems += (
                f"This address was of the file {parameters['file'][:80]}: open it on the Trace "
                "screen",
            )
    return state


def publish() -> None:
    """Write the moment on screen into the address; while playing, only once it has stopped,
    because every address becomes an entry of the browser's history."""
    if view().is_playing:
        return
    address = {**moment_link(), **view().looking.parameters()}
    # Going to another screen empties the address, so it is compared with what it should be.
    if address != st.query_params.to_dict():
        st.query_params.from_dict(address)


def moment_link() -> dict[str, str]:
    """The parameters that open the moment on screen, on any machine but for an opened file."""
    state = view()
    key = state.run.key
    if key.file:
        return {"file": state.run.scenario.title}
    return make_link(key.scenario, json.loads(key.overrides), state.moment, json.loads(key.changes))


def field(key: str) -> Any:
    """What a widget holds."""
    return st.session_state[key]


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
            run = recorded_run(key())
            break
        except (PagedVizError, ModelError) as error:
            if str(error) not in problems:
                problems.append(str(error))
    else:
        raise PagedVizError(problems[-1])
    step = link.step
    if step is None or run.key.scenario != name:
        return View(run, _start(run), problems=tuple(problems))
    moment, problem = nearest(run.trace, step, link.event)
    problems += [problem] if problem else []
    return View(run, moment, by_event=moment.event is not None, problems=tuple(problems))


def _start(run: RecordedRun) -> Moment:
    return Moment(min(run.scenario.start_step, run.trace.num_steps - 1))


# ---- commands ----------------------------------------------------------------------------------


def go(moment: Moment) -> None:
    """Show a moment of the run on screen."""
    state = view()
    state.moment = moment
    state.problems = ()
    state.is_playing = False


def go_to_event(moment: Moment) -> None:
    """As `go`, and from now on one press is one event."""
    go(moment)
    view().by_event = True


def choose_granularity(by_event: bool) -> None:
    state = view()
    state.by_event = by_event
    if not by_event:
        state.moment = Moment(state.moment.step)


def play(is_playing: bool) -> None:
    """Start or stop; started at the end it begins again."""
    state = view()
    state.is_playing = is_playing
    state.problems = ()
    state.played_at = monotonic()
    if is_playing:
        there = targets(state.run.trace, state.moment, state.by_event)
        if there.forward is None:
            state.moment = there.first


def play_on() -> None:
    """While playing, go on by one if it is time to."""
    state = view()
    # A timer of the page shown before may ring once more.
    if not state.is_playing or monotonic() - state.played_at < 0.6 * PLAY_SECONDS:
        return
    following = targets(state.run.trace, state.moment, state.by_event).forward
    if following is None:
        state.is_playing = False
    else:
        state.moment = following
        state.played_at = monotonic()


def open_scenario(name: str) -> None:
    """Show another scenario as it comes, at the step it is best looked at first."""
    _show(name, {})


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


def refuse(problem: str) -> None:
    """Say why something was not done; what is on screen stays."""
    view().problems = (problem,)


def open_file(run: RecordedRun) -> None:
    """Show a trace that this visitor has opened."""
    state = view()
    state.is_playing = False
    state.run, state.moment, state.problems = run, Moment(0), ()


def _show(name: str, overrides: Mapping[str, Any], changes: Iterable[Change] = ()) -> bool:
    state = view()
    state.is_playing = False
    try:
        run = recorded_run(key_for(name, overrides, changes))
    except (PagedVizError, ModelError) as error:
        state.problems = (f"Not applied: {error}",)
        return False
    is_other = run.key.scenario != state.run.key.scenario
    state.problems = ()
    if is_other or state.moment.step >= run.trace.num_steps:
        state.moment = _start(run)
    else:
        state.moment = Moment(state.moment.step)
    state.run = run
    return True
