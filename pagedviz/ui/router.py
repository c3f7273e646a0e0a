"""Which screens there are, and what they share: page settings, session, address."""

from __future__ import annotations

from pathlib import Path

import streamlit as st

from pagedviz.engine.errors import PagedVizError
from pagedviz.model import ModelError
from pagedviz.ui import session
from pagedviz.ui.screens.step import draw

# A file of ours: a Material icon would be fetched from another machine.
ICON = Path(__file__).with_name("icon.svg")


def main() -> None:
    """The whole app."""
    _page("pagedviz")
    st.navigation([st.Page(_shown, title="Step", url_path="step", default=True)]).run()


def step() -> None:
    """The Step screen alone."""
    _page("pagedviz: step")
    _shown()


def _page(title: str) -> None:
    st.set_page_config(
        page_title=title,
        page_icon=ICON,
        layout="wide",
        initial_sidebar_state="collapsed",
    )


def _shown() -> None:
    try:
        session.view()
    except (PagedVizError, ModelError) as error:
        st.error(str(error))
        return
    draw()
