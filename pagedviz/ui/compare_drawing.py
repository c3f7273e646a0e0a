"""The parts of the Compare screen that are HTML: time strip, what differs, tables of both sides.

Invariants: every text that is not ours is escaped here; a difference has a mark and a word, never
a colour alone; what differs, and what does not, takes the same room in every step.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape

from pagedviz.engine.snapshot import Snapshot
from pagedviz.trace.queries import host_pool, occupancy
from pagedviz.trace.trace import Trace
from pagedviz.ui.marks import badges, decorate
from pagedviz.ui.pairs import Pair
from pagedviz.views.comparison import KINDS, Comparison
from pagedviz.views.comparison_rows import Cell, Row
from pagedviz.views.words import count

KIND_NAMES = {"decisions": "Decisions", "pages": "Pages", "text": "Texts", "rules": "Rules"}
_MARKS = {"decisions": "\u25c6", "pages": "\u25a6", "text": "\u00b6", "rules": "\u2717"}
_STATE_HELP = "State hash: the same on every screen that shows this moment"
# Narrower marks than these cannot be told apart.
_MOST_MARKS = 400
_HEADS = ("state", "tokens computed", "pages", "cache hits")


def draw_strip(pair: Pair, comparison: Comparison) -> str:
    """Both runs over time, how full their pools are (that of the host too, if one has any), and a
    row of marks for each kind."""
    num_steps = max(1, comparison.num_steps)
    rows = []
    sides = (("Left", pair.left.trace), ("Right", pair.right.trace))
    for side, trace in sides:
        num_pages, note = trace.header.num_pages, f"active pages of {trace.header.num_pages}"
        fill = _fill(occupancy(trace).active, num_pages, num_steps)
        rows.append(_strip_row(f"{side} run", note, fill))
    if any(host_pool(trace) for _, trace in sides):
        rows += [_host_row(f"{side} host", trace, num_steps) for side, trace in sides]
    for kind in KINDS:
        steps = comparison.steps(kind)
        found = f"{len(steps)} of {comparison.num_steps} steps differ" if steps else "no difference"
        label = f"{_MARKS[kind]} {KIND_NAMES[kind]}"
        rows.append(_strip_row(label, found, _marks(steps, num_steps, kind)))
    return (
        '<div class="panel comparestrip" role="img" aria-label="'
        f'{_strip_words(comparison)}">{"".join(rows)}</div>'
    )


def _strip_words(comparison: Comparison) -> str:
    parts = [
        f"{KIND_NAMES[kind].lower()} differ in {len(comparison.steps(kind))}" for kind in KINDS
    ]
    return f"Of {comparison.num_steps} steps {', '.join(parts)}"


def _strip_row(label: str, note: str, track: str) -> str:
    return (
        f'<div class="row"><span class="label">{label}</span><span class="track">{track}</span>'
        f'<span class="note">{note}</span></div>'
    )


def _host_row(label: str, trace: Trace, num_steps: int) -> str:
    pool, held = host_pool(trace), occupancy(trace).host
    if pool is None:
        return _strip_row(label, "no host pool", "")
    size = pool.num_pages or int(held.max(initial=0))
    note = f"host pages of {size}" if pool.num_pages else f"host pages, {size} at most"
    return _strip_row(label, note, _fill(held, max(1, size), num_steps))


def _fill(held: Iterable[int], size: int, num_steps: int) -> str:
    """How much of a pool is in use, step by step, up to the end of the run."""
    active = [int(pages) for pages in held][:num_steps]
    every = -(-num_steps // _MOST_MARKS)
    points = ["0% 100%"]
    for first in range(0, len(active), every):
        part = active[first : first + every]
        high = 100 - 100 * max(part) / size
        for x in (first, first + len(part)):
            points.append(f"{100 * x / num_steps:.2f}% {high:.1f}%")
    points.append(f"{100 * len(active) / num_steps:.2f}% 100%")
    return f'<i class="held" style="clip-path:polygon({",".join(points)})"></i>'


def _marks(steps: Sequence[int], num_steps: int, kind: str) -> str:
    """Steps in a row, or too near to each other to be told apart, are one mark."""
    apart = -(-num_steps // _MOST_MARKS)
    spans: list[list[int]] = []
    for step in steps:
        if spans and step - spans[-1][1] <= apart:
            spans[-1][1] = step
        else:
            spans.append([step, step])
    return "".join(
        f'<i class="mark {kind}" style="left:{100 * first / num_steps:.3f}%;'
        f'width:{100 * (last + 1 - first) / num_steps:.3f}%"></i>'
        for first, last in spans
    )


def draw_differences(
    comparison: Comparison,
    is_complete: bool,
    step: int,
    places: dict[int, int],
    num_hues: int,
) -> str:
    """What differs in the step, a line for each kind. is_complete: as `compare_runs` takes it."""
    found = {difference.kind: difference.sentence for difference in comparison.at(step)}
    lines = []
    for kind in KINDS:
        said, quiet = found.get(kind), ""
        if said is None:
            said = _equal(comparison, kind, is_complete)
            quiet = " quiet"
        mark = "\u2260" if kind in found else "="
        lines.append(
            f'<li class="{kind}{quiet}"><b>{mark} {KIND_NAMES[kind]}</b>'
            f"<span>{decorate(said, places, num_hues)}</span></li>"
        )
    return (
        f'<div class="panel differences" data-testid="differences"><ul>{"".join(lines)}</ul></div>'
    )


def _equal(comparison: Comparison, kind: str, is_complete: bool) -> str:
    if kind == "rules" and not comparison.steps(kind):
        return f"Neither run breaks a rule{'' if is_complete else ' so far'} that the other keeps"
    if kind == "text" and not comparison.steps(kind):
        return f"All texts {'' if is_complete else 'so far '}are equal in both runs"
    return "The same in this step"


def draw_side(
    side: str, words: str, state: str, said: str, rows: Sequence[Row], num_hues: int, held: str
) -> str:
    """Heading, sentence (as HTML) and sequences of one run. state: its hash. held: what its pools
    hold, in words."""
    heading = f"{side} run \u00b7 {escape(words) or 'the same settings'}"
    chip = f'<span class="chip" title="{_STATE_HELP}">state {state}</span>'
    heads = "".join(f'<th scope="col" class="right">{head}</th>' for head in _HEADS[1:])
    body = "".join(_row(row, num_hues) for row in rows)
    return (
        f'<div class="panel compared" data-testid="{side.lower()}-run"><h2>{heading} {chip}</h2>'
        f'<p class="said">{said}</p>'
        f'<div class="tablebox" tabindex="0"><table><thead><tr><th scope="col">sequence</th>'
        f'<th scope="col">{_HEADS[0]}</th>{heads}</tr></thead><tbody>{body}</tbody></table></div>'
        f'<p class="quiet">{held}</p></div>'
    )


def held_words(trace: Trace, snapshot: Snapshot, empty_slots: int) -> str:
    """`3 empty slots in active pages · 11 of 64 host pages in use`"""
    words = f"{count(empty_slots, 'empty slot')} in active pages"
    pool = host_pool(trace)
    if pool is None:
        return words
    num_used = sum(len(view.host_page_ids) for view in snapshot.sequences)
    of = "" if pool.num_pages is None else f" of {pool.num_pages}"
    return f"{words} \u00b7 {num_used}{of} host pages in use"


def _row(row: Row, num_hues: int) -> str:
    badge = "" if row.place is None else badges([row.place], num_hues)
    cells = "".join(_cell(cell, number > 0) for number, cell in enumerate(row.cells))
    return f'<tr><th scope="row">{badge} {escape(row.name)}</th>{cells}</tr>'


def _cell(cell: Cell, is_right: bool) -> str:
    classes = " ".join(["right"] * is_right + ["differs"] * cell.differs)
    mark = '<span title="Differs from the other run">\u2260</span> ' if cell.differs else ""
    return f'<td class="{classes}">{mark}{escape(cell.text)}</td>'
