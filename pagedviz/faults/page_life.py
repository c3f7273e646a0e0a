"""The life of one page in a run: every event that touched it, from its first use on.

Invariant: read off the events as they were emitted; of a faulty engine they need not fit together.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from pagedviz.engine.events import (
    Event,
    PageAllocated,
    PageCopied,
    PageReleased,
    PageShared,
    PrefixLookedUp,
    SlotsWritten,
    SwappedIn,
)
from pagedviz.faults.play import Play


class PageMoment(NamedTuple):
    """What happened to a page. slots: those that were written, None if the event is no write."""

    step: int
    event: Event
    slots: range | None = None


def page_life(play: Play, page_id: int, last_step: int) -> tuple[PageMoment, ...]:
    """The events up to a step that handed out, shared, hashed, wrote, released, or evicted a page.

    A lookup that found it is one of them.
    """
    return tuple(_moments(play, page_id, last_step))


def _moments(play: Play, page_id: int, last_step: int) -> Iterator[PageMoment]:
    size = play.workload.config.block_size
    tables: dict[int | None, list[int]] = {}
    for step in play.steps[: last_step + 1]:
        for event in step.events:
            table = tables.setdefault(getattr(event, "seq_id", None), [])
            if isinstance(event, SlotsWritten | SwappedIn):
                if page_id in table:
                    first = table.index(page_id) * size
                    start = max(event.start - first, 0)
                    stop = min(event.start + event.num_tokens - first, size)
                    if start < stop:
                        yield PageMoment(step.number, event, range(start, stop))
                continue
            _follow(table, event)
            is_found = isinstance(event, PrefixLookedUp) and page_id in event.page_ids
            if is_found or page_id in (
                getattr(event, "page_id", None),
                getattr(event, "source_id", None),
            ):
                yield PageMoment(step.number, event)


def _follow(table: list[int], event: Event) -> None:
    match event:
        case PageAllocated() | PageShared():
            table.insert(event.logical_index, event.page_id)
        case PageCopied() if event.logical_index < len(table):
            table[event.logical_index] = event.page_id
        case PageReleased() if event.page_id in table:
            table.remove(event.page_id)
        case _:
            pass
