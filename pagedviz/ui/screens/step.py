"""The Step screen: one moment of a run, and the ways to another.

title
the board             steps in the browser (pagedviz/ui/board)
charts                of the whole run; they follow where the board rests
a panel               attention, a page, what if; so does it
"""

from __future__ import annotations

import streamlit as st

from pagedviz.ui import session
from pagedviz.ui.board import draw_board
from pagedviz.ui.charts import draw_charts
from pagedviz.ui.frame import frame_style
from pagedviz.ui.markdown import plain
from pagedviz.ui.messages import draw_messages
from pagedviz.ui.panel_style import panel_style
from pagedviz.ui.panels import draw_panels
from pagedviz.ui.runs import RunKey
from pagedviz.ui.session import View
from pagedviz.ui.setup import draw_setup
from pagedviz.ui.title_row import draw_title_row
from pagedviz.views.theme import LIGHT, THEMES


def draw() -> None:
    """The whole screen, for the view of this visitor."""
    view = session.view()
    draw_setup(view.run)
    # Where the board rests concerns the fragment only: the sidebar with all its fields is left
    # alone.
    st.fragment(_draw_moment)(view.run.key)


def _draw_moment(key: RunKey) -> None:
    """Everything but the sidebar. key: of the run when the whole screen was drawn."""
    view = session.view()
    if view.run.key != key:
        st.rerun()
    session.publish()
    theme = THEMES.get(st.context.theme.type or "", LIGHT)
    st.html(frame_style() + panel_style())
    draw_title_row(view)
    draw_messages(view)
    with st.container(key="boardplace"):
        draw_board(view)
    _ended(view)
    draw_charts(view, theme)
    draw_panels(view, theme)


def _ended(view: View) -> None:
    if view.run.ended is not None and view.moment.step == view.run.trace.num_steps - 1:
        st.info(plain(view.run.ended))
