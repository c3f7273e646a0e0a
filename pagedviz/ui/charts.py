"""The charts under the board: the whole run, with a cursor where the board rests.

Invariant: a figure is the same for a whole run, so it is not drawn anew when one steps; the cursor
over it is moved instead.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from html import escape
from typing import Any

import streamlit as st

from pagedviz.trace.trace import Trace
from pagedviz.ui.figures import draw_figure
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
Make = Callable[[Trace, Theme, int], Any]


@st.cache_resource(show_spinner=False, max_entries=128)
def _figure(
    title: str, key: RunKey, num_steps: int, theme: Theme, _make: Make, _trace: Trace
) -> Any:
    """That of a run. Building it takes longer than the rest of a rerun."""
    return _make(_trace, theme, CHART_HEIGHT)


def draw_charts(view: View, theme: Theme) -> None:
    """State transitions and pool occupancy."""
    run = view.run
    share = cursor_share(view.moment, run.trace)
    pool = pool_map(run.trace.at(*view.moment), run.token_text)
    words = occupancy_words(run.trace, view.moment, pool)
    left, right = st.columns(2, gap="small")
    with left, st.container(key="states"):
        alt = "State of each sequence over the steps of the run"
        _chart("State transitions", state_chart, view, theme, alt, share, LANE_KEY)
    with right, st.container(key="occupancy"):
        alt = "Active, cached and free pages over the steps of the run"
        _chart("Pool occupancy", occupancy_chart, view, theme, alt, share, words)


def _chart(
    title: str, make: Make, view: View, theme: Theme, alt: str, share: float, caption: str
) -> None:
    run = view.run
    st.html(f'<div class="chart"><h2>{title}</h2></div>' + draw_cursor(share, CHART_HEIGHT))
    draw_figure(
        partial(_figure, title, run.key, run.trace.num_steps, theme, make, run.trace),
        f"{title} {theme.name}",
        alt,
        CHART_HEIGHT,
    )
    st.html(f'<div class="chart caption">{escape(caption)}</div>')
