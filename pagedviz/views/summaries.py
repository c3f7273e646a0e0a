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
from pagedviz.engine.snapshot import Snapshot
from pagedviz.views.words import TokenText, count, joined, page_name, positions, token

_MAX_NAMED = 4
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


def headline(event: Event, before: Snapshot, token_text: TokenText) -> str:
    """An event in a few words; `sentence` says the rest."""
    match event:
        case SequenceSubmitted():
            return f"seq:{event.seq_id:d} arrives with {count(event.num_prompt_tokens, 'token')}"
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
        case PageHashed():
            return f"{page_name(before, event.page_id)} becomes findable"
        case PageReleased():
            left = f", {event.ref_count} still hold it" if event.ref_count > 1 else ""
            left = ", 1 still holds it" if event.ref_count == 1 else left
            return f"seq:{event.seq_id:d} lets go of {page_name(before, event.page_id)}{left}"
        case SequenceAdmitted():
            cached = f" with {event.num_cached} cached tokens" if event.num_cached else ""
            return f"seq:{event.seq_id:d} is admitted{cached}"
        case SequenceScheduled():
            return f"seq:{event.seq_id:d} computes {positions(event.start, event.num_tokens)}"
        case SequencePreempted():
            return f"seq:{event.seq_id:d} is preempted, {event.num_lost} tokens lost"
        case SlotsWritten():
            where = positions(event.start, event.num_tokens)
            return f"K/V of {where} of seq:{event.seq_id:d} written"
        case TokenSampled():
            return f"seq:{event.seq_id:d} samples {token(event.token_id, token_text)}"
        case StateChanged():
            return f"seq:{event.seq_id:d} is now {event.state}"
        case SequenceFinished():
            return f"seq:{event.seq_id:d} is finished ({event.reason.replace('_', ' ')})"
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
    step: int, events: Sequence[Event], after: Snapshot, settings: EngineConfig | None = None
) -> str:
    """The sentence for the end of a step: who computed what, and what else changed."""
    kinds = Counter(type(event) for event in events)
    lost = sum(event.num_lost for event in events if isinstance(event, SequencePreempted))
    changes = [
        *_who(events, SequenceAdmitted, "admitted"),
        *(
            f"{who}, {count(lost, 'token')} lost"
            for who in _who(events, SequencePreempted, "preempted")
        ),
        *_who(events, SequenceFinished, "finished"),
    ]
    for kind, verb in ((PageAllocated, "taken"), (PageShared, "shared"), (PageEvicted, "evicted")):
        if kinds[kind]:
            changes.append(f"{count(kinds[kind], 'page')} {verb}")
    details = "".join(f"; {change}" for change in changes)
    work = _work([event for event in events if isinstance(event, SequenceScheduled)], settings)
    if not work:
        idle = "the waiting ones do not fit" if after.waiting else "nobody is there to compute for"
        return f"Step {step} computed nothing: {idle}{details}"
    return f"Step {step}: {work}{details}"


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
    kind: type[SequenceAdmitted] | type[SequencePreempted] | type[SequenceFinished],
    verb: str,
) -> list[str]:
    """`seq:0 and seq:1 finished`, as one part of a list or none."""
    names = [f"seq:{event.seq_id:d}" for event in events if isinstance(event, kind)]
    if not names:
        return []
    who = f"{len(names)} sequences" if len(names) > _MAX_NAMED else joined(names)
    return [f"{who} {verb}"]
