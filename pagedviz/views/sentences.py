"""One plain sentence for every event: what happened, and why.

Invariants: a sentence is made from the event and the state before it, nothing else is asked;
sequences are called `seq:1` and pages `p7.2`, so that drawings can find and colour them; tokens,
pages and steps count from 0; no full stop at the end.
"""

from __future__ import annotations

from typing import assert_never

from pagedviz.engine.events import (
    AdmissionDeferred,
    Event,
    InvariantViolated,
    PageAllocated,
    PageCopied,
    PageEvicted,
    PageHashed,
    PageReleased,
    PageShared,
    PrefixLookedUp,
    SequenceAdmitted,
    SequenceFinished,
    SequenceForked,
    SequencePreempted,
    SequenceScheduled,
    SequenceSubmitted,
    SlotsWritten,
    StateChanged,
    SwappedIn,
    SwappedOut,
    TokenSampled,
)
from pagedviz.views import page_sentences
from pagedviz.views.context import Context
from pagedviz.views.lookups import lookup_sentence
from pagedviz.views.rules import rule_name
from pagedviz.views.words import count, excerpt, positions, token

_FINISHED = {
    "eos": "the model ended the text",
    "stop": "it sampled one of its stop tokens",
    "max_length": "it has all the tokens it may have",
    "aborted": "it was taken back",
    "preempted": "it lost its pages and is not to be resumed",
    "pruned": "other beams are likelier",
}
_STATES = {
    "waiting": "it waits to be admitted",
    "prefilling": "its known tokens are computed first, in one chunk or several",
    "decoding": "all it knew is computed, from now on it is one token a step",
    "preempted": "it waits to be admitted again and keeps its text",
    "finished": "it has left the engine, its pages follow",
}


def sentence(event: Event, context: Context) -> str:
    """What happened and why."""
    match event:
        case SequenceSubmitted():
            return _submitted(event, context)
        case SequenceForked():
            return _forked(event, context)
        case PrefixLookedUp():
            return lookup_sentence(event, context.before, context.token_text)
        case AdmissionDeferred():
            return _deferred(event, context)
        case PageEvicted():
            return page_sentences.evicted(event, context)
        case PageAllocated():
            return page_sentences.allocated(event, context)
        case PageShared():
            return page_sentences.shared(event, context)
        case PageCopied():
            return page_sentences.copied(event, context)
        case PageHashed():
            return page_sentences.hashed(event, context)
        case PageReleased():
            return page_sentences.released(event, context)
        case SequenceAdmitted():
            return _admitted(event, context)
        case SequenceScheduled():
            return _scheduled(event, context)
        case SequencePreempted():
            return _preempted(event, context)
        case SwappedOut():
            return _swapped_out(event, context)
        case SwappedIn():
            return _swapped_in(event, context)
        case SlotsWritten():
            return page_sentences.written(event, context)
        case TokenSampled():
            return _sampled(event, context)
        case StateChanged():
            return f"seq:{event.seq_id:d} is now {event.state}: {_STATES[event.state]}"
        case SequenceFinished():
            return _finished(event, context)
        case InvariantViolated():
            return f"Rule {event.rule} is broken ({rule_name(event.rule)}): {event.message}"
        case _:
            assert_never(event)


def _submitted(event: SequenceSubmitted, context: Context) -> str:
    text = excerpt(event.prompt_ids, context.token_text)
    prompt = f"{text}, " if text else ""
    place = len(context.before.waiting)
    queue = f"behind {count(place, 'other')}" if place else "at its front"
    adapter = "" if event.adapter is None else f", under the adapter {event.adapter}"
    if event.num_samples > 1:
        adapter += f", {event.num_samples} samples of it"
    if event.beam_width > 1:
        adapter += f", the {event.beam_width} likeliest texts of it"
    return (
        f"seq:{event.seq_id:d} arrives ({prompt}{count(event.num_prompt_tokens, 'prompt token')}, "
        f"at most {event.max_new_tokens} new{adapter}) and joins the waiting queue {queue}"
    )


def _forked(event: SequenceForked, context: Context) -> str:
    parent = context.before.sequence(event.parent_id)
    start = (
        f"seq:{event.seq_id:d} goes on from {positions(0, event.num_tokens)} of "
        f"seq:{event.parent_id:d}"
    )
    if not event.num_computed:
        return f"{start} and waits: it holds no page yet and computes them again"
    held = count(len(parent.page_ids), "page")
    return (
        f"{start}: it runs at once and holds the same {held}, so that {event.num_computed} tokens "
        "are there twice and stored once"
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


def _admitted(event: SequenceAdmitted, context: Context) -> str:
    sequence = context.before.sequence(event.seq_id)
    again = "is resumed" if sequence.num_preemptions else "is admitted"
    to_compute = sequence.num_tokens - event.num_cached - event.num_restored
    if event.num_restored:
        cached = f"{event.num_cached} from the prefix cache and " if event.num_cached else ""
        return (
            f"seq:{event.seq_id:d} {again} with {cached}{event.num_restored} back from the host of "
            f"its {sequence.num_tokens} tokens: {to_compute} "
            f"{'is' if to_compute == 1 else 'are'} left to compute"
        )
    if not event.num_cached:
        compute = "are computed again" if sequence.num_preemptions else "are to compute"
        return f"seq:{event.seq_id:d} {again}: all its {sequence.num_tokens} tokens {compute}"
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
    sequence = context.before.sequence(event.seq_id)
    held, times = len(sequence.page_ids), sequence.num_preemptions + 1
    again = f" for the {_ordinal(times)} time" if times > 1 else ""
    lost = f"it loses {count(held, 'page')} and {count(event.num_lost, 'computed token')}"
    if isinstance(context.following, SwappedOut):
        lost = f"its {count(held, 'page')} go to the host"
    if event.behind is not None:
        return (
            f"seq:{event.by:d} needs a page and none is free, so the beam seq:{event.seq_id:d}, "
            f"which only waits for the others, is preempted{again}: {lost}, keeps its text and "
            "waits at the back"
        )
    if event.by == event.seq_id:
        return (
            f"seq:{event.seq_id:d} needs a page, none is free and it is the last one running, so "
            f"it is preempted itself{again}: {lost}, keeps its text and waits in front"
        )
    return (
        f"seq:{event.by:d} needs a page and none is free, so seq:{event.seq_id:d}, the last one "
        f"running, is preempted{again}: {lost}, keeps its text and waits in front"
    )


def _ordinal(number: int) -> str:
    ending = {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return f"{number}{'th' if number % 100 in (11, 12, 13) else ending}"


def _swapped_out(event: SwappedOut, context: Context) -> str:
    return (
        f"Keys and values of {positions(0, event.num_tokens)} of seq:{event.seq_id:d} are copied "
        f"to {count(len(event.host_page_ids), 'host page')}, so that they need not be computed "
        "again"
    )


def _swapped_in(event: SwappedIn, context: Context) -> str:
    if not event.num_tokens:
        return (
            f"seq:{event.seq_id:d} lets go of its host pages: the prefix cache has all that was "
            "in them"
        )
    return (
        f"Keys and values of {positions(event.start, event.num_tokens)} of seq:{event.seq_id:d} "
        "are copied back from the host, and its host pages are free again"
    )


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
