"""What a sequence looked at, by page and by token: shares of attention as data and as charts.

Invariants: shares of one query add up to 1; axes are those of the run (0 to 100 %, as many tokens
as the sequence ever has), so that stepping moves bars and nothing else. Heights are the
root of a share: attention is often spread so thin that its parts would not be seen.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
import plotly.graph_objects as go
from numpy.typing import NDArray

from pagedviz.engine.ids import page_label
from pagedviz.trace.replay import SequenceAttention
from pagedviz.views.panel_charts import axis, panel_figure
from pagedviz.views.theme import Theme
from pagedviz.views.words import TokenText, token, visible

_SHOWN_TEXT = 12


class PageShare(NamedTuple):
    """`share` of the attention fell on this page's tokens `first` .. `last`."""

    logical_index: int
    page_id: int
    label: str
    first: int
    last: int
    share: float


class AttentionShares(NamedTuple):
    """The last query of a step, in one layer and one head (None: mean over the heads).

    query: position of the token that looked. tokens: [num_tokens] shares.
    """

    step: int
    seq_id: int
    query: int
    layer: int
    head: int | None
    tokens: NDArray[np.float64]
    pages: tuple[PageShare, ...]


def attention_shares(
    attention: SequenceAttention, layer: int, head: int | None, block_size: int
) -> AttentionShares:
    """`layer` and `head` must exist."""
    heads = attention.weights[layer, :, -1].astype(np.float64)  # [num_heads, num_tokens]
    tokens = heads.mean(axis=0) if head is None else heads[head]  # [num_tokens]
    num_tokens = len(tokens)
    pages = tuple(
        PageShare(
            index,
            page_id,
            page_label(page_id, generation),
            index * block_size,
            min((index + 1) * block_size, num_tokens) - 1,
            float(tokens[index * block_size : (index + 1) * block_size].sum()),
        )
        for index, (page_id, generation) in enumerate(
            zip(attention.page_ids, attention.generations, strict=True)
        )
    )
    num_queries = attention.weights.shape[2]
    query = attention.first_query + num_queries - 1
    return AttentionShares(attention.step, attention.seq_id, query, layer, head, tokens, pages)


def attention_sentence(
    shares: AttentionShares, token_ids: tuple[int | None, ...], token_text: TokenText
) -> str:
    """Who looked, and where most of it went."""
    top = max(shares.pages, key=lambda page: page.share)
    best = int(np.argmax(shares.tokens))
    who = "all heads together" if shares.head is None else f"head {shares.head}"
    return (
        f"In step {shares.step} token {shares.query} of seq:{shares.seq_id:d}, "
        f"{token(token_ids[shares.query], token_text)}, was computed: in layer {shares.layer} "
        f"{who} gave {_percent(top.share)} to page {top.logical_index} ({top.label}) and "
        f"{_percent(float(shares.tokens[best]))} to token {best}, "
        f"{token(token_ids[best], token_text)}"
    )


def page_share_chart(
    shares: AttentionShares, num_pages: int, theme: Theme, place: int, height: int
) -> go.Figure:
    """A bar per page of the sequence. num_pages: most that it ever has. place: its hue."""
    hue = theme.hue(place)
    bars = go.Bar(
        x=[page.logical_index for page in shares.pages],
        y=[math.sqrt(page.share) for page in shares.pages],
        marker={"color": hue.fill},
        customdata=[[page.label, page.first, page.last, 100 * page.share] for page in shares.pages],
        hovertemplate=(
            "page %{x} (%{customdata[0]}), tokens %{customdata[1]} to %{customdata[2]}: "
            "%{customdata[3]:.1f} %<extra></extra>"
        ),
    )
    spacing = max(1, -(-num_pages // 16))
    shown = [page for page in shares.pages if page.logical_index % spacing == 0]
    pages = axis(theme) | {
        "range": [-0.5, max(num_pages, 4) - 0.5],
        "tickvals": [page.logical_index for page in shown],
        "ticktext": [str(page.logical_index) for page in shown],
        "tickangle": 0,
    }
    return panel_figure([bars], theme, height, pages, _percent_axis(theme))


def token_share_chart(
    shares: AttentionShares,
    token_ids: tuple[int | None, ...],
    token_text: TokenText,
    block_size: int,
    theme: Theme,
    place: int,
    height: int,
) -> go.Figure:
    """A bar per token, page boundaries as lines. The axis is as long as `token_ids`."""
    hue = theme.hue(place)
    texts = [
        [_short(token_ids[i], token_text), 100 * float(share)]
        for i, share in enumerate(shares.tokens)
    ]
    bars = go.Bar(
        x=list(range(len(shares.tokens))),
        y=[math.sqrt(float(share)) for share in shares.tokens],
        marker={"color": hue.fill, "line": {"width": 0}},
        customdata=texts,
        hovertemplate="token %{x} %{customdata[0]}: %{customdata[1]:.1f} %<extra></extra>",
    )
    most = max(len(token_ids), 8)
    spacing = block_size * max(1, -(-most // (16 * block_size)))
    starts = list(range(0, most, spacing))
    tokens = axis(theme) | {
        "range": [-0.5, most - 0.5],
        "tickvals": [start - 0.5 for start in starts],
        "ticktext": [str(start) for start in starts],
        "showgrid": True,
        "gridcolor": theme.line,
    }
    return panel_figure([bars], theme, height, tokens, _percent_axis(theme), {"bargap": 0.15})


def _percent_axis(theme: Theme) -> dict[str, Any]:
    ticks = (0, 1, 10, 50, 100)
    return {
        **axis(theme),
        "range": [0, 1.01],
        "tickvals": [math.sqrt(tick / 100) for tick in ticks],
        "ticktext": [f"{tick} %" for tick in ticks],
    }


def _percent(share: float) -> str:
    return f"{100 * share:.0f} %"


def _short(token_id: int | None, token_text: TokenText) -> str:
    text = "?" if token_id is None else visible(token_text(token_id))[:_SHOWN_TEXT]
    # Plotly reads hover texts as a small HTML.
    return f"\u201c{text.strip(' ')}\u201d".replace("&", "&amp;").replace("<", "&lt;")
