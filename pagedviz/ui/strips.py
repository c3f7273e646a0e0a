"""The three strips under the board: two charts of the whole run, and the events of this step.

Invariant: the charts are the same for a whole run, so they are not drawn anew when one steps; the
cursor over them is moved instead.
"""

from __future__ import annotations

from html import escape
from typing import Any

import streamlit as st

from pagedviz.trace.trace import Moment, Trace
from pagedviz.ui import session
from pagedviz.ui.drawing import draw_cursor
from pagedviz.ui.markdown import plain
from pagedviz.ui.runs import RunKey
from pagedviz.ui.session import View
from pagedviz.views.board import Board
from pagedviz.views.charts import (
    LANE_KEY,
    cursor_share,
    occupancy_chart,
    occupancy_words,
    state_chart,
)
from pagedviz.views.theme import Theme

STRIP_HEIGHT = 132
_EVENTS_SHOWN = 200


@st.cache_resource(show_spinner=False, max_entries=64)
def _charts(key: RunKey, theme: Theme, _trace: Trace) -> tuple[Any, Any]:
    """The two figures of a run. Building them takes longer than the rest of a rerun."""
    return state_chart(_trace, theme, STRIP_HEIGHT), occupancy_chart(_trace, theme, STRIP_HEIGHT)


def draw_strips(view: View, board: Board, theme: Theme) -> None:
    """States, occupancy, and the events of this step."""
    trace = view.run.trace
    share = cursor_share(view.moment, trace)
    states_figure, occupancy_figure = _charts(view.run.key, theme, trace)
    states, pool, events = st.columns((36, 32, 32), gap="small")
    with states, st.container(key="states"):
        st.html('<div class="strip"><h2>States</h2></div>' + draw_cursor(share, STRIP_HEIGHT))
        st.plotly_chart(
            states_figure,
            key=f"states {theme.name}",
            theme=None,
            config={"displayModeBar": False},
            alt="State of each sequence over the steps of the run",
        )
        st.html(f'<div class="caption">{escape(LANE_KEY)}</div>')
    with pool, st.container(key="occupancy"):
        st.html('<div class="strip"><h2>Occupancy</h2></div>' + draw_cursor(share, STRIP_HEIGHT))
        st.plotly_chart(
            occupancy_figure,
            key=f"occupancy {theme.name}",
            theme=None,
            config={"displayModeBar": False},
            alt="Active, cached and free pages over the steps of the run",
        )
        words = occupancy_words(trace, view.moment.step, board.pool)
        st.html(f'<div class="caption">{escape(words)}</div>')
    with events, st.container(key="events"):
        _event_list(view, board)


def _event_list(view: View, board: Board) -> None:
    step, event = view.moment
    st.html(f'<div class="strip"><h2>Step {step} · {board.num_events} events</h2></div>')
    if not board.lines:
        st.html('<div class="caption">Nothing happens in this step: step on</div>')
        return
    # Around the event looked at, if a step has very many.
    first = max(0, min((event or 0) - _EVENTS_SHOWN // 2, len(board.lines) - _EVENTS_SHOWN))
    lines = {line.number: line.text for line in board.lines[first : first + _EVENTS_SHOWN]}
    key = f"events of {view.run.key.short} step {step}"
    st.session_state[key] = event if event in lines else None
    with st.container(height=STRIP_HEIGHT + 20, border=False, key="eventlist"):
        st.radio(
            "Events of this step",
            list(lines),
            format_func=lambda number: f"{number}\u2002{plain(lines[number])}",
            key=key,
            on_change=_event_chosen,
            args=(step, key),
            label_visibility="collapsed",
        )


def _event_chosen(step: int, key: str) -> None:
    chosen = st.session_state[key]
    if chosen is not None:
        session.go_to_event(Moment(step, chosen))
