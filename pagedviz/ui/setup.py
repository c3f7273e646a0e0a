"""The sidebar: which scenario runs, with which prompts and settings.

Invariants: nothing happens before Apply; fields keep what was typed until another run is shown;
only what differs from the scenario's file is handed on.
"""

from __future__ import annotations

from typing import Any

import streamlit as st

from pagedviz.scenarios import Request, Scenario
from pagedviz.ui import session
from pagedviz.ui.markdown import plain
from pagedviz.ui.runs import RecordedRun, bundled_model
from pagedviz.views.theme import letter
from pagedviz.views.words import count

_NEW_NAME = "added"
_NO_ADAPTER = "none: the model alone"


def draw_setup(run: RecordedRun) -> None:
    """Everything in the sidebar."""
    with st.sidebar:
        st.caption(plain(run.scenario.description))
        if run.key.is_changed:
            st.button(
                "Back to the scenario as it comes",
                on_click=session.open_scenario,
                args=(run.key.scenario,),
                width="stretch",
            )
        if not run.key.file:
            _draw_form(run)


def _draw_form(run: RecordedRun) -> None:
    prefix = f"{run.key.short}/"
    with st.form(f"{prefix}form", border=False):
        _engine_fields(prefix, run.scenario)
        for number, request in enumerate(run.scenario.requests):
            _request_fields(prefix, letter(number), request)
        with st.expander("Add a prompt"):
            st.text_area(
                "Prompt", key=f"{prefix}{_NEW_NAME}/prompt", placeholder="Once upon a time"
            )
            st.number_input("Max new tokens", value=16, step=1, key=f"{prefix}{_NEW_NAME}/max")
            st.number_input("Arrives at step", value=0, step=1, key=f"{prefix}{_NEW_NAME}/arrival")
            _adapter_field(f"{prefix}{_NEW_NAME}/", None)
        st.form_submit_button("Apply", on_click=_apply, args=(run,), width="stretch")
        st.caption(
            "Prompt and max new tokens together may take "
            f"{count(run.context, 'token')}, the model's context"
        )


def _request_fields(prefix: str, name_letter: str, request: Request) -> None:
    key = f"{prefix}{request.name}/"
    with st.expander(f"{name_letter} \u00b7 {plain(request.name)}"):
        if request.prompt is not None:
            st.text_area("Prompt", value=request.prompt, key=f"{key}prompt", height=110)
        st.number_input("Max new tokens", value=request.max_new_tokens, step=1, key=f"{key}max")
        if request.follows is None:
            st.number_input(
                "Arrives at step", value=request.arrival_step, step=1, key=f"{key}arrival"
            )
        else:
            st.caption(f"Continues {plain(request.follows)} when that has finished")
        _adapter_field(key, request.adapter)


def _adapter_field(key: str, chosen: str | None) -> None:
    # Not None: Streamlit takes that for nothing chosen, and falls back on what it began with.
    choices = (_NO_ADAPTER, *bundled_model().adapter_names)
    st.selectbox(
        "Adapter",
        choices,
        index=choices.index(chosen or _NO_ADAPTER),
        key=f"{key}adapter",
        help="A LoRA adapter changes what the model says; pages are shared under one adapter only",
    )


def _engine_fields(prefix: str, scenario: Scenario) -> None:
    engine = scenario.engine
    left, right = st.columns(2)
    with left:
        st.number_input("Slots a page", value=engine.block_size, step=1, key=f"{prefix}block_size")
        st.number_input(
            "Tokens a step",
            value=engine.max_tokens_per_step,
            step=1,
            key=f"{prefix}max_tokens_per_step",
            help="The budget: most tokens computed in one step, over all sequences",
        )
    with right:
        st.number_input(
            "Pages in the pool", value=engine.num_pages, step=1, key=f"{prefix}num_pages"
        )
        st.number_input(
            "Chunk",
            value=engine.chunk_size,
            step=1,
            placeholder="no limit",
            key=f"{prefix}chunk_size",
            help="Most tokens of one prompt in one step; empty: as many as the budget allows",
        )
    st.toggle("Prefix caching", value=engine.prefix_caching, key=f"{prefix}prefix_caching")


def _apply(run: RecordedRun) -> None:
    session.apply(_read_fields(run))


def _read_fields(run: RecordedRun) -> dict[str, Any]:
    """The settings typed in, as apply_settings takes them."""
    prefix = f"{run.key.short}/"
    requests: dict[str, Any] = {}
    for request in run.scenario.requests:
        key = f"{prefix}{request.name}/"
        change = {
            "max_new_tokens": session.field(f"{key}max"),
            "adapter": _chosen_adapter(key),
        }
        if request.prompt is not None:
            change["prompt"] = session.field(f"{key}prompt")
        if request.follows is None:
            change["arrival_step"] = session.field(f"{key}arrival")
        requests[request.name] = change
    if session.field(f"{prefix}{_NEW_NAME}/prompt"):
        requests[_free_name(run.scenario)] = {
            "prompt": session.field(f"{prefix}{_NEW_NAME}/prompt"),
            "max_new_tokens": session.field(f"{prefix}{_NEW_NAME}/max"),
            "arrival_step": session.field(f"{prefix}{_NEW_NAME}/arrival"),
            "adapter": _chosen_adapter(f"{prefix}{_NEW_NAME}/"),
        }
    names = ("block_size", "num_pages", "max_tokens_per_step", "chunk_size", "prefix_caching")
    return {name: session.field(f"{prefix}{name}") for name in names} | {"requests": requests}


def _chosen_adapter(key: str) -> str | None:
    chosen = session.field(f"{key}adapter")
    return None if chosen == _NO_ADAPTER else chosen


def _free_name(scenario: Scenario) -> str:
    taken = {request.name for request in scenario.requests}
    number = 1
    while f"{_NEW_NAME} {number}" in taken:
        number += 1
    return f"{_NEW_NAME} {number}"
