"""Draws a Board as HTML: sentence, sequences, pool map, queues.

Invariants: every text that is not ours (tokens, names) is escaped here and nowhere else; what is
colour is also a letter, a pattern or a word; sizes depend on the run, not on the moment.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cache
from html import escape
from pathlib import Path
from typing import NamedTuple

from pagedviz.engine.state_hash import format_state_hash, state_hash_hex
from pagedviz.views.board import Board, Queues
from pagedviz.views.charts import MARGIN_BOTTOM, MARGIN_LEFT, MARGIN_RIGHT, MARGIN_TOP
from pagedviz.views.pool_map import MAX_SLOTS_DRAWN, SLOTS_UP_TO, PageCell, PoolMap
from pagedviz.views.sequence_view import PageGroup, SequenceRow, TokenCell
from pagedviz.views.theme import Theme, letter
from pagedviz.views.ticks import Tick

_NAMES = re.compile(r"\bseq:(\d+)|\bp\d+(?:\.\d+)?\b")
_MAX_OWNERS = 3
# More tokens than this are marked as "now" by a line, not each by a frame.
_MANY_NOW = 12
# Pages of so many slots get a line each: their tokens begin at one place.
_LONG_FROM = 12
# With so few rows of pages they may be drawn large.
_ROOMY_UP_TO = 4
# So many columns leave little room for a page's name.
_TIGHT_FROM = 10
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
    rules = Path(__file__).with_name("board.css").read_text(encoding="utf-8")
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
    rows = "".join(_sequence(row, num_hues) for row in board.sequences)
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
        f"<h2>Sequences{_queues(board.queues, num_hues)}</h2>"
        f'<div class="rows">{rows or empty}</div></section>'
        f'<section class="pool" aria-label="Page pool">{_pool(board, num_hues)}</section>'
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


def decorate(text: str, places: dict[int, int], num_hues: int) -> str:
    """A sentence with sequences in their colour, their letter in front, and pages in bold."""

    def mark(found: re.Match[str]) -> str:
        if found[1] is None:
            return f"<b>{found[0]}</b>"
        place = places.get(int(found[1]))
        if place is None:
            return f"<b>{found[0]}</b>"
        return f'<b class="who h{place % num_hues}">{letter(place)} {found[0]}</b>'

    # Quoted token texts are left alone: a prompt may talk about seq:1 too.
    parts = re.split("(\u201c[^\u201d]*\u201d)", text)
    return "".join(
        f"<q>{escape(part[1:-1])}</q>"
        if part.startswith("\u201c")
        else _NAMES.sub(mark, escape(part))
        for part in parts
    )


# ---- sequences ---------------------------------------------------------------------------------


def _sequence(row: SequenceRow, num_hues: int) -> str:
    named = (
        "" if row.name == f"seq:{row.seq_id:d}" else f'<span class="name">{escape(row.name)}</span>'
    )
    is_live = row.state in ("prefilling", "decoding")
    shown, num_more = _shown_groups(row)
    groups = "".join(_group(group) for group in shown)
    if num_more:
        groups += f'<span class="more">and {num_more} more tokens</span>'
    return (
        f'<article class="seq h{row.place % num_hues} {row.state}{_now(row.is_now)}"'
        f' data-seq="{row.seq_id:d}">'
        f'<header><b class="badge">{letter(row.place)}</b><b>seq:{row.seq_id:d}</b>{named}'
        f'<span class="chip{" strong" if is_live else ""}">{escape(row.chip)}</span>'
        f'<span class="note">{escape(row.note)}</span></header>'
        f'<div class="text"><div class="groups">{groups}</div></div></article>'
    )


def _shown_groups(row: SequenceRow) -> tuple[tuple[PageGroup, ...], int]:
    """The groups to draw, and how many tokens are left out: of what is still to be computed only
    the next page's worth, or the front would be pushed out of sight."""
    is_started = row.state in ("prefilling", "decoding")
    num_held = sum(group.label is not None for group in row.groups)
    if not is_started or len(row.groups) <= num_held + 1:
        return row.groups, 0
    shown = row.groups[: num_held + 1]
    return shown, sum(len(group.tokens) for group in row.groups[num_held + 1 :])


def _group(group: PageGroup) -> str:
    tokens = "".join(_token(token) for token in group.tokens)
    if group.label is None:
        return f'<span class="group todo"><span class="tokens">{tokens}</span></span>'
    shared = f" \u00d7{group.ref_count}" if group.ref_count > 1 else ""
    kind = f" k{group.page_id}{' hit' if group.is_hit else ''}{_now(group.is_now)}"
    where = "from the prefix cache" if group.is_hit else "computed by this sequence"
    return (
        f'<span class="group{kind}" title="page {group.logical_index} is {group.label}, {where}">'
        f'<span class="tokens">{tokens}</span>'
        f'<span class="at">{group.logical_index} \u2192 {group.label}{shared}</span></span>'
    )


def _token(token: TokenCell) -> str:
    kind = "t" if token.is_computed else "t todo"
    kind += " new" if token.is_generated else ""
    return (
        f'<span class="{kind}{_now(token.is_now)}" title="token {token.position}">'
        f"{escape(token.text)}</span>"
    )


def _queues(queues: Queues, num_hues: int) -> str:
    return (
        f'<span class="queue">running {_badges(queues.running, num_hues)}</span>'
        f'<span class="queue">waiting {_badges(queues.waiting, num_hues)}</span>'
        f"{_budget(queues, num_hues)}"
    )


def _badges(places: Iterable[int], num_hues: int) -> str:
    badges = [f'<b class="badge h{place % num_hues}">{letter(place)}</b>' for place in places]
    return "".join(badges) or "none"


def _budget(queues: Queues, num_hues: int) -> str:
    used = sum(num_tokens for _, num_tokens in queues.budget)
    if queues.budget_total is None:
        return f'<span class="queue">{used} tokens in this step</span>'
    parts = "".join(
        f'<i class="h{place % num_hues}" style="width:{100 * tokens / queues.budget_total:.2f}%"'
        f' title="{letter(place)}: {tokens} tokens"></i>'
        for place, tokens in queues.budget
    )
    return (
        f'<span class="queue budget">budget <span class="bar">{parts}</span>'
        f"<span>{used} of {queues.budget_total} tokens</span></span>"
    )


# ---- pool --------------------------------------------------------------------------------------


def _pool(board: Board, num_hues: int) -> str:
    pool = board.pool
    cells = "".join(_page(cell, pool, num_hues) for cell in pool.cells)
    rows = -(-len(pool.cells) // pool.columns)
    room = " roomy" if rows <= _ROOMY_UP_TO else ""
    room = " tight" if pool.columns >= _TIGHT_FROM else room
    slots_across = min(pool.block_size, 8) if pool.block_size <= 16 else 16
    return (
        f"<h2>Page pool · {len(pool.cells)} pages of {pool.block_size} slots ·"
        f" {pool.num_active} active, {pool.num_cached} cached, {pool.num_free} free</h2>"
        f'<div class="pages by-{pool.detail}{room}" role="list"'
        f' style="--columns:{pool.columns};--rows:{rows};--across:{slots_across}">{cells}</div>'
        f'<p class="next">Free queue, next first: {_free_queue(board.queues)}</p>'
        f'<p class="legend">{_LEGEND}</p>'
    )


_LEGEND = (
    '<span><i class="key slot"></i> filled slot</span>'
    '<span><i class="key cached"></i> cached: unowned, findable</span>'
    '<span><b class="refs">\u00d72</b> shared by 2</span>'
    '<span><i class="key now"></i> changed now</span>'
    "<span>p7.2 = page 7, second use</span>"
)


def _free_queue(queues: Queues) -> str:
    if not queues.free_pages:
        return "empty, the next page needed costs a preemption"
    pages = " ".join(
        f'<span class="{"cached" if is_cached else "free"}">{label}</span>'
        for _, label, is_cached in queues.free_pages
    )
    rest = queues.num_free - len(queues.free_pages)
    return f"{pages}{f' and {rest} more' if rest else ''}"


def _page(cell: PageCell, pool: PoolMap, num_hues: int) -> str:
    hue = f" h{cell.owners[0] % num_hues}" if cell.owners else ""
    classes = f"page k{cell.page_id} {cell.state}{hue}{_now(cell.is_now)}"
    words = _page_words(cell, pool)
    start = f'<div role="listitem" class="{classes}" title="{words}" aria-label="{words}"'
    if pool.detail == "state":
        return f"{start}></div>"
    is_crowd = len(cell.owners) > _MAX_OWNERS
    shown = cell.owners[: _MAX_OWNERS - 1] if is_crowd else cell.owners
    owners = "".join(letter(place) for place in shown) + ("+" if is_crowd else "")
    shared = f'<b class="refs">\u00d7{cell.ref_count}</b>' if cell.ref_count > 1 else ""
    return (
        f'{start}><span class="label">{cell.label}</span><b class="owners">{owners}</b>{shared}'
        f"{_slots(cell, pool)}</div>"
    )


def _slots(cell: PageCell, pool: PoolMap) -> str:
    if pool.detail == "fill" or pool.block_size > MAX_SLOTS_DRAWN:
        share = 100 * cell.fill / pool.block_size
        return f'<span class="meter"><i style="width:{share:.1f}%"></i></span>'
    slots = "".join(
        f'<i class="{"f" if offset < cell.fill else "e"}{_now(offset in cell.now)}"></i>'
        for offset in range(pool.block_size)
    )
    return f'<span class="slots">{slots}</span>'


def _page_words(cell: PageCell, pool: PoolMap) -> str:
    held = f" by {', '.join(letter(place) for place in cell.owners)}" if cell.owners else ""
    content = f": {cell.content}" if cell.content else ""
    return escape(
        f"{cell.label}, {cell.state}{held}, {cell.fill} of {pool.block_size} slots filled{content}"
    )


def _now(is_now: bool) -> str:
    return " now" if is_now else ""
