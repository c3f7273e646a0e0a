"""The Step screen: one moment of a run, and the ways to another.

title                 with a way to stop a run that is still being recorded
the board             steps in the browser (pagedviz/ui/board)
check                 what the live check of the rules did, and what is broken here
charts                of the whole run; they follow where the board rests
a panel               attention, a page, what if, proof; so does it
"""

from __future__ import annotations

import streamlit as st

from pagedviz.ui import commands, session
from pagedviz.ui.board import draw_board
from pagedviz.ui.charts import draw_charts
from pagedviz.ui.check_line import check_chip, draw_check_line
from pagedviz.ui.file_check import file_checked
from pagedviz.ui.frame import frame_style, presenter_style
from pagedviz.ui.messages import draw_messages
from pagedviz.ui.panel_style import panel_style
from pagedviz.ui.panels import draw_panels
from pagedviz.ui.runs import RunKey
from pagedviz.ui.screen_frame import current_theme
from pagedviz.ui.setup import draw_setup
from pagedviz.ui.title_row import draw_title_row
from pagedviz.ui.violation_panel import draw_violation

_MOMENT = "moment"


def draw() -> None:
    """The whole screen, for the view of this visitor."""
    view = session.view()
    session.await_board()
    draw_setup(view.run)
    # Where the board rests concerns the fragment only: the sidebar with all its fields is left
    # alone.
    commands.catch_up()
    st.fragment(_draw_moment, key=_MOMENT)(view.run.key, view.run.is_growing)


def _draw_moment(key: RunKey, is_growing: bool) -> None:
    """Everything but the sidebar. Of the run when the whole screen was drawn: its key, and whether
    it grew."""
    view = session.view()
    # The clock of the recording bar only stops with the whole screen.
    if view.run.key != key or view.run.is_growing != is_growing:
        st.rerun()
    session.publish()
    theme = current_theme()
    alone = presenter_style() if view.looking.presenter else ""
    st.html(frame_style() + panel_style() + alone)
    checked = file_checked(view.run)
    draw_title_row(view, check_chip(view, checked))
    draw_messages(view)
    with st.container(key="boardplace"):
        draw_board(_MOMENT)
    if view.looking.presenter:
        return
    draw_check_line(view, checked)
    draw_violation(view, theme, checked)
    if view.looking.shows_charts:
        draw_charts(view, theme)
    draw_panels(view, theme)
