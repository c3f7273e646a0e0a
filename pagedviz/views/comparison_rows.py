"""The tables of a comparison: the sequences of both runs in one step, and the totals.

Invariants: both sides have the same rows in the same order, whoever has arrived in one run only has
an empty row in the other; a cell differs exactly when its text is not that of its counterpart.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from pagedviz.engine.snapshot import SequenceView, Snapshot
from pagedviz.trace.costs import hit_rate, preemption_cost
from pagedviz.trace.queries import occupancy
from pagedviz.trace.run_facts import run_facts
from pagedviz.trace.trace import Trace
from pagedviz.views.theme import places

COLUMNS = ("state", "computed", "pages", "hits")


class Cell(NamedTuple):
    text: str
    differs: bool


class Row(NamedTuple):
    """place: number of the sequence in its run, for letter and hue; None while it has not arrived.
    cells: in the order of COLUMNS."""

    place: int | None
    name: str
    cells: tuple[Cell, ...]


def side_rows(left: Snapshot, right: Snapshot) -> tuple[tuple[Row, ...], tuple[Row, ...]]:
    """The left and the right side."""
    by_name = [{view.name: view for view in side.sequences} for side in (left, right)]
    place_of = [places(side) for side in (left, right)]
    sides: tuple[list[Row], list[Row]] = ([], [])
    for name in dict.fromkeys((*by_name[0], *by_name[1])):
        views = [views.get(name) for views in by_name]
        texts = [_texts(view) for view in views]
        for side in (0, 1):
            view = views[side]
            cells = tuple(
                Cell(mine, mine != other)
                for mine, other in zip(texts[side], texts[1 - side], strict=True)
            )
            place = None if view is None else place_of[side][view.seq_id]
            sides[side].append(Row(place, name, cells))
    return tuple(sides[0]), tuple(sides[1])


def _texts(view: SequenceView | None) -> tuple[str, ...]:
    if view is None:
        return ("not arrived", "0", "0", "0")
    numbers = view.num_computed, len(view.page_ids), view.num_cached
    return (view.state, *map(str, numbers))


class Total(NamedTuple):
    """difference: of the right run to the left one, signed; "same" if there is none."""

    name: str
    left: str
    right: str
    difference: str


def totals(left: Trace, right: Trace) -> tuple[Total, ...]:
    """Of the two whole runs."""
    return tuple(
        Total(name, _text(a, unit), _text(b, unit), _difference(a, b, unit))
        for (name, a, unit), (_, b, _) in zip(_amounts(left), _amounts(right), strict=True)
    )


def _amounts(trace: Trace) -> Sequence[tuple[str, float | None, str]]:
    """Name, number and unit."""
    facts, held, cost = run_facts(trace), occupancy(trace), preemption_cost(trace)
    peak = int(held.active.max(initial=0))
    waste = float(held.waste.mean()) if trace.num_steps else 0.0
    rate = hit_rate(trace).rate
    return (
        ("steps", trace.num_steps, ""),
        ("tokens computed", sum(sum(d.scheduled.values()) for d in facts.decisions), ""),
        ("prompt tokens found in the prefix cache", None if rate is None else 100 * rate, " %"),
        ("preemptions", cost.num_preemptions, ""),
        ("tokens computed again after preemptions", cost.num_recomputed, ""),
        ("most active pages at once", peak, ""),
        ("the same in slots", peak * trace.header.block_size, " slots"),
        ("most host pages at once", int(held.host.max(initial=0)), ""),
        ("empty slots of active pages, mean of all steps", waste, " slots"),
    )


def _text(value: float | None, unit: str) -> str:
    return "nothing looked up" if value is None else f"{_number(value)}{unit}"


def _difference(left: float | None, right: float | None, unit: str) -> str:
    if left is None or right is None:
        return "same" if left == right else "\u2014"
    # What is shown has to add up.
    change = round(right, 1) - round(left, 1)
    if round(change, 1) == 0:
        return "same"
    unit = " points" if unit == " %" else unit
    sign = "+" if change > 0 else "\u2212"
    return f"{sign}{_number(abs(change))}{unit}"


def _number(value: float) -> str:
    return f"{value:,}" if isinstance(value, int) else f"{value:,.1f}"
