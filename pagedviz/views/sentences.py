"""One plain sentence for every event: what happened, and why.

Invariants: a sentence is made from the event and the state before it, nothing else is asked;
sequences are called `seq:1` and pages `p7.2`, so that drawings can find and colour them; tokens,
pages and steps count from 0; no full stop at the end.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, assert_never

from pagedviz.engine.config import EngineConfig
from pagedviz.engine.events import (
    AdmissionDeferred,
    Event,
    PageAllocated,
    PageEvicted,
    PageHashed,
    PageReleased,
    PageShared,
    PrefixLookedUp,
    SequenceAdmitted,
    SequenceFinished,
    SequencePreempted,
    SequenceScheduled,
    SequenceSubmitted,
    SlotsWritten,
    StateChanged,
    TokenSampled,
)
from pagedviz.engine.ids import page_label
from pagedviz.engine.snapshot import SequenceView, Snapshot
from pagedviz.views.lookups import lookup_sentence
from pagedviz.views.words import TokenText, count, excerpt, page_name, positions, token

_FINISHED = {
    "eos": "the model ended the text",
    "stop": "it sampled one of its stop tokens",
    "max_length": "it has all the tokens it may have",
    "aborted": "it was taken back",
    "preempted": "it lost its pages and is not to be resumed",
}
_STATES = {
    "waiting": "it waits to be admitted",
    "prefilling": "its known tokens are computed first, in one chunk or several",
    "decoding": "all it knew is computed, from now on it is one token a step",
    "preempted": "it waits to be admitted again and keeps its text",
    "finished": "it has left the engine, its pages follow",
}


class Context(NamedTuple):
    """What a sentence may use beside the event.

    following: the next event of the step. candidates: (token_id, log probability) of the sampled
    token's rivals, the best first. Both only add to what is said.
    """

    before: Snapshot
    token_text: TokenText
    settings: EngineConfig | None = None
    following: Event | None = None
    candidates: Sequence[tuple[int, float]] = ()


def sentence(event: Event, context: Context) -> str:
    """What happened and why."""
    match event:
        case SequenceSubmitted():
            return _submitted(event, context)
        case PrefixLookedUp():
            return lookup_sentence(event, context.before, context.token_text)
        case AdmissionDeferred():
            return _deferred(event, context)
        case PageEvicted():
            return _evicted(event, context)
        case PageAllocated():
            return _allocated(event, context)
        case PageShared():
            return _shared(event, context)
        case PageHashed():
            return _hashed(event, context)
        case PageReleased():
            return _released(event, context)
        case SequenceAdmitted():
            return _admitted(event, context)
        case SequenceScheduled():
            return _scheduled(event, context)
        case SequencePreempted():
            return _preempted(event, context)
        case SlotsWritten():
            return _written(event, context)
        case TokenSampled():
            return _sampled(event, context)
        case StateChanged():
            return f"seq:{event.seq_id:d} is now {event.state}: {_STATES[event.state]}"
        case SequenceFinished():
            return _finished(event, context)
        case _:
            assert_never(event)


def _submitted(event: SequenceSubmitted, context: Context) -> str:
    text = excerpt(event.prompt_ids, context.token_text)
    prompt = f"{text}, " if text else ""
    place = len(context.before.waiting)
    queue = f"behind {count(place, 'other')}" if place else "at its front"
    return (
        f"seq:{event.seq_id:d} arrives ({prompt}{count(event.num_prompt_tokens, 'prompt token')}, "
        f"at most {event.max_new_tokens} new) and joins the waiting queue {queue}"
    )


def _deferred(event: AdmissionDeferred, context: Context) -> str:
    before, settings = context.before, context.settings
    needed = count(event.pages_needed, "page")
    free = f"{event.pages_free} {'is' if event.pages_free == 1 else 'are'} free"
    known = before.sequence(event.seq_id).num_tokens
    match event.reason:
        case "budget":
            total = f"the {settings.max_tokens_per_step} tokens" if settings else "the tokens"
            why = f"{total} of this step are all given away"
        case "max_running":
            running = len(before.running)
            why = f"{running} {'sequence runs' if running == 1 else 'sequences run'} already, the "
            why += "most that may"
        case "preempting_step":
            why = "a step that preempts admits nobody, or both would fight over the same pages"
        case "pages":
            why = f"its first chunk needs {needed} and {free}"
        case "full_prompt_gate":
            why = f"its {known} tokens need {needed} and {free}; started now, it would soon run out"
        case "watermark":
            why = f"with the reserve kept for running sequences it needs {needed} and {free}"
        case other:
            why = f"{other} ({needed} needed, {free})"
    behind = len(before.waiting) - 1
    others = f", and so do the {behind} behind it" if behind > 1 else ""
    others = ", and so does the one behind it" if behind == 1 else others
    return f"seq:{event.seq_id:d} has to wait{others}: {why}"


def _evicted(event: PageEvicted, context: Context) -> str:
    before, following = context.before, context.following
    page = before.pages[event.page_id]
    text = excerpt(page.token_ids, context.token_text)
    held = f"the cached text {text}" if text else "a cached prefix"
    head = f"the head of the free queue is {page.label}, which still held {held}, so that is"
    if isinstance(following, PageAllocated) and following.page_id == event.page_id:
        start = following.logical_index * before.block_size
        return (
            f"seq:{following.seq_id:d} needs a page for token {start}: {head} evicted and no "
            "prompt can find it any more"
        )
    return f"A page is needed: {head} evicted and no prompt can find it any more"


def _allocated(event: PageAllocated, context: Context) -> str:
    size = context.before.block_size
    start = event.logical_index * size
    name = page_label(event.page_id, event.generation)
    use = f" (use {event.generation} of that page)" if event.generation > 1 else ""
    why = f"its pages end with token {start - 1}" if start else "it has no page yet"
    return (
        f"seq:{event.seq_id:d} takes {name} from the head of the free queue{use}, as its page "
        f"{event.logical_index} for {positions(start, size)}: {why}"
    )


def _shared(event: PageShared, context: Context) -> str:
    before = context.before
    page = before.pages[event.page_id]
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


def _hashed(event: PageHashed, context: Context) -> str:
    before = context.before
    num_tokens = (event.logical_index + 1) * before.block_size
    twins = [page.label for page in before.pages if page.page_hash == event.page_hash]
    found = f"; {twins[0]} has the same text and is found first" if twins else ""
    return (
        f"This step fills {page_name(before, event.page_id)}, so it becomes findable under the "
        f"hash {event.page_hash:016x} of the first {num_tokens} tokens of "
        f"seq:{event.seq_id:d}{found}"
    )


def _released(event: PageReleased, context: Context) -> str:
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


def _admitted(event: SequenceAdmitted, context: Context) -> str:
    sequence = context.before.sequence(event.seq_id)
    again = "is resumed" if sequence.num_preemptions else "is admitted"
    to_compute = sequence.num_tokens - event.num_cached
    if not event.num_cached:
        return f"seq:{event.seq_id:d} {again}: all its {sequence.num_tokens} tokens are to compute"
    return (
        f"seq:{event.seq_id:d} {again} with {event.num_cached} of its {sequence.num_tokens} tokens "
        f"from the prefix cache: {to_compute} {'is' if to_compute == 1 else 'are'} left to compute"
    )


def _scheduled(event: SequenceScheduled, context: Context) -> str:
    sequence = context.before.sequence(event.seq_id)
    end = event.start + event.num_tokens
    if event.num_tokens == 1 and end == sequence.num_tokens and end > sequence.num_prompt_tokens:
        word = token(sequence.token_ids[event.start], context.token_text)
        return (
            f"seq:{event.seq_id:d} gets one token of the budget: it computes token {event.start}, "
            f"{word}, to find the next{_budget(event, context)}"
        )
    left = sequence.num_tokens - end
    rest = f"; {count(left, 'token')} left for later steps" if left else ", the last it knows"
    again = " again" if sequence.num_preemptions and event.start < sequence.num_tokens - 1 else ""
    return (
        f"seq:{event.seq_id:d} gets {event.num_tokens} of the budget: it computes "
        f"{positions(event.start, event.num_tokens)} of {sequence.num_tokens}{again}{rest}"
        f"{_budget(event, context)}"
    )


def _budget(event: SequenceScheduled, context: Context) -> str:
    if context.settings is None:
        return ""
    total = context.settings.max_tokens_per_step
    used = event.num_tokens + sum(view.num_scheduled for view in context.before.sequences)
    return f" ({used} of {total} used)"


def _preempted(event: SequencePreempted, context: Context) -> str:
    held = len(context.before.sequence(event.seq_id).page_ids)
    lost = f"it loses {count(held, 'page')} and {count(event.num_lost, 'computed token')}"
    if event.by == event.seq_id:
        return (
            f"seq:{event.seq_id:d} needs a page, none is free and it is the last one running, so "
            f"it is preempted itself: {lost}, keeps its text and waits in front"
        )
    return (
        f"seq:{event.by:d} needs a page and none is free, so seq:{event.seq_id:d}, the last one "
        f"running, is preempted: {lost}, keeps its text and waits in front"
    )


def _written(event: SlotsWritten, context: Context) -> str:
    before = context.before
    sequence = before.sequence(event.seq_id)
    end = event.start + event.num_tokens
    where = _slots(sequence, before.block_size, event.start, end)
    if event.num_tokens == 1:
        word = token(sequence.token_ids[event.start], context.token_text)
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


def _sampled(event: TokenSampled, context: Context) -> str:
    sequence = context.before.sequence(event.seq_id)
    word = token(event.token_id, context.token_text)
    start = f"seq:{event.seq_id:d} samples token {sequence.num_tokens}: {word}"
    return start + _rivals(event, context)


def _rivals(event: TokenSampled, context: Context) -> str:
    shares = {token_id: 100 * 2.718281828459045**lp for token_id, lp in context.candidates}
    if event.token_id is None or event.token_id not in shares:
        return ""
    rival = next((token_id for token_id in shares if token_id != event.token_id), None)
    others = ""
    if rival is not None:
        others = f", {token(rival, context.token_text)} would be next with {shares[rival]:.0f} %"
    return f" (the model gives it {shares[event.token_id]:.0f} %{others})"


def _finished(event: SequenceFinished, context: Context) -> str:
    sequence = context.before.sequence(event.seq_id)
    why = _FINISHED.get(event.reason, event.reason)
    made = sequence.num_tokens - sequence.num_prompt_tokens
    return f"seq:{event.seq_id:d} is finished with {count(made, 'new token')}: {why}"
