"""The Model screen: what runs here, what its cache costs, and how it reads a text."""

from __future__ import annotations

import streamlit as st

from pagedviz.model import LanguageModel
from pagedviz.trace.header import KvShape
from pagedviz.ui.panel_drawing import draw_amounts, draw_table, draw_tokens
from pagedviz.ui.runs import MODEL_NAME, bundled_model
from pagedviz.ui.screen_frame import draw_frame
from pagedviz.ui.session import View
from pagedviz.views.memory import memory_on_average, memory_sizes, size_text, token_bytes
from pagedviz.views.theme import Theme
from pagedviz.views.words import count

_MAX_CHARS = 2000
_EXAMPLE = "Once upon a time there was a little girl named Lily."


def draw() -> None:
    draw_frame(_content, has_moment=False)


def _content(view: View, theme: Theme) -> None:
    del theme
    model = bundled_model()
    facts, reading = st.columns(2, gap="medium")
    with facts:
        st.html(
            '<div class="panel"><h2>The model that runs everything here</h2></div>'
            + draw_table(("", "is", "that is"), _facts(model))
        )
        if view.run.trace.header.model != MODEL_NAME:
            st.caption("The trace on screen was not recorded with this model")
    trace = view.run.trace
    with reading:
        _reading(model, trace.header.block_size)
        amounts = (*memory_sizes(trace), *memory_on_average(trace))
        steps = count(trace.num_steps, "step")
        st.html(draw_amounts(f"What its cache costs in this run, on average over {steps}", amounts))


def _facts(model: LanguageModel) -> list[tuple[str, str, str]]:
    config = model.config
    cost = token_bytes(KvShape(config.num_layers, config.num_kv_heads, config.head_dim, 4))
    group = config.num_heads // config.num_kv_heads
    heads = f"{group} query heads read one KV head" if group > 1 else "each with its own KV head"
    return [
        ("name", MODEL_NAME, "it comes with pagedviz"),
        ("weights", f"{config.num_parameters:,}", "float32 while it runs"),
        ("layers", str(config.num_layers), "each with keys and values of its own"),
        ("query heads", str(config.num_heads), heads),
        ("KV heads", str(config.num_kv_heads), "what a page stores"),
        ("dimensions of a head", str(config.head_dim), "numbers of one key, and of one value"),
        ("width", str(config.hidden_size), "numbers that stand for a token between layers"),
        ("context", f"{config.max_position_embeddings} tokens", "prompt and answer together"),
        ("vocabulary", f"{config.vocab_size} tokens", "what it can read and say"),
        (
            "KV of one token",
            size_text(cost),
            f"2 \u00d7 {config.num_layers} layers \u00d7 {config.num_kv_heads} KV heads \u00d7 "
            f"{config.head_dim} dimensions \u00d7 4 bytes",
        ),
        (
            "KV of a full context",
            size_text(cost * config.max_position_embeddings),
            f"{config.max_position_embeddings} tokens of it",
        ),
        *(
            (
                f"adapter {name}",
                f"rank {adapter.rank}",
                f"LoRA on {', '.join(adapter.projections)}, computed beside the weights and "
                f"added {adapter.scaling:g} times",
            )
            for name, adapter in model.adapters.items()
        ),
    ]


def _reading(model: LanguageModel, block_size: int) -> None:
    st.html('<div class="panel"><h2>How it reads a text</h2></div>')
    if model.tokenizer is None:
        st.caption("This model has no tokenizer.json, so it reads token numbers only")
        return
    text = st.text_area(
        "Text", value=_EXAMPLE, max_chars=_MAX_CHARS, key="text to read", persist_state="session"
    )
    if not text:
        st.caption("Type something: its tokens appear here")
        return
    token_ids = model.tokenizer.encode(text[:_MAX_CHARS])
    st.html(draw_tokens(token_ids, model.tokenizer.token_text, block_size))
