"""What the charts of the panels have in common: no template, fixed axes, the app's type."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import plotly.graph_objects as go

from pagedviz.views.charts import FONT_FAMILY
from pagedviz.views.theme import Theme


def panel_figure(
    shown: Sequence[Any],
    theme: Theme,
    height: int,
    x: dict[str, Any],
    y: dict[str, Any],
    more: dict[str, Any] | None = None,
) -> go.Figure:
    """Plotly traces over two axes; `more` joins the layout. Zoom is off: the axes are those of the
    run. The layout is given whole: changing a figure that is there takes several times as long, and
    these are made anew whenever somebody rests."""
    layout = {
        "template": "none",
        "height": height,
        "margin": {"l": 44, "r": 8, "t": 6, "b": 34, "pad": 0},
        "showlegend": False,
        "dragmode": False,
        "paper_bgcolor": "rgba(0,0,0,0)",
        "plot_bgcolor": "rgba(0,0,0,0)",
        "font": {"family": FONT_FAMILY, "size": 12, "color": theme.text},
        "hoverlabel": {
            "bgcolor": theme.surface,
            "bordercolor": theme.line,
            "font": {"color": theme.text, "size": 12},
        },
        "uirevision": "run",
        "xaxis": x,
        "yaxis": y,
        **(more or {}),
    }
    return go.Figure(list(shown), layout)


def axis(theme: Theme) -> dict[str, Any]:
    """What axes have in common."""
    return {
        "fixedrange": True,
        "showgrid": False,
        "zeroline": False,
        "automargin": False,
        "tickfont": {"size": 11, "color": theme.quiet},
        "linecolor": theme.line,
        "showline": True,
        "ticks": "outside",
        "ticklen": 3,
        "tickcolor": theme.line,
    }
