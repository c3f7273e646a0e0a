"""What one visitor looks at: the only reader and writer of Streamlit's session state and address.

Invariants: the browser steps by itself and says where it rests, an absolute moment; a command that
moves it carries a number, so that it is obeyed once; a run that cannot be made leaves the one on
screen as it was; the address always opens the moment at rest.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import streamlit as st

from pagedviz.engine.errors import PagedVizError
from pagedviz.model import ModelError
from pagedviz.scenarios import scenario_names
from pagedviz.trace.trace import Moment
from pagedviz.ui.bookmarks import Bookmark, moment_of, read_bookmarks
from pagedviz.ui.links import Link, make_link, read_link
from pagedviz.ui.runs import RecordedRun, RunKey, key_for, recorded_run
from pagedviz.ui.stepping import nearest


@dataclass
class View:
    """moment: where the board rests. went_to: where the last command sent it, number go_id.
    by_event: one press was one event when it was sent there.
    problems: sentences for the visitor, gone with the next command. address: as last written."""

    run: RecordedRun
    moment: Moment
    went_to: Moment
    by_event: bool = False
    go_id: int = 0
    bookmarks: tuple[Bookmark, ...] = ()
    problems: tuple[str, ...] = ()
    address: Mapping[str, str] | None = None

    @property
    def run_name(self) -> str:
        """Differs between runs and says nothing else."""
        return self.run.key.short

    def go(self, moment: Moment) -> None:
        self.moment = self.went_to = moment
        self.by_event = moment.event is not None
        self.go_id += 1


def view() -> View:
    """The view of this visitor; the first time, what the address asks for."""
    state: View | None = st.session_state.get("view")
    if state is None:
        state = st.session_state["view"] = _open(read_link(st.query_params.to_dict()))
    return state


def publish() -> None:
    """Write the moment at rest into the address. While it moves the board says nothing: every
    address becomes an entry of the browser's history."""
    state = view()
    overrides = json.loads(state.run.key.overrides)
    address = make_link(state.run.key.scenario, overrides, state.moment, state.bookmarks)
    if address != state.address:
        st.query_params.from_dict(address)
        state.address = address


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
    for key in (lambda: key_for(name, link.overrides), lambda: key_for(name, {}), lambda: first):
        try:
            run = recorded_run(key())
            break
        except (PagedVizError, ModelError) as error:
            if str(error) not in problems:
                problems.append(str(error))
    else:
        raise PagedVizError(problems[-1])
    moment, bookmarks = _start(run), ()
    if run.key.scenario == name:
        bookmarks = read_bookmarks(link.bookmarks, run.trace)
        if link.step is not None:
            moment, problem = nearest(run.trace, link.step, link.event)
            problems += [problem] if problem else []
    is_event = moment.event is not None
    return View(run, moment, moment, is_event, bookmarks=bookmarks, problems=tuple(problems))


def _start(run: RecordedRun) -> Moment:
    return Moment(min(run.scenario.start_step, run.trace.num_steps - 1))


def said(component: str, name: str) -> Any:
    """The value a component keeps under a name; None if there is none."""
    state = st.session_state.get(component)
    return None if state is None else state.get(name)


# ---- commands ----------------------------------------------------------------------------------


def go(moment: Moment) -> None:
    """Show a moment of the run on screen."""
    state = view()
    state.go(moment)
    state.problems = ()


def rest(step: Any, event: Any) -> None:
    """The board has come to rest; what is not a recorded moment is passed over."""
    state = view()
    moment = moment_of(state.run.trace, step, event)
    if moment is not None and moment != state.moment:
        state.moment = moment
        state.problems = ()


def keep_bookmarks(bookmarks: Any) -> None:
    """Those of the run on screen, as the board says them; nonsense is left out."""
    state = view()
    state.bookmarks = read_bookmarks(bookmarks, state.run.trace)


def open_scenario(name: str) -> None:
    """Show another scenario as it comes, at the step it is best looked at first."""
    _show(name, {})


def apply(overrides: Mapping[str, Any]) -> None:
    """Run the scenario on screen with these settings instead; on an error nothing changes."""
    _show(view().run.key.scenario, overrides)


def _show(name: str, overrides: Mapping[str, Any]) -> None:
    state = view()
    try:
        run = recorded_run(key_for(name, overrides))
    except (PagedVizError, ModelError) as error:
        state.problems = (f"Not applied: {error}",)
        return
    is_other = run.key.scenario != state.run.key.scenario
    state.problems = ()
    is_beyond = is_other or state.moment.step >= run.trace.num_steps
    there = _start(run) if is_beyond else Moment(state.moment.step)
    if run.key != state.run.key:
        state.bookmarks = ()
    state.run = run
    state.go(there)
