"""The panels under the board: attention, one page in full, what if, proof. They follow the cursor.

Invariants: a panel that is not chosen costs nothing; they follow where the board rests, not every
step; what a panel cannot show is a sentence in its place.
"""

from __future__ import annotations

from collections.abc import Callable

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from pagedviz.engine.errors import PagedVizError
from pagedviz.model import ModelError
from pagedviz.ui import session
from pagedviz.ui.attention_panel import draw_attention
from pagedviz.ui.markdown import plain
from pagedviz.ui.page_panel import draw_page
from pagedviz.ui.proof_panel import draw_proof
from pagedviz.ui.selection import PANELS
from pagedviz.ui.session import View
from pagedviz.ui.what_if_panel import draw_what_if
from pagedviz.views.theme import Theme

_TITLES = {
    "attention": "Attention",
    "page": "Page",
    "what if": "What if",
    "proof": "Proof",
    "none": "Nothing",
}
_CHARTS_HELP = "Plotly charts here and in the panels: a browser loads 4.7 MB for the first one"
Draw = Callable[[View, Theme, DeltaGenerator], None]
"""What a panel is: it puts what it lets choose into the row given, and itself below."""

_DRAW: dict[str, Draw] = {
    "attention": draw_attention,
    "page": draw_page,
    "what if": draw_what_if,
    "proof": draw_proof,
}


def draw_panels(view: View, theme: Theme) -> None:
    """A row to choose one, and that one."""
    chosen = view.looking.panel
    with st.container(key="panels"):
        row = choice_row("panel row")
        row.segmented_control(
            "Under the board",
            PANELS,
            format_func=lambda panel: _TITLES[panel],
            default=chosen,
            required=True,
            key=f"panel {chosen}",
            on_change=_chosen,
            args=(f"panel {chosen}",),
            label_visibility="collapsed",
        )
        _charts_choice(view, row)
        if chosen == "none":
            return
        draw_safely(_DRAW[chosen], view, theme, row)


def choice_row(key: str) -> DeltaGenerator:
    """A row for what a panel lets choose."""
    return st.container(horizontal=True, vertical_alignment="center", gap="small", key=key)


def draw_safely(draw: Draw, view: View, theme: Theme, row: DeltaGenerator) -> None:
    """A panel, or the sentence why there is none."""
    try:
        draw(view, theme, row)
    except (PagedVizError, ModelError) as error:
        st.info(plain(str(error)))


def _charts_choice(view: View, row: DeltaGenerator) -> None:
    key = "charts"
    session.set_field(key, view.looking.shows_charts)
    row.toggle("Charts", key=key, on_change=_charts_chosen, args=(key,), help=_CHARTS_HELP)


def _charts_chosen(key: str) -> None:
    session.view().looking.charts = session.field(key)


def _chosen(key: str) -> None:
    session.view().looking.panel = session.field(key)
