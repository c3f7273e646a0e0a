"""What one visitor looks at: the only reader and writer of Streamlit's session state and address.

Invariants: the browser steps by itself and says where it rests, an absolute moment; a command that
moves it carries a number, so that it is obeyed once; a run that cannot be made leaves the one on
screen as it was; the address always opens the moment at rest.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import streamlit as st

from pagedviz.engine.errors import PagedVizError
from pagedviz.engine.state_hash import format_state_hash
from pagedviz.model import ModelError
from pagedviz.scenarios import parse_changes, scenario_names
from pagedviz.trace.trace import Moment
from pagedviz.ui.bookmarks import Bookmark, read_bookmarks
from pagedviz.ui.links import Link, make_link, other_state, read_link
from pagedviz.ui.runs import (
    RecordedRun,
    RunKey,
    key_for,
    recorded_run,
)
from pagedviz.ui.selection import Selection
from pagedviz.ui.stepping import nearest


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
    moment, bookmarks = run.start, ()
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


def taken_to() -> str | None:
    """The screen that a command leads to; asked once."""
    state: View | None = st.session_state.get("view")
    if state is None:
        return None
    wanted, state.wanted_screen = state.wanted_screen, None
    return wanted
