"""The Pages screen: any page of the pool, and what pages cost, waste and save."""

from __future__ import annotations

import streamlit as st

from pagedviz.ui.page_panel import draw_page
from pagedviz.ui.panel_drawing import draw_amounts
from pagedviz.ui.panel_style import link_rules
from pagedviz.ui.panels import choice_row, draw_safely
from pagedviz.ui.pool_drawing import draw_pool
from pagedviz.ui.screen_frame import draw_frame
from pagedviz.ui.session import View
from pagedviz.views.board import make_board
from pagedviz.views.memory import memory_now, memory_on_average, memory_sizes
from pagedviz.views.theme import Theme
from pagedviz.views.words import count


def draw() -> None:
    draw_frame(_content)


def _content(view: View, theme: Theme) -> None:
    trace = view.run.trace
    st.html(link_rules(trace.header.num_pages))
    pool, memory = st.columns(2, gap="medium")
    with pool:
        board = make_board(trace, view.moment, view.run.token_text)
        drawn = draw_pool(board, len(theme.hues))
        st.html(f'<div class="poolmap"><section class="pool">{drawn}</section></div>')
    with memory:
        now = (*memory_sizes(trace), *memory_now(trace, view.moment))
        st.html(draw_amounts("Memory at this moment", now))
        steps = count(trace.num_steps, "step")
        st.html(draw_amounts(f"On average over {steps}", memory_on_average(trace)))
    draw_safely(draw_page, view, theme, choice_row("page row"))
