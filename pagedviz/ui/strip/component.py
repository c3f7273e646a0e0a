"""Registers the strip with Streamlit and hears where it was clicked.

    Python -> browser   run, html (the drawing), step, last
    browser -> Python   went: {run, step}

Invariants: steps are absolute; what comes from the browser is checked like an address is.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import streamlit as st

from pagedviz.ui import session
from pagedviz.ui.packaged import register_packaged

NAME = "pagedviz.strip"
KEY = "strip"


def draw_time_strip(run: str, html: str, step: int, last: int, go: Callable[[int], None]) -> None:
    """html: ours, with rows that have a track each. run: of what it is; go: called with the step
    of a click or a key."""
    register_packaged(NAME)
    _registered()(
        key=KEY,
        data={"run": run, "html": html, "step": step, "last": last},
        on_went_change=partial(_went, run, last, go),
    )


@st.cache_resource(show_spinner=False)
def _registered() -> Callable[..., Any]:
    # Not isolated: the drawing has the style sheet of the screen.
    return st.components.v2.component(NAME, js="strip.js", isolate_styles=False)


def _went(run: str, last: int, go: Callable[[int], None]) -> None:
    said = session.said(KEY, "went")
    if not isinstance(said, Mapping) or said.get("run") != run:
        return
    step = said.get("step")
    if isinstance(step, int) and not isinstance(step, bool) and 0 <= step <= last:
        go(step)
