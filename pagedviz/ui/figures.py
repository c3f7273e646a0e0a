"""A Plotly figure, or its place while the board beside it has not been painted.

Invariant: a figure never delays the board. A browser that meets the first figure reads and runs
4.7 MB before it does anything else, so none is sent before the board says that it is there; its
place is as high as it will be, so nothing moves when it comes.
"""

from __future__ import annotations

from collections.abc import Callable
from html import escape
from typing import Any

import streamlit as st

from pagedviz.ui import session

_CONFIG = {"displayModeBar": False}


def draw_figure(make: Callable[[], Any], key: str, alt: str, height: int) -> None:
    """make: the figure, `height` pixels high; not called while its place is kept."""
    if session.is_board_awaited():
        st.html(
            f'<div class="awaited" style="height:{height}px" role="img" '
            f'aria-label="{escape(alt)}: loading"></div>'
        )
        return
    st.plotly_chart(make(), key=key, theme=None, config=_CONFIG, alt=alt)
