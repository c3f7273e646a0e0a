"""Draws the pool map of a Board: a cell for each physical page.

Invariant: a page keeps its place, and a cell its size, for the whole run.
"""

from __future__ import annotations

from html import escape

from pagedviz.ui.marks import now
from pagedviz.views.board import Board, Queues
from pagedviz.views.pool_map import MAX_SLOTS_DRAWN, PageCell, PoolMap
from pagedviz.views.theme import letter

_MAX_OWNERS = 3
# A cell of a large pool has room for two characters.
_MAX_OWNERS_IN_A_CROWD = 1
# With so few rows of pages they may be drawn large.
_ROOMY_UP_TO = 4
# So many columns leave little room for a page's name.
_TIGHT_FROM = 10


def draw_pool(board: Board, num_hues: int) -> str:
    """The map with its heading, the free queue and a legend."""
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
        f'<p class="next">{_free_queue(board.queues)}</p>'
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
        return "Free queue: empty, the next page needed costs a preemption"
    pages = " ".join(
        f'<span class="{"cached" if is_cached else "free"}">{label}</span>'
        for _, label, is_cached in queues.free_pages
    )
    more = " \u2026" if queues.num_free > len(queues.free_pages) else ""
    # The count is in front: the end of the line may be cut off. Cached pages wait here too.
    return f"Free queue of {queues.num_free}, next first: {pages}{more}"


def _page(cell: PageCell, pool: PoolMap, num_hues: int) -> str:
    hue = f" h{cell.owners[0] % num_hues}" if cell.owners else ""
    classes = f"page k{cell.page_id} {cell.state}{hue}{now(cell.is_now)}"
    words = _page_words(cell, pool)
    start = f'<div role="listitem" class="{classes}" title="{words}" aria-label="{words}"'
    if pool.detail == "state":
        return f"{start}></div>"
    owners = _letters(cell, _MAX_OWNERS if pool.detail == "slots" else _MAX_OWNERS_IN_A_CROWD)
    shared = f'<b class="refs">\u00d7{cell.ref_count}</b>' if cell.ref_count > 1 else ""
    return (
        f'{start}><span class="names"><span class="label">{cell.label}</span>'
        f'<b class="owners">{owners}</b></span>{shared}{_slots(cell, pool)}</div>'
    )


def _letters(cell: PageCell, most: int) -> str:
    """All up to `most`, else the first and "+"."""
    if len(cell.owners) <= most:
        return "".join(letter(place) for place in cell.owners)
    return "".join(letter(place) for place in cell.owners[: max(most - 1, 1)]) + "+"


def _slots(cell: PageCell, pool: PoolMap) -> str:
    if pool.detail == "fill" or pool.block_size > MAX_SLOTS_DRAWN:
        share = 100 * cell.fill / pool.block_size
        return f'<span class="meter"><i style="width:{share:.1f}%"></i></span>'
    slots = "".join(
        f'<i class="{"f" if offset < cell.fill else "e"}{now(offset in cell.now)}"></i>'
        for offset in range(pool.block_size)
    )
    return f'<span class="slots">{slots}</span>'


def _page_words(cell: PageCell, pool: PoolMap) -> str:
    held = f" by {', '.join(letter(place) for place in cell.owners)}" if cell.owners else ""
    content = f": {cell.content}" if cell.content else ""
    return escape(
        f"{cell.label}, {cell.state}{held}, {cell.fill} of {pool.block_size} slots filled{content}"
    )
