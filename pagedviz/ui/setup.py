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
_PREEMPTIONS = {
    "recompute": "compute again",
    "swap": "swap to the host",
    "abort": "give up",
}
_ENGINE_FIELDS = (
    *("block_size", "num_pages", "max_tokens_per_step", "chunk_size", "prefix_caching"),
    *("preemption", "host_pages", "profile"),
)
_PROFILES = {"vllm": "vLLM", "nano_vllm": "nano-vLLM"}


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
        if run.key.is_scenario:
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
            _sampling_fields(f"{prefix}{_NEW_NAME}/", 1, 1, 0)
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
        sampling = request.sampling
        _sampling_fields(key, request.num_samples, request.beam_width, sampling.temperature)
        _adapter_field(key, request.adapter)


def _sampling_fields(key: str, num_samples: int, beam_width: int, temperature: float) -> None:
    samples, beams = st.columns(2)
    with samples:
        st.number_input(
            "Samples",
            value=num_samples,
            step=1,
            key=f"{key}samples",
            help="So many texts from the one prompt, forks of the first. With a temperature of 0 "
            "they are all the same",
        )
    with beams:
        st.number_input(
            "Beam width",
            value=beam_width,
            step=1,
            key=f"{key}beams",
            help="Above 1 a beam search: so many of the likeliest texts go on, others fall out",
        )
    st.number_input(
        "Temperature",
        value=float(temperature),
        step=0.1,
        key=f"{key}temperature",
        help="0 takes the likeliest token; the higher, the more often another",
    )


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
    st.selectbox(
        "When no page is left",
        list(_PREEMPTIONS),
        index=list(_PREEMPTIONS).index(engine.preemption),
        format_func=_PREEMPTIONS.__getitem__,
        key=f"{prefix}preemption",
        help="What becomes of the sequence that is preempted",
    )
    host, profile = st.columns(2)
    with host:
        st.number_input(
            "Host pages",
            value=engine.host_pages,
            step=1,
            key=f"{prefix}host_pages",
            help="Room for swapped-out pages; used by \u201cswap to the host\u201d only",
        )
    with profile:
        st.selectbox(
            "Decides like",
            list(_PROFILES),
            index=list(_PROFILES).index(engine.profile),
            format_func=_PROFILES.__getitem__,
            key=f"{prefix}profile",
            help="The engine whose choices are followed where engines differ. nano-vLLM computes "
            "prompts and answers in different steps, and knows no chunk",
        )


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
            "num_samples": session.field(f"{key}samples"),
            "beam_width": session.field(f"{key}beams"),
            "temperature": session.field(f"{key}temperature"),
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
            "num_samples": session.field(f"{prefix}{_NEW_NAME}/samples"),
            "beam_width": session.field(f"{prefix}{_NEW_NAME}/beams"),
            "temperature": session.field(f"{prefix}{_NEW_NAME}/temperature"),
            "adapter": _chosen_adapter(f"{prefix}{_NEW_NAME}/"),
        }
    return {name: session.field(f"{prefix}{name}") for name in _ENGINE_FIELDS} | {
        "requests": requests
    }


def _chosen_adapter(key: str) -> str | None:
    chosen = session.field(f"{key}adapter")
    return None if chosen == _NO_ADAPTER else chosen


def _free_name(scenario: Scenario) -> str:
    taken = {request.name for request in scenario.requests}
    number = 1
    while f"{_NEW_NAME} {number}" in taken:
        number += 1
    return f"{_NEW_NAME} {number}"
