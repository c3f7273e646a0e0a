"""The row above every screen: which scenario is shown, how it differs, and the way to another."""

from __future__ import annotations

import streamlit as st

from pagedviz.scenarios import load_scenario, scenario_names
from pagedviz.ui import commands, session
from pagedviz.ui.frame import draw_title
from pagedviz.ui.recording_bar import draw_recording
from pagedviz.ui.session import View
from pagedviz.ui.what_if_panel import draw_branch


def draw_title_row(view: View, position: str | None = None) -> None:
    """position: HTML for its end."""
    run = view.run
    is_edited = run.key.is_changed and not run.key.is_branch
    with st.container(horizontal=True, vertical_alignment="center", key="title"):
        if not run.key.is_scenario:
            st.html(draw_title(run.scenario.title, is_changed=False), width="content")
        _choice(view)
        draw_branch(view)
        if is_edited:
            st.button(
                "Undo changes",
                key="undo changes",
                on_click=commands.open_scenario,
                args=(run.key.scenario,),
                type="tertiary",
            )
        draw_recording(view)
        if position is not None:
            st.html(position, width="content")


def _choice(view: View) -> None:
    # A field of its own for each visit: after Back the browser may still say what was chosen in one
    # that stood here before, and Streamlit takes that for news.
    key = f"scenario, visit {view.visit}"
    is_other = not view.run.key.is_scenario
    st.selectbox(
        "Scenario",
        scenario_names(),
        format_func=lambda name: load_scenario(name).title,
        index=None if is_other else scenario_names().index(view.run.key.scenario),
        placeholder="Leave the file for a scenario"
        if view.run.key.file
        else "Leave this engine for a scenario",
        key=key,
        on_change=_chosen,
        args=(key, view.visit),
        label_visibility="collapsed",
        width=270,
    )


def _chosen(key: str, visit: int) -> None:
    if visit == session.view().visit and (name := session.field(key)) is not None:
        commands.open_scenario(name)
