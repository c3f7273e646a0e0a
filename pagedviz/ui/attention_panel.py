"""Attention of one sequence at the cursor: by page, by token, and in its text."""

from __future__ import annotations

from typing import Any

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from pagedviz.engine.snapshot import SequenceView, Snapshot
from pagedviz.trace.replay import SequenceAttention
from pagedviz.ui import session
from pagedviz.ui.figures import draw_figure
from pagedviz.ui.marks import decorate
from pagedviz.ui.panel_drawing import draw_attended_text, draw_sentence
from pagedviz.ui.replays import replay_of
from pagedviz.ui.session import View
from pagedviz.views.attention_view import (
    attention_sentence,
    attention_shares,
    page_share_chart,
    token_share_chart,
)
from pagedviz.views.theme import Theme, letter, places
from pagedviz.views.words import sequence_name

HEIGHT = 190


def draw_attention(view: View, theme: Theme, row: DeltaGenerator) -> None:
    """Raises PagedVizError where there is nothing to show."""
    trace, looking = view.run.trace, view.looking
    snapshot = trace.at(*view.moment)
    if not snapshot.sequences:
        st.caption("No request has arrived yet: step on")
        return
    seq_id = chosen_sequence(view, snapshot)
    with row:
        _sequence_choice(view, snapshot, seq_id)
    attention = replay_of(view.run, view.moment.step).attention(view.moment, seq_id)
    if attention is None:
        st.caption(f"seq:{seq_id} has computed nothing yet, so it has looked at nothing: step on")
        return
    num_layers, num_heads = attention.weights.shape[:2]
    layer = min(looking.layer, num_layers - 1)
    head = looking.head if looking.head is None or looking.head < num_heads else None
    with row:
        _choice("Layer", {f"layer {i}": i for i in range(num_layers)}, layer)
        _choice("Head", {"all heads": None} | {f"head {i}": i for i in range(num_heads)}, head)
    _draw(view, theme, attention, layer, head)


def _draw(
    view: View, theme: Theme, attention: SequenceAttention, layer: int, head: int | None
) -> None:
    trace = view.run.trace
    size = trace.header.block_size
    token_text = view.run.token_text
    longest = trace.final.sequence(attention.seq_id).token_ids
    place = places(trace.final)[attention.seq_id]
    shares = attention_shares(attention, layer, head, size)
    said = attention_sentence(shares, longest, token_text)
    st.html(draw_sentence(decorate(said, places(trace.final), len(theme.hues))))
    st.html(draw_attended_text(shares, longest, token_text, place % len(theme.hues)))
    if not view.looking.shows_charts:
        return
    by_page, by_token = st.columns((2, 3), gap="small")
    num_pages = -(-len(longest) // size)
    with by_page, st.container(border=True, gap=None):
        st.html('<div class="strip"><h2>By page of its table \u00b7 root scale</h2></div>')
        draw_figure(
            lambda: page_share_chart(shares, num_pages, theme, place, HEIGHT),
            f"attention by page {theme.name}",
            f"Share of attention on each page of seq:{attention.seq_id}",
            HEIGHT,
        )
    with by_token, st.container(border=True, gap=None):
        st.html(
            '<div class="strip"><h2>By token, lines where pages begin \u00b7 root scale</h2></div>'
        )
        draw_figure(
            lambda: token_share_chart(shares, longest, token_text, size, theme, place, HEIGHT),
            f"attention by token {theme.name}",
            f"Share of attention on each token of seq:{attention.seq_id}",
            HEIGHT,
        )


def chosen_sequence(view: View, snapshot: Snapshot) -> int:
    """The one that was selected, if it has arrived; or the first that runs, or has run."""
    chosen = view.looking.sequence
    if chosen is not None and any(s.seq_id == chosen for s in snapshot.sequences):
        return chosen
    if snapshot.running:
        return snapshot.running[0]
    return snapshot.sequences[0].seq_id


def sequence_label(snapshot: Snapshot, view: SequenceView) -> str:
    """`A seq:0 lily, decoding`"""
    name = sequence_name(view.seq_id, view.name)
    return f"{letter(places(snapshot)[view.seq_id])} {name}, {view.state}"


def _sequence_choice(view: View, snapshot: Snapshot, seq_id: int) -> None:
    ids = [sequence.seq_id for sequence in snapshot.sequences]
    key = f"sequence of {view.run.key.short}"
    session.set_field(key, seq_id)
    st.selectbox(
        "Sequence",
        ids,
        format_func=lambda i: sequence_label(snapshot, snapshot.sequence(i)),
        key=key,
        on_change=_sequence_chosen,
        args=(key,),
        label_visibility="collapsed",
        width=280,
    )


def _sequence_chosen(key: str) -> None:
    session.view().looking.sequence = session.field(key)


def _choice(name: str, options: dict[str, Any], chosen: int | None) -> None:
    key = f"attention {name}"
    session.set_field(key, next(label for label, value in options.items() if value == chosen))
    st.selectbox(
        name,
        list(options),
        key=key,
        on_change=_choice_made,
        args=(name, key, options),
        label_visibility="collapsed",
        width=130,
    )


def _choice_made(name: str, key: str, options: dict[str, Any]) -> None:
    setattr(session.view().looking, name.lower(), options[session.field(key)])
