"""What the event (or the step) just past has touched: the things to mark as "now".

Invariant: addresses are read off the page tables as they stood at each event, so that slots of a
sequence that finished in the same step are still found.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from pagedviz.engine.events import (
    Event,
    InvariantViolated,
    PageAllocated,
    PageCopied,
    PageEvicted,
    PageHashed,
    PageReleased,
    PageShared,
    PrefixLookedUp,
    SequenceForked,
    SequencePreempted,
    SequenceScheduled,
    SlotsWritten,
    SwappedIn,
    TokenSampled,
)
from pagedviz.engine.snapshot import Snapshot


class Focus(NamedTuple):
    """slots: (page_id, offset). tokens: (seq_id, position). seq_ids: whom a single event is about;
    of a whole step it would be nearly all of them, which marks nothing."""

    page_ids: frozenset[int]
    slots: frozenset[tuple[int, int]]
    seq_ids: frozenset[int]
    tokens: frozenset[tuple[int, int]]


NOTHING = Focus(frozenset(), frozenset(), frozenset(), frozenset())


def focus(events: Sequence[Event], before: Snapshot) -> Focus:
    """What `events`, which follow one another from the state `before` on, have touched."""
    size = before.block_size
    tables = {view.seq_id: list(view.page_ids) for view in before.sequences}
    lengths = {view.seq_id: view.num_tokens for view in before.sequences}
    page_ids: set[int] = set()
    slots: set[tuple[int, int]] = set()
    seq_ids: set[int] = set()
    tokens: set[tuple[int, int]] = set()
    for event in events:
        match event:
            case PageAllocated() | PageShared():
                tables.setdefault(event.seq_id, []).append(event.page_id)
                page_ids.add(event.page_id)
            case PageCopied():
                tables[event.seq_id][event.logical_index] = event.page_id
                page_ids.update((event.page_id, event.source_id))
            case SequenceForked():
                lengths[event.seq_id] = event.num_tokens
                seq_ids.add(event.parent_id)
            case PageEvicted() | PageHashed():
                page_ids.add(event.page_id)
            case PageReleased():
                tables[event.seq_id].remove(event.page_id)
                page_ids.add(event.page_id)
            case PrefixLookedUp():
                page_ids.update(event.page_ids)
                if event.position is not None:
                    tokens.add((event.seq_id, event.position))
            case SequencePreempted():
                seq_ids.add(event.by)
            case SequenceScheduled():
                tokens.update(_span(event))
            case SlotsWritten() | SwappedIn():
                table = tables[event.seq_id]
                tokens.update(_span(event))
                slots.update(
                    (table[position // size], position % size) for _, position in _span(event)
                )
            case TokenSampled():
                position = lengths.get(event.seq_id, 0)
                tokens.add((event.seq_id, position))
                lengths[event.seq_id] = position + 1
            case InvariantViolated():
                if event.page_id is not None and event.page_id < len(before.pages):
                    page_ids.add(event.page_id)
            case _:
                pass
        if not isinstance(event, PageEvicted) and event.seq_id is not None:
            seq_ids.add(event.seq_id)
    page_ids.update(page_id for page_id, _ in slots)
    if len(events) > 1:
        seq_ids.clear()
    return Focus(frozenset(page_ids), frozenset(slots), frozenset(seq_ids), frozenset(tokens))


def _span(event: SequenceScheduled | SlotsWritten | SwappedIn) -> list[tuple[int, int]]:
    return [
        (event.seq_id, position) for position in range(event.start, event.start + event.num_tokens)
    ]
