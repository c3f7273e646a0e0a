"""What the charts of the panels have in common: no template, fixed axes, the app's type."""

from __future__ import annotations

from typing import Any

from pagedviz.views.charts import FONT_FAMILY
from pagedviz.views.theme import Theme


def panel_layout(theme: Theme, height: int) -> dict[str, Any]:
    """For update_layout. Zoom is off: the axes are those of the run."""
    return {
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
    }


def axis(theme: Theme) -> dict[str, Any]:
    """For update_xaxes and update_yaxes."""
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
