"""One sentence for a whole step, and a short line for each event of its list.

Invariants: as in sentences.py; a line fits the width of the event list.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import assert_never

from pagedviz.engine.config import EngineConfig
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
from pagedviz.engine.ids import page_label
from pagedviz.engine.snapshot import Snapshot
from pagedviz.views.rules import rule_name
from pagedviz.views.words import TokenText, count, joined, page_name, positions, token

_MAX_NAMED = 4
_MAX_EXPLAINED = 2
_DEFERRED = {
    "budget": "no budget left",
    "max_running": "enough are running",
    "preempting_step": "a step that preempts admits nobody",
    "watermark": "the reserve is kept",
}
_LOOKUP_ENDS = {
    "full_hit": "hits fully",
    "prompt_shorter_than_a_page": "is shorter than a page",
    "evicted": "misses a page that was evicted",
    "other_adapter": "misses: another adapter",
    "never_seen": "meets nothing it knows",
    "disabled": "finds no cache: it is off",
}
_FOUND_ENDS = {
    "prompt_shorter_than_a_page": "too short to fill a page",
    "evicted": "the next page was evicted",
    "other_adapter": "the text was computed with another adapter",
    "never_seen": "nobody has computed what comes next",
}


def headline(event: Event, before: Snapshot, token_text: TokenText) -> str:
    """An event in a few words; `sentence` says the rest."""
    match event:
        case SequenceSubmitted():
            return f"seq:{event.seq_id:d} arrives with {count(event.num_prompt_tokens, 'token')}"
        case SequenceForked():
            return f"seq:{event.seq_id:d} is forked from seq:{event.parent_id:d}"
        case PrefixLookedUp():
            return _lookup_line(event)
        case AdmissionDeferred():
            need = f"needs {count(event.pages_needed, 'page')}, {event.pages_free} free"
            return f"seq:{event.seq_id:d} has to wait: {_DEFERRED.get(event.reason, need)}"
        case PageEvicted():
            return f"{page_name(before, event.page_id)} is evicted from the prefix cache"
        case PageAllocated():
            label = page_label(event.page_id, event.generation)
            return f"seq:{event.seq_id:d} takes {label} as its page {event.logical_index}"
        case PageShared():
            label = page_name(before, event.page_id)
            return f"seq:{event.seq_id:d} shares {label} as its page {event.logical_index}"
        case PageCopied():
            label = page_label(event.page_id, event.generation)
            source = page_name(before, event.source_id)
            return f"seq:{event.seq_id:d} copies {source} to {label} to write"
        case PageHashed():
            return f"{page_name(before, event.page_id)} becomes findable"
        case PageReleased():
            left = f", {event.ref_count} still hold it" if event.ref_count > 1 else ""
            left = ", 1 still holds it" if event.ref_count == 1 else left
            return f"seq:{event.seq_id:d} lets go of {page_name(before, event.page_id)}{left}"
        case SequenceAdmitted():
            cached = f" with {event.num_cached} cached tokens" if event.num_cached else ""
            cached += f" and {event.num_restored} restored" if event.num_restored else ""
            return f"seq:{event.seq_id:d} is admitted{cached}"
        case SequenceScheduled():
            return f"seq:{event.seq_id:d} computes {positions(event.start, event.num_tokens)}"
        case SequencePreempted():
            return f"seq:{event.seq_id:d} is preempted, {count(event.num_lost, 'token')} lost"
        case SwappedOut():
            return f"seq:{event.seq_id:d} goes to {count(len(event.host_page_ids), 'host page')}"
        case SwappedIn():
            return f"{count(event.num_tokens, 'token')} of seq:{event.seq_id:d} back from the host"
        case SlotsWritten():
            where = positions(event.start, event.num_tokens)
            return f"K/V of {where} of seq:{event.seq_id:d} written"
        case TokenSampled():
            return f"seq:{event.seq_id:d} samples {token(event.token_id, token_text)}"
        case StateChanged():
            return f"seq:{event.seq_id:d} is now {event.state}"
        case SequenceFinished():
            return f"seq:{event.seq_id:d} is finished ({event.reason.replace('_', ' ')})"
        case InvariantViolated():
            return f"Rule {event.rule} is broken: {rule_name(event.rule)}"
        case _:
            assert_never(event)


def _lookup_line(event: PrefixLookedUp) -> str:
    seq = f"seq:{event.seq_id:d}"
    if event.end == "diverged":
        return f"{seq} finds {event.num_tokens} tokens, differs at {event.position}"
    if event.num_tokens and event.end != "full_hit":
        return f"{seq} finds {event.num_tokens} tokens, then {_LOOKUP_ENDS.get(event.end, '')}"
    found = f": {event.num_tokens} tokens" if event.num_tokens else ""
    return f"{seq} {_LOOKUP_ENDS.get(event.end, event.end)}{found}"


def step_begins(step: int, before: Snapshot) -> str:
    """The sentence for the start of a step."""
    running, waiting = len(before.running), len(before.waiting)
    free = len(before.free_queue)
    if not running and not waiting:
        return f"Step {step} begins with nothing to do: all {len(before.pages)} pages are unowned"
    return (
        f"Step {step} begins: {count(running, 'sequence runs', 'sequences run')}, "
        f"{waiting or 'none'} {'wait' if waiting > 1 else 'waits'}, {free} of {len(before.pages)} "
        "pages can be taken"
    )


def step_summary(
    step: int,
    events: Sequence[Event],
    after: Snapshot,
    settings: EngineConfig | None,
    token_text: TokenText,
) -> str:
    """The sentence for the end of a step: first why it was not like the others (a preemption, what
    an admitted prompt found in the cache), then who computed what, and what else changed."""
    kinds = Counter(type(event) for event in events)
    changes = [
        *_who(events, SequenceForked, "forked"),
        *_who(events, SequenceAdmitted, "admitted"),
        *_who(events, SequenceFinished, "finished"),
    ]
    for kind, verb in (
        (PageAllocated, "taken"),
        (PageShared, "shared"),
        (PageCopied, "copied"),
        (PageEvicted, "evicted"),
    ):
        if kinds[kind]:
            changes.append(f"{count(kinds[kind], 'page')} {verb}")
    details = "".join(f"; {change}" for change in changes)
    reasons = "".join(
        f"{why}; " for why in (*_broken(events), *_preemptions(events), *_found(events, token_text))
    )
    work = _work([event for event in events if isinstance(event, SequenceScheduled)], settings)
    if not work:
        idle = "the waiting ones do not fit" if after.waiting else "nobody is there to compute for"
        return f"Step {step} computed nothing: {reasons}{idle}{details}"
    return f"Step {step}: {reasons}{work}{details}"


def _broken(events: Sequence[Event]) -> list[str]:
    """The rules found broken, each once."""
    rules = dict.fromkeys(event.rule for event in events if isinstance(event, InvariantViolated))
    return [f"rule {rule} is broken ({rule_name(rule)})" for rule in rules]


def _preemptions(events: Sequence[Event]) -> list[str]:
    """Who was preempted for whom, and what it cost; one part or none."""
    found = [event for event in events if isinstance(event, SequencePreempted)]
    if not found:
        return []
    needing = list(dict.fromkeys(f"seq:{event.by:d}" for event in found))
    gone = _names([event.seq_id for event in found])
    num_lost = sum(event.num_lost for event in found)
    num_kept = sum(event.num_tokens for event in events if isinstance(event, SwappedOut))
    lost = f"lost {count(num_lost, 'computed token')}"
    if num_kept:
        lost = f"{lost} and " if num_lost else ""
        lost += f"left {count(num_kept, 'token')} on the host"
    was = "was" if len(found) == 1 else "were"
    page = "needed a page" if len(needing) == 1 else "needed pages"
    if len(found) == 1 and found[0].by == found[0].seq_id:
        return [f"{gone} needed a page, none was free, so it was preempted itself and {lost}"]
    return [f"{joined(needing)} {page}, none was free, so {gone} {was} preempted and {lost}"]


def _found(events: Sequence[Event], token_text: TokenText) -> list[str]:
    """What the prefix cache had for those admitted: each in turn, or many in one part."""
    admitted = {event.seq_id for event in events if isinstance(event, SequenceAdmitted)}
    lookups = {
        event.seq_id: event
        for event in events
        if isinstance(event, PrefixLookedUp) and event.seq_id in admitted
        if event.end != "disabled"
    }
    if len(lookups) > _MAX_EXPLAINED:
        num_hits = sum(event.num_tokens > 0 for event in lookups.values())
        num_tokens = sum(event.num_tokens for event in lookups.values())
        return [f"{num_hits} of {len(lookups)} prompts hit, {count(num_tokens, 'token')} in all"]
    same: dict[str, list[int]] = {}
    for event in lookups.values():
        same.setdefault(_found_what(event, token_text), []).append(event.seq_id)
    return [f"{_names(seq_ids)} {what}" for what, seq_ids in same.items()]


def _found_what(event: PrefixLookedUp, token_text: TokenText) -> str:
    size = count(event.num_tokens, "token")
    if event.end == "full_hit":
        return f"hit with {size}, all that can be reused"
    why = _FOUND_ENDS.get(event.end, event.end)
    if event.end == "diverged":
        here = token(event.prompt_token, token_text)
        there = token(event.cached_token, token_text)
        why = f"token {event.position} is {here}, not {there}"
    return f"hit with {size}, then {why}" if event.num_tokens else f"missed: {why}"


def _work(scheduled: Sequence[SequenceScheduled], settings: EngineConfig | None) -> str:
    """Who computed how much: `seq:0 and seq:1 computed one token each, seq:2 tokens 0 to 15`."""
    single = [f"seq:{event.seq_id:d}" for event in scheduled if event.num_tokens == 1]
    chunks = [event for event in scheduled if event.num_tokens > 1]
    parts = []
    if single:
        who = f"{len(single)} sequences" if len(single) > _MAX_NAMED else joined(single)
        parts.append(f"{who} computed one token{' each' if len(single) > 1 else ''}")
    if len(chunks) > _MAX_NAMED:
        num_tokens = sum(event.num_tokens for event in chunks)
        parts.append(f"{len(chunks)} sequences computed {num_tokens} prompt tokens")
    else:
        parts += [
            f"seq:{event.seq_id:d} computed {positions(event.start, event.num_tokens)}"
            for event in chunks
        ]
    if not parts:
        return ""
    total = sum(event.num_tokens for event in scheduled)
    budget = "" if settings is None else f" ({total} of {settings.max_tokens_per_step} in budget)"
    return f"{joined(parts)}{budget}"


def _who(
    events: Sequence[Event],
    kind: type[SequenceAdmitted] | type[SequenceFinished] | type[SequenceForked],
    verb: str,
) -> list[str]:
    """`seq:0 and seq:1 finished`, as one part of a list or none."""
    ids = [event.seq_id for event in events if isinstance(event, kind)]
    return [f"{_names(ids)} {verb}"] if ids else []


def _names(seq_ids: Sequence[int]) -> str:
    """`seq:0 and seq:1`, or how many."""
    if len(seq_ids) > _MAX_NAMED:
        return f"{len(seq_ids)} sequences"
    return joined(f"seq:{seq_id:d}" for seq_id in seq_ids)
