"""The row above every screen: which scenario is shown, how it differs, and the way to another."""

from __future__ import annotations

import streamlit as st

from pagedviz.scenarios import load_scenario, scenario_names
from pagedviz.ui import session
from pagedviz.ui.frame import draw_title
from pagedviz.ui.recording_bar import draw_recording
from pagedviz.ui.session import View
from pagedviz.ui.what_if_panel import draw_branch

_SCENARIO = "scenario"


def draw_title_row(view: View, position: str | None = None) -> None:
    """position: HTML for its end."""
    run = view.run
    is_edited = run.key.is_changed and not run.key.is_branch
    with st.container(horizontal=True, vertical_alignment="center", key="title"):
        if run.key.file:
            st.html(draw_title(run.scenario.title, is_changed=False), width="content")
        _choice(view)
        draw_branch(view)
        if is_edited:
            st.button(
                "Undo changes",
                key="undo changes",
                on_click=session.open_scenario,
                args=(run.key.scenario,),
                type="tertiary",
            )
        draw_recording(view)
        if position is not None:
            st.html(position, width="content")


def _choice(view: View) -> None:
    # One field for all runs, told what it shows: with a key for each, two would stand there for a
    # moment whenever the run changes.
    session.set_field(_SCENARIO, None if view.run.key.file else view.run.key.scenario)
    st.selectbox(
        "Scenario",
        scenario_names(),
        format_func=lambda name: load_scenario(name).title,
        index=None,
        placeholder="Leave the file for a scenario",
        key=_SCENARIO,
        on_change=_chosen,
        label_visibility="collapsed",
        width=270,
    )


def _chosen() -> None:
    name = session.field(_SCENARIO)
    if name is not None:
        session.open_scenario(name)
