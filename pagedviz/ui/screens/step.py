"""The Step screen: one moment of a run, and the ways to another.

title                                            position, state hash
First  Back  Step  Last  Play  token|event       slider with ticks
the sentence of this moment
sequences                                        page pool
states            occupancy            events of this step
"""

from __future__ import annotations

import streamlit as st

from pagedviz.trace.trace import Moment
from pagedviz.ui import session
from pagedviz.ui.drawing import (
    Lanes,
    draw_board,
    draw_position,
    draw_ticks,
    draw_title,
    link_rules,
    stylesheet,
)
from pagedviz.ui.markdown import plain
from pagedviz.ui.panels import draw_panels
from pagedviz.ui.runs import RecordedRun, RunKey
from pagedviz.ui.session import View
from pagedviz.ui.setup import draw_setup
from pagedviz.ui.stepping import targets
from pagedviz.ui.strips import draw_strips
from pagedviz.ui.what_if_panel import draw_branch
from pagedviz.views.board import make_board
from pagedviz.views.theme import LIGHT, THEMES
from pagedviz.views.ticks import Tick


def draw() -> None:
    """The whole screen, for the view of this visitor."""
    view = session.view()
    draw_setup(view.run)
    seconds = session.PLAY_SECONDS if view.is_playing else None
    # Stepping runs the fragment only: the sidebar with all its fields is left alone.
    st.fragment(_draw_moment, run_every=seconds)(view.run.key, view.is_playing)


def _draw_moment(key: RunKey, is_playing: bool) -> None:
    """Everything but the sidebar. key, is_playing: as they were when the whole screen was drawn."""
    session.play_on()
    view = session.view()
    if (view.run.key, view.is_playing) != (key, is_playing):
        st.rerun()
    session.publish()
    run = view.run
    theme = THEMES.get(st.context.theme.type or "", LIGHT)
    st.html(stylesheet(theme))
    st.html(link_rules(run.trace.header.num_pages))
    board = make_board(run.trace, view.moment, run.token_text)
    is_edited = run.key.is_changed and not run.key.is_branch
    with st.container(horizontal=True, vertical_alignment="center", key="title"):
        st.html(draw_title(run.scenario.title, is_edited), width="content")
        draw_branch(view)
        if is_edited:
            st.button(
                "Undo changes",
                on_click=session.open_scenario,
                args=(run.key.scenario,),
                type="tertiary",
            )
        with st.container(key="look"):
            _look_for(view)
        st.html(draw_position(board), width="content")
    _time_bar(view)
    _messages(view)
    lanes = Lanes(run.most_at_once, run.num_sequences - run.most_at_once)
    st.html(draw_board(board, theme, lanes))
    draw_strips(view, board, theme)
    draw_panels(view, theme)


def _messages(view: View) -> None:
    for problem in view.problems:
        st.warning(plain(problem))
    if view.run.ended is not None and view.moment.step == view.run.trace.num_steps - 1:
        st.info(plain(view.run.ended))


def _look_for(view: View) -> None:
    """The moments that the scenario itself points at."""
    hints = {
        hint.step: hint.text
        for hint in view.run.scenario.look_for
        if hint.step < view.run.trace.num_steps
    }
    # In a branch something else may happen at those steps.
    if not hints or view.run.key.is_branch:
        return
    key = f"look {view.run.key.short}"
    session.set_field(key, view.moment.step if view.moment.step in hints else None)
    st.selectbox(
        "Worth a look",
        list(hints),
        format_func=lambda step: f"step {step}: {hints[step]}",
        key=key,
        placeholder="Moments worth a look",
        on_change=_hint_chosen,
        args=(key,),
        label_visibility="collapsed",
    )


def _hint_chosen(key: str) -> None:
    step = session.field(key)
    if step is not None:
        session.go(Moment(step))


def _time_bar(view: View) -> None:
    run = view.run
    there = targets(run.trace, view.moment, view.by_event)
    with st.container(horizontal=True, vertical_alignment="center", key="timebar"):
        _go_button("First", there.first, view, "Home")
        _go_button("Back", there.back, view, "Left")
        _go_button("Step", there.forward, view, "Right")
        _go_button("Last", there.last, view, "End")
        st.button(
            "Pause" if view.is_playing else "Play",
            on_click=session.play,
            args=(not view.is_playing,),
            shortcut="P",
            key="play",
        )
        chosen = "event" if view.by_event else "token"
        st.segmented_control(
            "One press is",
            ("token", "event"),
            default=chosen,
            required=True,
            key=f"granularity {chosen}",
            on_change=_granularity_chosen,
            args=(f"granularity {chosen}",),
            label_visibility="collapsed",
        )
        with st.container(key="slider"):
            st.html(draw_ticks(_marks(view)))
            _slider(view)


def _go_button(label: str, moment: Moment | None, view: View, shortcut: str) -> None:
    st.button(
        label,
        key=label.lower(),
        on_click=session.go,
        args=(moment,),
        disabled=moment is None or moment == view.moment,
        shortcut=shortcut,
    )


def _granularity_chosen(key: str) -> None:
    session.choose_granularity(session.field(key) == "event")


def _slider(view: View) -> None:
    run = view.run
    last = run.scale.last if view.by_event else run.trace.num_steps - 1
    if last == 0:
        return
    key = f"{'event' if view.by_event else 'step'} of {run.key.short}"
    session.set_field(key, run.scale.place(view.moment) if view.by_event else view.moment.step)
    st.slider(
        "Event of the run" if view.by_event else "Step",
        min_value=0,
        max_value=last,
        key=key,
        on_change=_slid,
        args=(run, view.by_event, key),
        label_visibility="collapsed",
    )


def _marks(view: View) -> list[tuple[float, Tick]]:
    """Where on the slider the run's ticks are."""
    run = view.run
    if view.by_event:
        return [(run.scale.place(mark.moment) / run.scale.last, mark) for mark in run.ticks]
    return [(mark.moment.step / max(run.trace.num_steps - 1, 1), mark) for mark in run.ticks]


def _slid(run: RecordedRun, by_event: bool, key: str) -> None:
    place = session.field(key)
    session.go(run.scale.moment(place) if by_event else Moment(place))
