"""Draws a Board as HTML, and the small things around it: title, position, ticks, cursor.

Invariants: every text that is not ours (tokens, names) is escaped when it is drawn; what is
colour is also a letter, a pattern or a word; sizes depend on the run, not on the moment.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from html import escape
from pathlib import Path
from typing import NamedTuple

from pagedviz.engine.state_hash import format_state_hash, state_hash_hex
from pagedviz.ui.marks import decorate
from pagedviz.ui.pool_drawing import draw_pool
from pagedviz.ui.sequence_drawing import draw_queues, draw_sequence
from pagedviz.views.board import Board
from pagedviz.views.charts import MARGIN_BOTTOM, MARGIN_LEFT, MARGIN_RIGHT, MARGIN_TOP
from pagedviz.views.pool_map import SLOTS_UP_TO
from pagedviz.views.theme import Theme
from pagedviz.views.ticks import Tick

# More tokens than this are marked as "now" by a line, not each by a frame.
_MANY_NOW = 12
# Pages of so many slots get a line each: their tokens begin at one place.
_LONG_FROM = 12
# With more sequences than this in a run their cards are drawn closer, then closer still.
_WIDE_UP_TO = 3
_CLOSE_UP_TO = 6


class Lanes(NamedTuple):
    """How many sequences need room: at most `live` unfinished ones at once in the whole run, and
    the `ended` others of it with a line each, so that no card changes its size while one steps."""

    live: int
    ended: int


@cache
def stylesheet(theme: Theme) -> str:
    """The `<style>` element of a theme."""
    names = ("background", "surface", "text", "quiet", "line", "empty", "strong", "middle")
    values = [f"--{name}:{getattr(theme, name)};" for name in (*names, "accent")]
    hues = [
        f".h{number}{{--fill:{hue.fill};--ink:{hue.ink};--on-ink:{hue.on_ink}}}"
        for number, hue in enumerate(theme.hues)
    ]
    rules = "\n".join(
        Path(__file__).with_name(name).read_text(encoding="utf-8")
        for name in ("board.css", "panels.css")
    )
    return f"<style>:root{{{''.join(values)}}}{''.join(hues)}\n{rules}</style>"


@cache
def link_rules(num_pages: int) -> str:
    """A `<style>` element: pointing at a page lights it up wherever it is drawn."""
    rules = "".join(
        f".board:has(.k{page_id}:hover) .k{page_id}{{box-shadow:0 0 0 2px var(--text)}}"
        for page_id in range(min(num_pages, SLOTS_UP_TO))
    )
    return f"<style>{rules}</style>"


def draw_board(board: Board, theme: Theme, lanes: Lanes) -> str:
    """One HTML block."""
    step, event = board.moment
    num_hues = len(theme.hues)
    room = "wide" if lanes.live <= _WIDE_UP_TO else "close"
    room = "dense" if lanes.live > _CLOSE_UP_TO else room
    room = "alone" if lanes.live + lanes.ended <= 1 else room
    room += " long" if board.pool.block_size >= _LONG_FROM else ""
    rows = "".join(draw_sequence(row, num_hues) for row in board.sequences)
    many = " many" if _num_now(board) > _MANY_NOW else ""
    empty = '<p class="none">No request has arrived yet: step on</p>'
    return (
        f'<div class="board{many}" data-testid="board" data-step="{step}"'
        f' data-event="{"end" if event is None else event}"'
        f' data-state-hash="{state_hash_hex(board.state_hash)}">'
        f'<p class="sentence" data-testid="sentence" aria-live="polite">'
        f"<span>{decorate(board.sentence, board.places, num_hues)}</span></p>"
        '<div class="halves">'
        f'<section class="sequences {room}" style="--lanes:{lanes.live};--ended:{lanes.ended}"'
        ' aria-label="Sequences">'
        f"<h2>Sequences{draw_queues(board.queues, num_hues)}</h2>"
        f'<div class="rows">{rows or empty}</div></section>'
        f'<section class="pool" aria-label="Page pool">{draw_pool(board, num_hues)}</section>'
        "</div></div>"
    )


def _num_now(board: Board) -> int:
    return sum(
        token.is_now for row in board.sequences for group in row.groups for token in group.tokens
    )


def draw_title(title: str, is_changed: bool) -> str:
    changed = '<span class="chip">changed</span>' if is_changed else ""
    return f'<div class="title"><b>{escape(title)}</b> {changed}</div>'


def draw_ticks(marks: Iterable[tuple[float, Tick]]) -> str:
    """Marks above the slider at shares of its length; the title says the kind."""
    drawn = "".join(
        f'<i class="{mark.kind}" style="left:{100 * share:.3f}%"'
        f' title="step {mark.moment.step}: {mark.kind}"></i>'
        for share, mark in marks
    )
    return f'<div class="ticks" aria-hidden="true">{drawn}</div>'


def draw_cursor(share: float, height: int) -> str:
    """The line for "now" over a chart below it, and a veil over what is still to come."""
    inner = f"calc((100% - {MARGIN_LEFT + MARGIN_RIGHT}px) * {share:.5f} + {MARGIN_LEFT}px)"
    top, bottom = MARGIN_TOP, MARGIN_BOTTOM
    return (
        f'<div class="cursor" style="--at:{inner};--high:{height - top - bottom}px;'
        f'--top:{top}px;--right:{MARGIN_RIGHT}px"><i class="veil"></i><i class="line"></i></div>'
    )


def draw_position(board: Board) -> str:
    """Where the cursor stands, and the hash that a room can compare."""
    step, event = board.moment
    events = f"event <b>{event}</b> of {board.num_events}"
    if event is None:
        events = f"end, {board.num_events} events"
    return (
        '<div class="position">'
        f"step <b>{step}</b> of {board.num_steps - 1} · {events}"
        '<span class="chip" title="State hash: the same on every screen that shows this moment">'
        f"state {format_state_hash(board.state_hash)}</span></div>"
    )
