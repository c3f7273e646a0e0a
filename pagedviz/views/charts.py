"""Charts of a whole run: states of the sequences and occupancy of the pool, over steps.

Invariants: a figure depends on the run and the theme, never on the moment looked at, so it need not
be drawn again when the cursor moves; axes are fixed; the cursor is a line at `cursor_share` of the
plot's width, between `MARGIN_LEFT` and `MARGIN_RIGHT`, drawn by whoever shows the figure.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import plotly.graph_objects as go

from pagedviz.trace.queries import HostPoolSize, Occupancy, Phase, host_pool, occupancy, phases
from pagedviz.trace.trace import Moment, Trace
from pagedviz.views.pool_map import PoolMap
from pagedviz.views.theme import Theme, letter
from pagedviz.views.words import count

MARGIN_LEFT, MARGIN_RIGHT, MARGIN_TOP, MARGIN_BOTTOM = 34, 8, 6, 22
FONT_FAMILY = "Source Sans, Source Sans Pro, system-ui, sans-serif"


class _Lane(NamedTuple):
    is_grey: bool
    pattern: str


# So that a state can be told without colour. Finished sequences have no lane any more.
_LANES = {
    "waiting": _Lane(True, ""),
    "prefilling": _Lane(False, "/"),
    "decoding": _Lane(False, ""),
    "preempted": _Lane(False, "x"),
}
_LANE_WIDTH = 0.65
_HOST_BAND = 0.16
LANE_KEY = "grey: waiting · hatched: prefill · solid: decode · crossed: preempted"


def cursor_share(moment: Moment, trace: Trace) -> float:
    """How much of the run lies before a moment, 0 to 1: event e of n is at e/n of its step."""
    num_events = trace.num_events(moment.step)
    inside = 1.0 if moment.event is None or not num_events else moment.event / num_events
    return (moment.step + inside) / trace.num_steps


def state_chart(trace: Trace, theme: Theme, height: int) -> go.Figure:
    """A lane per sequence: what it did in each step."""
    lanes = phases(trace)
    figure = go.Figure()
    # One trace for all phases of a state and colour: one each would take longer to build than all
    # the rest of a rerun. One for all colours would lose the patterns.
    bars: dict[tuple[str, str], list[tuple[int, int, Phase]]] = {}
    for number, seq_id in enumerate(lanes):
        for phase in lanes[seq_id]:
            if phase.state in _LANES:
                is_grey = _LANES[phase.state].is_grey
                color = theme.middle if is_grey else theme.hue(number).fill
                bars.setdefault((phase.state, color), []).append((number, seq_id, phase))
    for (state, color), shown in bars.items():
        pattern = _LANES[state].pattern
        figure.add_bar(
            orientation="h",
            # Left to itself, Plotly makes bars as wide as the lanes of a trace are apart.
            width=_LANE_WIDTH,
            y=[number for number, _, _ in shown],
            base=[phase.first_step for _, _, phase in shown],
            x=[phase.last_step - phase.first_step + 1 for _, _, phase in shown],
            marker={
                "color": theme.background if pattern else color,
                "line": {"color": color, "width": 1},
                "pattern": {
                    "shape": pattern,
                    "fgcolor": color,
                    "bgcolor": theme.background,
                    "size": 6,
                    "solidity": 0.4,
                },
            },
            name=state,
            hovertext=[_phase_words(number, seq_id, phase) for number, seq_id, phase in shown],
            hovertemplate="%{hovertext}<extra></extra>",
        )
    # A lone sequence gets a lane, not the whole height.
    num_lanes = max(len(lanes), 4)
    figure.update_layout(_layout(trace, theme, height))
    figure.update_layout(barmode="overlay")
    figure.update_yaxes(
        range=[num_lanes - 0.5, -0.5],
        tickvals=list(range(len(lanes))),
        ticks="outside",
        ticklen=5,
        tickcolor="rgba(0,0,0,0)",
        ticktext=[
            f"<b style='color:{theme.hue(number).ink}'>{letter(number)}</b>"
            for number in range(len(lanes))
        ],
    )
    return figure


def _phase_words(number: int, seq_id: int, phase: Phase) -> str:
    steps = f"step {phase.first_step}"
    if phase.last_step > phase.first_step:
        steps = f"steps {phase.first_step} to {phase.last_step}"
    return f"{letter(number)} seq:{seq_id:d} {phase.state}, {steps}"


def occupancy_chart(trace: Trace, theme: Theme, height: int) -> go.Figure:
    """Active, cached and free pages after each step, stacked; of the active ones the waste; as a
    line, the pages that an allocator of one contiguous piece a sequence would hold; and, in a band
    of its own below, the host pages in use, if the run has a host pool."""
    data = occupancy(trace)
    size, num_pages = trace.header.block_size, trace.header.num_pages
    steps = list(range(trace.num_steps + 1))
    # Each value holds from its step to the next: the last is drawn twice, to close the last step.
    waste = data.waste / size  # [num_steps], in pages
    areas = (
        ("used slots", data.active - waste, theme.strong, ""),
        ("empty slots", waste, theme.strong, "/"),
        ("cached", data.cached, theme.middle, "."),
        ("free", data.free, theme.faint, ""),
    )
    figure = go.Figure()
    for name, values, color, pattern in areas:
        figure.add_scatter(
            x=steps,
            y=[*values, *values[-1:]],
            name=name,
            mode="lines",
            stackgroup="pages",
            line={"width": 0, "shape": "hv"},
            fillcolor=color,
            fillpattern={
                "shape": pattern,
                "fgcolor": theme.background,
                "bgcolor": color,
                "size": 5,
                "solidity": 0.35,
            },
            hovertemplate=f"%{{y:.3~g}} {name}<extra></extra>",
        )
    figure.add_scatter(
        x=steps,
        y=[*data.contiguous, *data.contiguous[-1:]],
        name="contiguous",
        mode="lines",
        line={"color": theme.text, "width": 1.5, "dash": "dot", "shape": "hv"},
        hovertemplate="%{y} a contiguous allocator would hold<extra></extra>",
    )
    figure.update_layout(_layout(trace, theme, height))
    top = max(num_pages, int(data.contiguous.max(initial=0)))
    figure.update_layout(hovermode="x unified")
    figure.update_yaxes(range=[0, top * 1.02], tickvals=_ticks(num_pages, top), ticks="")
    host = host_pool(trace)
    if host is not None:
        _add_host(figure, data, host.num_pages, steps, theme)
    return figure


def _add_host(
    figure: go.Figure, data: Occupancy, num_pages: int | None, steps: list[int], theme: Theme
) -> None:
    top = int(data.host.max(initial=1)) if num_pages is None else num_pages
    figure.add_scatter(
        x=steps,
        y=[*data.host, *data.host[-1:]],
        name="host",
        yaxis="y2",
        mode="lines",
        line={"color": theme.text, "width": 1, "shape": "hv"},
        fill="tozeroy",
        fillcolor=theme.middle,
        hovertemplate="%{y} on the host<extra></extra>",
    )
    figure.update_layout(
        yaxis={"domain": [_HOST_BAND + 0.06, 1]},
        yaxis2={
            **figure.layout.yaxis.to_plotly_json(),
            "domain": [0, _HOST_BAND],
            "anchor": "x",
            "range": [0, top * 1.05],
            "tickvals": [top / 2],
            "ticktext": ["host"],
        },
        xaxis={"anchor": "y2"},
    )
    ground = {"fillcolor": theme.faint, "line": {"width": 0}, "layer": "below"}
    figure.add_shape(x0=0, x1=steps[-1], y0=0, y1=top, xref="x", yref="y2", **ground)


def occupancy_words(trace: Trace, moment: Moment, pool: PoolMap) -> str:
    """The numbers of a moment, `pool`, in words; `contiguous` is of the end of its step."""
    reserved = int(occupancy(trace).contiguous[moment.step])
    words = (
        f"{pool.num_active} active ({count(pool.empty_slots, 'empty slot')}), "
        f"{pool.num_cached} cached, {pool.num_free} free \u00b7 contiguous: {reserved}"
    )
    host = host_pool(trace)
    return words if host is None else f"{words} \u00b7 {host_words(trace, moment, host)}"


def host_words(trace: Trace, moment: Moment, host: HostPoolSize) -> str:
    """`host: 11 of 64 pages`"""
    held = sum(len(view.host_page_ids) for view in trace.at(*moment).sequences)
    if host.num_pages is None:
        return f"host: {count(held, 'page')}"
    return f"host: {held} of {count(host.num_pages, 'page')}"


def _ticks(num_pages: int, top: int) -> list[int]:
    return [0, num_pages] if top <= num_pages * 1.2 else [0, num_pages, top]


def _layout(trace: Trace, theme: Theme, height: int) -> dict[str, Any]:
    axis = {
        "fixedrange": True,
        "showgrid": False,
        "zeroline": False,
        "automargin": False,
        "tickfont": {"size": 12, "color": theme.quiet},
    }
    return {
        "template": "none",
        "height": height,
        "margin": {
            "l": MARGIN_LEFT,
            "r": MARGIN_RIGHT,
            "t": MARGIN_TOP,
            "b": MARGIN_BOTTOM,
            "pad": 0,
        },
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
        "xaxis": {
            **axis,
            "range": [0, max(trace.num_steps, 1)],
            "tickvals": _step_ticks(trace.num_steps),
            "ticks": "outside",
            "ticklen": 3,
            "tickcolor": theme.line,
        },
        "yaxis": axis,
    }


def _step_ticks(num_steps: int) -> list[int]:
    """A handful of round steps."""
    spacing = 1
    for candidate in (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000):
        spacing = candidate
        if num_steps / candidate <= 8:
            break
    return list(range(0, num_steps + 1, spacing))
