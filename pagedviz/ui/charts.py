"""The charts under the board: the whole run, with a cursor where the board rests.

Invariant: a figure is the same for a whole run, so it is not drawn anew when one steps; the cursor
over it is moved instead.
"""

from __future__ import annotations

from html import escape
from typing import Any

import streamlit as st

from pagedviz.trace.trace import Trace
from pagedviz.ui.frame import draw_cursor
from pagedviz.ui.runs import RunKey
from pagedviz.ui.session import View
from pagedviz.views.charts import (
    LANE_KEY,
    cursor_share,
    occupancy_chart,
    occupancy_words,
    state_chart,
)
from pagedviz.views.pool_map import pool_map
from pagedviz.views.theme import Theme

CHART_HEIGHT = 240


@st.cache_resource(show_spinner=False, max_entries=64)
def _charts(key: RunKey, num_steps: int, theme: Theme, _trace: Trace) -> tuple[Any, Any]:
    """The two figures of a run. Building them takes longer than the rest of a rerun."""
    return state_chart(_trace, theme, CHART_HEIGHT), occupancy_chart(_trace, theme, CHART_HEIGHT)


def draw_charts(view: View, theme: Theme) -> None:
    """State transitions and pool occupancy."""
    run = view.run
    share = cursor_share(view.moment, run.trace)
    states, occupancy = _charts(run.key, run.trace.num_steps, theme, run.trace)
    pool = pool_map(run.trace.at(*view.moment), run.token_text)
    words = occupancy_words(run.trace, view.moment, pool)
    left, right = st.columns(2, gap="small")
    with left, st.container(key="states"):
        alt = "State of each sequence over the steps of the run"
        _chart("State transitions", states, f"states {theme.name}", alt, share, LANE_KEY)
    with right, st.container(key="occupancy"):
        alt = "Active, cached and free pages over the steps of the run"
        _chart("Pool occupancy", occupancy, f"occupancy {theme.name}", alt, share, words)


def _chart(title: str, figure: Any, key: str, alt: str, share: float, caption: str) -> None:
    st.html(f'<div class="chart"><h2>{title}</h2></div>' + draw_cursor(share, CHART_HEIGHT))
    st.plotly_chart(figure, key=key, theme=None, config={"displayModeBar": False}, alt=alt)
    st.html(f'<div class="chart caption">{escape(caption)}</div>')
