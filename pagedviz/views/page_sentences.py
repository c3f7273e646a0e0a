"""Sentences for the events of a page: taken, shared, copied, hashed, written, released,
evicted.

Invariants: as in sentences.py.
"""

from __future__ import annotations

from pagedviz.engine.events import (
    PageAllocated,
    PageCopied,
    PageEvicted,
    PageHashed,
    PageReleased,
    PageShared,
    SlotsWritten,
)
from pagedviz.engine.ids import page_label
from pagedviz.engine.snapshot import SequenceView
from pagedviz.views.context import Context
from pagedviz.views.words import count, excerpt, page_name, positions, token


def evicted(event: PageEvicted, context: Context) -> str:
    before, following = context.before, context.following
    page = before.pages[event.page_id]
    text = excerpt(page.token_ids, context.token_text)
    held = f"the cached text {text}" if text else "a cached prefix"
    head = f"the head of the free queue is {page.label}, which still held {held}, so that is"
    if isinstance(following, PageCopied) and following.page_id == event.page_id:
        return (
            f"seq:{following.seq_id:d} needs a page for a copy: {head} evicted and no prompt can "
            "find it any more"
        )
    if isinstance(following, PageAllocated) and following.page_id == event.page_id:
        start = following.logical_index * before.block_size
        return (
            f"seq:{following.seq_id:d} needs a page for token {start}: {head} evicted and no "
            "prompt can find it any more"
        )
    return f"A page is needed: {head} evicted and no prompt can find it any more"


def allocated(event: PageAllocated, context: Context) -> str:
    size = context.before.block_size
    start = event.logical_index * size
    name = page_label(event.page_id, event.generation)
    use = f" (use {event.generation} of that page)" if event.generation > 1 else ""
    why = f"its pages end with token {start - 1}" if start else "it has no page yet"
    return (
        f"seq:{event.seq_id:d} takes {name} from the head of the free queue{use}, as its page "
        f"{event.logical_index} for {positions(start, size)}: {why}"
    )


def copied(event: PageCopied, context: Context) -> str:
    before = context.before
    source = page_name(before, event.source_id)
    name = page_label(event.page_id, event.generation)
    owners = event.source_ref_count
    left = f"{owners} others still hold" if owners > 1 else "1 other still holds"
    return (
        f"seq:{event.seq_id:d} is about to write into {source}, which {left}: the "
        f"{count(event.num_slots, 'slot')} written so far are copied to {name} from the head of "
        f"the free queue, its own page {event.logical_index} from now on"
    )


def shared(event: PageShared, context: Context) -> str:
    before = context.before
    page = before.pages[event.page_id]
    parent_id = before.sequence(event.seq_id).parent_id
    if parent_id is not None and before.sequence(event.seq_id).num_computed:
        return (
            f"seq:{event.seq_id:d} holds {page.label} as its page {event.logical_index} too, as "
            f"seq:{parent_id:d} does, from which it was forked: {event.ref_count} sequences read it"
        )
    start = event.logical_index * before.block_size
    what = positions(start, before.block_size)
    if page.ref_count:
        owners = f"now {event.ref_count} sequences read it"
    else:
        owners = "it leaves the free queue with its content"
    return (
        f"{page.label} holds {what} of this very text already: seq:{event.seq_id:d} takes it as "
        f"its page {event.logical_index} instead of computing it, {owners}"
    )


def hashed(event: PageHashed, context: Context) -> str:
    before = context.before
    num_tokens = (event.logical_index + 1) * before.block_size
    twins = [page.label for page in before.pages if page.page_hash == event.page_hash]
    found = f"; {twins[0]} has the same text and is found first" if twins else ""
    return (
        f"This step fills {page_name(before, event.page_id)}, so it becomes findable under the "
        f"hash {event.page_hash:016x} of the first {num_tokens} tokens of "
        f"seq:{event.seq_id:d}{found}"
    )


def released(event: PageReleased, context: Context) -> str:
    before = context.before
    page = before.pages[event.page_id]
    state = before.sequence(event.seq_id).state
    start = f"seq:{event.seq_id:d} is {state} and lets go of {page.label}"
    if event.ref_count:
        others = "1 other sequence" if event.ref_count == 1 else f"{event.ref_count} others"
        return f"{start}, which {others} still {'holds' if event.ref_count == 1 else 'hold'}"
    if page.page_hash is not None:
        return (
            f"{start}: it stays findable, and waits at the back of the free queue to be evicted as "
            "late as possible"
        )
    where = "the front of the free queue" if before.free_queue else "the free queue, now its only"
    where += "" if before.free_queue else " page"
    return f"{start}: nobody could find its content, so it goes to {where}, to be taken first"


def written(event: SlotsWritten, context: Context) -> str:
    before = context.before
    sequence = before.sequence(event.seq_id)
    end = event.start + event.num_tokens
    where = _slots(sequence, before.block_size, event.start, end)
    if event.num_tokens == 1:
        # Another engine's trace may write a token before it tells which one it is.
        written_ids = sequence.token_ids[event.start : end]
        word = token(written_ids[0] if written_ids else None, context.token_text)
        return f"Keys and values of seq:{event.seq_id:d}'s token {event.start}, {word}, are {where}"
    return (
        f"Keys and values of seq:{event.seq_id:d}'s {positions(event.start, event.num_tokens)} "
        f"are {where}"
    )


def _slots(sequence: SequenceView, size: int, start: int, end: int) -> str:
    """Where positions start .. end - 1 of a sequence lie."""
    first, last = start // size, (end - 1) // size
    labels = [
        page_label(sequence.page_ids[index], sequence.generations[index])
        for index in range(first, last + 1)
    ]
    offset, end_offset = start % size, (end - 1) % size
    if len(labels) > 1:
        between = f", over {count(len(labels), 'page')}"
        return f"in {labels[0]} slot {offset} to {labels[-1]} slot {end_offset}{between}"
    slots = f"slot {offset}" if offset == end_offset else f"slots {offset} to {end_offset}"
    return f"in {labels[0]}, {slots}"
