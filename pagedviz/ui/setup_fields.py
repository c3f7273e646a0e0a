"""The fields of the sidebar, each named and keyed by the setting it holds.

Invariant: a field keeps what was typed while it is not on screen.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import streamlit as st

from pagedviz.engine.config import EngineConfig
from pagedviz.scenarios import Request
from pagedviz.ui.runs import bundled_model

ENGINE_FIELDS = (
    *("block_size", "num_pages", "max_tokens_per_step", "chunk_size", "prefix_caching"),
    *("preemption", "host_pages", "profile"),
)
_NO_ADAPTER = "none: the model alone"
PREEMPTION_WORDS = {
    "recompute": "compute again",
    "swap": "swap to the host",
    "abort": "give up",
}
PROFILE_WORDS = {"vllm": "vLLM", "nano_vllm": "nano-vLLM"}


def request_values(request: Request) -> dict[str, Any]:
    """What of a request can be changed, by the setting's name; "" for no adapter."""
    values: dict[str, Any] = {
        "max_new_tokens": request.max_new_tokens,
        "num_samples": request.num_samples,
        "beam_width": request.beam_width,
        "temperature": float(request.sampling.temperature),
        "adapter": request.adapter or "",
    }
    if request.prompt is not None:
        values["prompt"] = request.prompt
    if request.follows is None:
        values["arrival_step"] = request.arrival_step
    return values


def draw_request_fields(prefix: str, values: Mapping[str, Any]) -> None:
    """values: what they begin with. Without a prompt or an arrival step there is no such field."""
    if "prompt" in values:
        st.text_area(
            "Prompt",
            value=values["prompt"],
            placeholder="Once upon a time",
            key=f"{prefix}prompt",
            height=110,
            persist_state="session",
        )
    left, right = st.columns(2)
    with left:
        _number("Max new tokens", prefix, "max_new_tokens", values["max_new_tokens"])
        _number(
            "Samples",
            prefix,
            "num_samples",
            values["num_samples"],
            "So many texts from the one prompt, forks of the first. With a temperature of 0 they "
            "are all the same",
        )
        _number(
            "Temperature",
            prefix,
            "temperature",
            values["temperature"],
            "0 takes the likeliest token; the higher, the more often another",
            step=0.1,
        )
    with right:
        if "arrival_step" in values:
            _number("Arrives at step", prefix, "arrival_step", values["arrival_step"])
        _number(
            "Beam width",
            prefix,
            "beam_width",
            values["beam_width"],
            "Above 1 a beam search: so many of the likeliest texts go on, others fall out",
        )
        # An empty name and not None, which Streamlit takes for nothing chosen.
        names = {name: name for name in bundled_model().adapter_names}
        _choice(
            "Adapter",
            prefix,
            "adapter",
            {"": _NO_ADAPTER, **names},
            values["adapter"],
            "A LoRA adapter changes what the model says; pages are shared under one adapter only",
        )


def draw_engine_fields(prefix: str, engine: EngineConfig) -> None:
    left, right = st.columns(2)
    with left:
        _number("Slots a page", prefix, "block_size", engine.block_size)
        _number(
            "Tokens a step",
            prefix,
            "max_tokens_per_step",
            engine.max_tokens_per_step,
            "The budget: most tokens computed in one step, over all sequences",
        )
    with right:
        _number("Pages in the pool", prefix, "num_pages", engine.num_pages)
        _number(
            "Chunk",
            prefix,
            "chunk_size",
            engine.chunk_size,
            "Most tokens of one prompt in one step; empty: as many as the budget allows",
            placeholder="no limit",
        )
    st.toggle(
        "Prefix caching",
        value=engine.prefix_caching,
        key=f"{prefix}prefix_caching",
        persist_state="session",
    )
    _choice(
        "When no page is left",
        prefix,
        "preemption",
        PREEMPTION_WORDS,
        engine.preemption,
        "What becomes of the sequence that is preempted",
    )
    host, profile = st.columns(2)
    with host:
        _number(
            "Host pages",
            prefix,
            "host_pages",
            engine.host_pages,
            "Room for swapped-out pages; used by \u201cswap to the host\u201d only",
        )
    with profile:
        _choice(
            "Decides like",
            prefix,
            "profile",
            PROFILE_WORDS,
            engine.profile,
            "The engine whose choices are followed where engines differ. nano-vLLM computes "
            "prompts and answers in different steps, and knows no chunk",
        )


def _number(
    label: str,
    prefix: str,
    name: str,
    value: float | None,
    meaning: str | None = None,
    *,
    step: float = 1,
    placeholder: str | None = None,
) -> None:
    # No bounds: what is refused is said in one place, with the reason.
    st.number_input(
        label,
        value=value,
        step=step,
        placeholder=placeholder,
        key=f"{prefix}{name}",
        help=meaning,
        persist_state="session",
    )


def _choice(
    label: str, prefix: str, name: str, words: Mapping[str, str], value: str, meaning: str
) -> None:
    """words: what each choice is called on screen."""
    st.selectbox(
        label,
        list(words),
        index=list(words).index(value),
        format_func=words.__getitem__,
        key=f"{prefix}{name}",
        help=meaning,
        persist_state="session",
    )
