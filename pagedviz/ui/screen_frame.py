"""What every screen but Step begins with: the run and the moment, and a way to other moments; or,
where no run is looked at, what stands in their place."""

from __future__ import annotations

from collections.abc import Callable

import streamlit as st

from pagedviz.engine.state_hash import format_state_hash
from pagedviz.trace.trace import Moment
from pagedviz.ui import commands, session
from pagedviz.ui.frame import frame_style
from pagedviz.ui.messages import draw_messages
from pagedviz.ui.panel_style import panel_style
from pagedviz.ui.session import View
from pagedviz.ui.setup import draw_setup
from pagedviz.ui.title_row import draw_title_row
from pagedviz.views.theme import LIGHT, THEMES, Theme


def current_theme() -> Theme:
    """Light or dark, as the visitor's browser shows the app."""
    return THEMES.get(st.context.theme.type or "", LIGHT)


def draw_frame(content: Callable[[View, Theme], None], has_moment: bool = True) -> None:
    """A screen: title, then `content`. has_moment: whether it shows something of one moment."""
    view, theme = _begin()
    draw_setup(view.run)
    draw_title_row(view, _position(view) if has_moment else None)
    draw_messages(view)
    if has_moment:
        draw_step_bar(view.moment.step, view.run.trace.num_steps - 1, view.run.key.short, _went)
    content(view, theme)


def draw_frame_without_run(title: Callable[[View], None], content: Callable[[View], None]) -> None:
    """A screen that shows nothing of the run: `title` stands where the scenario is chosen."""
    view, _ = _begin()
    with st.container(horizontal=True, vertical_alignment="center", key="title"):
        title(view)
    draw_messages(view)
    content(view)


def _begin() -> tuple[View, Theme]:
    session.meet_board()
    commands.catch_up()
    view = session.view()
    session.publish()
    st.html(frame_style() + panel_style())
    return view, current_theme()


def _position(view: View) -> str:
    """Where the cursor rests, and the hash that a room can compare."""
    trace, (step, event) = view.run.trace, view.moment
    num_events = trace.num_events(step)
    events = (
        f"end, {num_events} events" if event is None else f"event <b>{event}</b> of {num_events}"
    )
    return (
        f'<div class="position">step <b>{step}</b> of {trace.num_steps - 1} \u00b7 {events}'
        '<span class="chip" title="State hash: the same on every screen that shows this moment">'
        f"state {format_state_hash(trace.state_hash(step, event))}</span></div>"
    )


def draw_step_bar(
    step: int, last: int, name: str, go: Callable[[int], None], has_ends: bool = False
) -> None:
    """By token: here one looks at moments, on the Step screen one walks from event to event.

    name: of what is stepped through. has_ends: with first and last step.
    """
    ways = [
        ("First", 0 if step else None, "Home"),
        ("Back", step - 1 if step else None, "Left"),
        ("Step", step + 1 if step < last else None, "Right"),
        ("Last", last if step < last else None, "End"),
    ]
    with st.container(horizontal=True, vertical_alignment="center", key="timebar"):
        for label, there, shortcut in ways if has_ends else ways[1:3]:
            st.button(
                label,
                key=f"bar {label.lower()}",
                on_click=go,
                args=(there,),
                disabled=there is None,
                shortcut=shortcut,
            )
        if has_ends:
            where = f'<div class="position">step <b>{step}</b> of {last}</div>'
            st.html(where, width="content")
        if last > 0:
            key = f"bar of {name}"
            session.set_field(key, step)
            st.slider(
                "Step",
                0,
                last,
                key=key,
                on_change=_slid,
                args=(key, go),
                label_visibility="collapsed",
            )


def _slid(key: str, go: Callable[[int], None]) -> None:
    go(session.field(key))


def _went(step: int) -> None:
    commands.go(Moment(step))
