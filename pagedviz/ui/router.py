"""Which screens there are, and what they share: page settings, session, address."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import streamlit as st

from pagedviz.engine.errors import PagedVizError
from pagedviz.model import ModelError
from pagedviz.ui import session, visitors
from pagedviz.ui.screens import break_it, compare, model, pages, prefix_cache, step, trace

# A file of ours: a Material icon would be fetched from another machine.
ICON = Path(__file__).with_name("icon.svg")

SCREENS: dict[str, tuple[str, Callable[[], None]]] = {
    "step": ("Step", step.draw),
    "pages": ("Pages", pages.draw),
    "prefix_cache": ("Prefix cache", prefix_cache.draw),
    "compare": ("Compare", compare.draw),
    "break_it": ("Break it", break_it.draw),
    "trace": ("Trace", trace.draw),
    "model": ("Model", model.draw),
}
"""By the last part of its address, the name and what draws it; the first is shown first."""


def main() -> None:
    """The whole app."""
    _settings("pagedviz")
    first = next(iter(SCREENS))
    screens = {
        name: st.Page(_shower(name), title=SCREENS[name][0], url_path=name, default=name == first)
        for name in SCREENS
    }
    chosen = st.navigation(list(screens.values()), position="top")
    if (wanted := session.taken_to()) is not None:
        st.switch_page(screens[wanted])
    chosen.run()


def alone(name: str) -> None:
    """One screen without the others."""
    _settings(f"pagedviz: {SCREENS[name][0].lower()}")
    _shower(name)()


def _settings(title: str) -> None:
    st.set_page_config(
        page_title=title,
        page_icon=ICON,
        layout="wide",
        initial_sidebar_state="collapsed",
    )


def _shower(name: str) -> Callable[[], None]:
    def show() -> None:
        try:
            visitors.enter()
            session.view()
            session.follow_address()
        except (PagedVizError, ModelError) as error:
            st.error(str(error))
            return
        SCREENS[name][1]()

    return show
