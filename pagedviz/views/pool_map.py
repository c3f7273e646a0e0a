"""The pool map as data: one cell for each physical page, always at the same place.

Invariants: cells are in order of page id; how much a cell shows depends on the size of the pool
alone, so nothing changes its kind during a run.
"""

from __future__ import annotations

from typing import NamedTuple

from pagedviz.engine.snapshot import Snapshot
from pagedviz.views.focus import NOTHING, Focus
from pagedviz.views.theme import places
from pagedviz.views.words import TokenText, excerpt

# Up to so many pages a cell shows its slots, then its fill, beyond that its state only.
SLOTS_UP_TO = 144
FILL_UP_TO = 576
MAX_SLOTS_DRAWN = 32


class PageCell(NamedTuple):
    """owners: numbers of the sequences that hold the page, in order of submission.
    now: offsets of the slots written just now. is_now: the page changed just now.
    content: the start of a findable page's text, in quotes."""

    page_id: int
    label: str
    state: str
    fill: int
    owners: tuple[int, ...]
    ref_count: int
    now: frozenset[int]
    is_now: bool
    content: str | None


class PoolMap(NamedTuple):
    """detail: `slots`, `fill` or `state`. empty_slots: unwritten slots of active pages."""

    cells: tuple[PageCell, ...]
    columns: int
    block_size: int
    detail: str
    num_active: int
    num_cached: int
    num_free: int
    empty_slots: int


def pool_map(snapshot: Snapshot, token_text: TokenText, now: Focus = NOTHING) -> PoolMap:
    """Every page of the pool at one moment."""
    owners: dict[int, list[int]] = {}
    place_of = places(snapshot)
    for view in snapshot.sequences:
        for page_id in view.page_ids:
            owners.setdefault(page_id, []).append(place_of[view.seq_id])
    written: dict[int, set[int]] = {}
    for page_id, offset in now.slots:
        written.setdefault(page_id, set()).add(offset)
    cells = tuple(
        PageCell(
            page_id=page.page_id,
            label=page.label,
            state=page.state,
            fill=page.fill,
            owners=tuple(owners.get(page.page_id, ())),
            ref_count=page.ref_count,
            now=frozenset(written.get(page.page_id, ())),
            is_now=page.page_id in now.page_ids,
            content=excerpt(page.token_ids, token_text, limit=60),
        )
        for page in snapshot.pages
    )
    num_pages = len(cells)
    num_active = sum(cell.state == "active" for cell in cells)
    num_cached = sum(cell.state == "cached" for cell in cells)
    return PoolMap(
        cells=cells,
        columns=columns_for(num_pages),
        block_size=snapshot.block_size,
        detail=detail_for(num_pages),
        num_active=num_active,
        num_cached=num_cached,
        num_free=num_pages - num_active - num_cached,
        empty_slots=sum(
            snapshot.block_size - cell.fill for cell in cells if cell.state == "active"
        ),
    )


def detail_for(num_pages: int) -> str:
    if num_pages <= SLOTS_UP_TO:
        return "slots"
    return "fill" if num_pages <= FILL_UP_TO else "state"


def columns_for(num_pages: int) -> int:
    """As many as make the map about as high as the room it has."""
    for limit, columns in (
        (16, 4),
        (36, 6),
        (64, 8),
        (100, 10),
        (144, 12),
        (256, 16),
        (576, 24),
        (1024, 32),
    ):
        if num_pages <= limit:
            return columns
    return 64
