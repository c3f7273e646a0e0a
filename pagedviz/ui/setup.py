"""The sidebar: which scenario runs, with which prompts and settings.

    engine settings            one field each
    Request [A . lily    v]    the fields of the chosen one only: a run may have hundreds
    Apply

Invariants: nothing happens before Apply; what was typed for one request is kept while another is
looked at, until another run is shown; only what differs from the scenario's file is handed on.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import streamlit as st

from pagedviz.scenarios import Scenario, scenario_names
from pagedviz.ui import commands, session
from pagedviz.ui.markdown import plain
from pagedviz.ui.runs import RecordedRun, RunKey
from pagedviz.ui.setup_fields import (
    ENGINE_FIELDS,
    draw_engine_fields,
    draw_request_fields,
    request_values,
)
from pagedviz.views.theme import letter
from pagedviz.views.words import count

_NEW_NAME = "added"
_NEW_VALUES = {
    "prompt": "",
    "max_new_tokens": 16,
    "arrival_step": 0,
    "num_samples": 1,
    "beam_width": 1,
    "temperature": 0.0,
    "adapter": "",
}


def draw_setup(run: RecordedRun) -> None:
    """Everything in the sidebar."""
    with st.sidebar:
        st.caption(plain(run.scenario.description))
        if run.key.is_changed:
            st.button(
                "Back to the scenario as it comes",
                on_click=commands.open_scenario,
                args=(run.key.scenario,),
                width="stretch",
            )
        if run.key.is_scenario:
            # What is typed draws the sidebar anew, and nothing else.
            st.fragment(_draw_fields)(run.key)
        else:
            st.button(
                "Open a scenario, with settings",
                on_click=commands.open_scenario,
                args=(scenario_names()[0],),
                width="stretch",
            )


def _draw_fields(key: RunKey) -> None:
    run = session.view().run
    if run.key != key:
        st.rerun()
    prefix = session.fields_of(key)
    draw_engine_fields(prefix, run.scenario.engine)
    names = [request.name for request in run.scenario.requests]
    labels = [f"{letter(i)} \u00b7 {plain(name)}" for i, name in enumerate(names)]
    with st.container(border=True):
        chosen = st.selectbox(
            "Request",
            range(len(names) + 1),
            format_func=[*labels, "Add a request"].__getitem__,
            key=f"{prefix}request",
        )
        if chosen < len(names):
            request = run.scenario.requests[chosen]
            draw_request_fields(f"{prefix}{request.name}/", request_values(request))
            if request.follows is not None:
                st.caption(f"Continues {plain(request.follows)} when that has finished")
        else:
            draw_request_fields(f"{prefix}{_NEW_NAME}/", _NEW_VALUES)
        st.caption(
            "Prompt and max new tokens together may take "
            f"{count(run.context, 'token')}, the model's context"
        )
    if st.button("Apply", on_click=_apply, args=(run,), type="primary", width="stretch"):
        st.rerun()


def _apply(run: RecordedRun) -> None:
    commands.apply(_read_fields(run))


def _read_fields(run: RecordedRun) -> dict[str, Any]:
    """The settings typed in, as apply_settings takes them."""
    prefix = session.fields_of(run.key)
    engine = run.scenario.engine
    settings = _typed(prefix, {name: getattr(engine, name) for name in ENGINE_FIELDS})
    requests = {
        request.name: _typed(f"{prefix}{request.name}/", request_values(request))
        for request in run.scenario.requests
    }
    new = _typed(f"{prefix}{_NEW_NAME}/", _NEW_VALUES)
    if new["prompt"]:
        requests[_free_name(run.scenario)] = new
    for values in requests.values():
        values["adapter"] = values["adapter"] or None
    return {**settings, "requests": requests}


def _typed(prefix: str, values: Mapping[str, Any]) -> dict[str, Any]:
    """What the fields hold; what was never drawn is as it was."""
    return {name: session.field_or(f"{prefix}{name}", value) for name, value in values.items()}


def _free_name(scenario: Scenario) -> str:
    taken = {request.name for request in scenario.requests}
    number = 1
    while f"{_NEW_NAME} {number}" in taken:
        number += 1
    return f"{_NEW_NAME} {number}"
