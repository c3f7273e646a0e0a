"""Keys and values of one page as heatmaps, and how long they are.

Invariants: rows are slots 0 to block_size - 1, top to bottom, whether filled or not; columns are
head 0's dimensions, then head 1's; the colour scale is symmetric about 0 and steps in round
numbers, so that it seldom changes from one moment to the next.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import plotly.graph_objects as go
from numpy.typing import NDArray

from pagedviz.trace.replay import PageTensors
from pagedviz.views.panel_charts import axis, panel_figure
from pagedviz.views.theme import Theme

_NEGATIVE = {"light": "#5E3C99", "dark": "#B6A3E8"}
_POSITIVE = {"light": "#B35806", "dark": "#F1A340"}


def kv_chart(
    tensor: NDArray[np.float32], name: str, block_size: int, theme: Theme, height: int
) -> go.Figure:
    """One layer's keys or values of a page, [fill, num_kv_heads, head_dim]."""
    fill, num_heads, head_dim = tensor.shape
    flat = tensor.reshape(fill, num_heads * head_dim)  # [fill, H * D]
    limit = _round_up(float(np.abs(flat).max(initial=0)))
    heat = go.Heatmap(
        z=np.round(flat, 3).tolist(),
        zmin=-limit,
        zmax=limit,
        colorscale=[
            [0, _NEGATIVE[theme.name]],
            [0.5, theme.background],
            [1, _POSITIVE[theme.name]],
        ],
        colorbar={
            "thickness": 8,
            "outlinewidth": 0,
            "tickvals": [-limit, 0, limit],
            "tickfont": {"size": 11, "color": theme.quiet},
        },
        xgap=0,
        ygap=1,
        hovertemplate=f"{name}, slot %{{y}}, column %{{x}}: %{{z:.3f}}<extra></extra>",
    )
    # Each head is a block of columns with its number in the middle and a line where it starts.
    middles = [head * head_dim + head_dim / 2 - 0.5 for head in range(num_heads)]
    lines = [
        {
            "type": "line",
            "x0": head * head_dim - 0.5,
            "x1": head * head_dim - 0.5,
            "y0": -0.5,
            "y1": block_size - 0.5,
            "line": {"color": theme.strong, "width": 1},
        }
        for head in range(1, num_heads)
    ]
    columns = axis(theme) | {
        "range": [-0.5, num_heads * head_dim - 0.5],
        "tickvals": middles,
        "ticktext": [f"head {head}" for head in range(num_heads)],
    }
    slots = _slot_axis(block_size, theme)
    return panel_figure([heat], theme, height, columns, slots, {"shapes": lines})


def norm_chart(
    tensors: PageTensors, layer: int, block_size: int, theme: Theme, height: int
) -> go.Figure:
    """Length of the key and of the value in each slot, mean over the heads of one layer."""
    dots = []
    longest = 0.0
    for name, tensor, symbol, color in (
        ("key", tensors.keys, "circle", theme.text),
        ("value", tensors.values, "diamond-open", theme.strong),
    ):
        norms = np.linalg.norm(tensor[layer], axis=-1).mean(axis=-1)  # [fill]
        longest = max(longest, float(norms.max(initial=0)))
        dots.append(
            go.Scatter(
                x=[round(float(norm), 3) for norm in norms],
                y=list(range(len(norms))),
                mode="markers",
                name=name,
                marker={"symbol": symbol, "size": 8, "color": color},
                hovertemplate=f"{name} of slot %{{y}}: %{{x:.2f}}<extra></extra>",
            )
        )
    limit = _round_up(longest)
    lengths = axis(theme) | {"range": [0, limit * 1.04], "tickvals": [0, limit / 2, limit]}
    return panel_figure(dots, theme, height, lengths, _slot_axis(block_size, theme))


def _slot_axis(block_size: int, theme: Theme) -> dict[str, Any]:
    spacing = max(1, block_size // 8)
    return {
        **axis(theme),
        "range": [block_size - 0.5, -0.5],
        "tickvals": list(range(0, block_size, spacing)),
    }


def _round_up(value: float) -> float:
    """1, 2 or 5 times a power of ten, not below `value`."""
    if value <= 0:
        return 1.0
    power = 10.0 ** math.floor(math.log10(value))
    return next(power * nice for nice in (1, 2, 5, 10) if value <= power * nice * (1 + 1e-9))
