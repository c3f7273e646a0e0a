"""A stretch of a trace for a program that can assign and draw, and nothing else.

A chunk is self-contained: the state before its first step and, for every event after it, what
changes (old and new values), what is said about it and what it touches.

    {"first": 64, "num_steps": 64, "start": {..},
     "paths": [..], "strings": [..], "parts": [[..], ..],
     "events": [number of events of each step],
     "begins": [phrase of the start of each step], "ends": [phrase of the end of each step],
     "kinds": [..], "says": [phrase, ..], "lines": [phrase, ..], "touched": [..],      one an event
     "sizes": [number of changes, one an event and one more for the end of each step],
     "changes": [path, old, new, path, old, new, ..], "tokens": {token id: its text}}

A value v >= 0 is the number v // 2 if v is even, the string v // 2 if it is odd; -1 is none.
`touched` is [page ids, sequence ids, [sequence id, first position, number] or 0,
[page id, first slot, number] ..].

Invariants: made from the trace alone, the same trace gives the same chunk; going back is the same
patch the other way; numbers fit 31 bits or are given as strings (the state hash cannot tell).
"""

from __future__ import annotations

import base64
import gzip
import json
from typing import Any, NamedTuple

from pagedviz.engine.events import (
    EVENT_TYPES,
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
from pagedviz.trace.packed import Candidates
from pagedviz.trace.trace import Trace
from pagedviz.views.context import Context
from pagedviz.views.links import Change, Value
from pagedviz.views.patches import FieldTracker
from pagedviz.views.phrases import Phrase, Phrases
from pagedviz.views.sentences import sentence
from pagedviz.views.summaries import headline, step_begins, step_summary
from pagedviz.views.words import TokenText, visible

CHUNK_STEPS = 64
_NUMBER_LIMIT = 1 << 29
_KINDS = {event_type: kind for kind, event_type in enumerate(EVENT_TYPES)}


def num_chunks(trace: Trace) -> int:
    return -(-trace.num_steps // CHUNK_STEPS)


def chunk(trace: Trace, number: int, token_text: TokenText) -> dict[str, Any]:
    """Steps number * CHUNK_STEPS and on. MomentNotFound if none of them is recorded."""
    first = number * CHUNK_STEPS
    last = min(first + CHUNK_STEPS, trace.num_steps)
    start = trace.at(first, 0)
    writer = _Writer(trace, start, token_text)
    for step in range(first, last):
        writer.step(step)
    return {"first": first, "num_steps": last - first, "start": keyframe(start)} | writer.written()


def keyframe(snapshot: Snapshot) -> dict[str, Any]:
    """A whole state, in columns for the pages and rows for the sequences."""
    return {
        "step": snapshot.num_steps,
        "generation": [page.generation for page in snapshot.pages],
        "ref_count": [page.ref_count for page in snapshot.pages],
        "fill": [page.fill for page in snapshot.pages],
        "hash": {
            page.page_id: f"{page.page_hash:016x}"
            for page in snapshot.pages
            if page.page_hash is not None
        },
        "token": {page.page_id: page.token_ids for page in snapshot.pages if page.token_ids},
        "queue": snapshot.free_queue,
        "waiting": snapshot.waiting,
        "running": snapshot.running,
        "seq": [
            {
                "id": view.seq_id,
                "name": view.name,
                "adapter": view.adapter,
                "num_prompt_tokens": view.num_prompt_tokens,
                "max_new_tokens": view.max_new_tokens,
                "num_tokens": view.num_tokens,
                "token": view.token_ids,
                "state": view.state,
                "num_computed": view.num_computed,
                "num_scheduled": view.num_scheduled,
                "num_cached": view.num_cached,
                "num_preemptions": view.num_preemptions,
                "page": view.page_ids,
                "generation": view.generations,
                "finish_reason": view.finish_reason,
                "parent": view.parent_id,
                "num_swapped": view.num_swapped,
                "host": view.host_page_ids,
            }
            for view in snapshot.sequences
        ],
    }


def encode(data: dict[str, Any]) -> str:
    """JSON, gzipped, in base64: a tenth of the JSON, and a browser unpacks it by itself."""
    text = json.dumps(data, separators=(",", ":"))
    packed = gzip.compress(text.encode("ascii"), compresslevel=6, mtime=0)
    return base64.b64encode(packed).decode("ascii")


class _Touched(NamedTuple):
    pages: list[int]
    seqs: list[int]
    tokens: list[int] | int = 0
    slots: tuple[list[int], ...] = ()


class _Writer:
    def __init__(self, trace: Trace, start: Snapshot, token_text: TokenText) -> None:
        self._trace = trace
        self._tracker = FieldTracker(start)
        self._token_text = token_text
        self._phrases = Phrases()
        self._paths: dict[str, int] = {}
        self._strings: dict[str, int] = {}
        self._tokens: set[int] = set()
        for view in start.sequences:
            self._tokens.update(token for token in view.token_ids if token is not None)
        for page in start.pages:
            self._tokens.update(token for token in page.token_ids if token is not None)
        self._columns: dict[str, list[Any]] = {
            name: []
            for name in (
                *("events", "begins", "ends", "kinds", "says", "lines", "touched", "sizes"),
                "changes",
            )
        }

    def step(self, step: int) -> None:
        """Write a step; they come in order."""
        record = self._trace.record(step)
        events, settings = record.events, self._trace.header.settings
        columns, tracker = self._columns, self._tracker
        columns["events"].append(len(events))
        columns["begins"].append(self._phrases.phrase(step_begins(step, tracker.before)))
        for place, event in enumerate(events):
            following = events[place + 1] if place + 1 < len(events) else None
            candidates: Candidates = ()
            if isinstance(event, TokenSampled) and record.logprobs is not None:
                candidates = record.logprobs.get(event.seq_id, ())
            before = tracker.before
            context = Context(before, self._token_text, settings, following, candidates)
            columns["kinds"].append(_KINDS[type(event)])
            columns["says"].append(self._phrases.phrase(sentence(event, context)))
            columns["lines"].append(self._line(event, before))
            columns["touched"].append(self._touched(event, before))
            self._write(tracker.apply(event))
        summary = step_summary(step, events, tracker.before, settings, self._token_text)
        columns["ends"].append(self._phrases.phrase(summary))
        self._write(tracker.end_step())

    def written(self) -> dict[str, Any]:
        texts = {token: visible(self._token_text(token)) for token in sorted(self._tokens)}
        return self._columns | {
            "paths": list(self._paths),
            "strings": list(self._strings),
            "parts": list(self._phrases.table),
            "tokens": texts,
        }

    def _line(self, event: Event, before: Snapshot) -> Phrase:
        return self._phrases.phrase(headline(event, before, self._token_text))

    def _write(self, changes: tuple[Change, ...]) -> None:
        self._columns["sizes"].append(len(changes))
        row = self._columns["changes"]
        for path, old, new in changes:
            row.append(self._paths.setdefault(path, len(self._paths)))
            row.append(self._code(old))
            row.append(self._code(new))
            if "/token/" in path:
                self._tokens.update(value for value in (old, new) if isinstance(value, int))

    def _code(self, value: Value) -> int:
        if value is None:
            return -1
        if isinstance(value, int) and 0 <= value < _NUMBER_LIMIT:
            return 2 * int(value)
        text = value if isinstance(value, str) else f"{value:d}"
        return 2 * self._strings.setdefault(text, len(self._strings)) + 1

    def _touched(self, event: Event, before: Snapshot) -> _Touched:
        match event:
            case PageEvicted():
                return _Touched([event.page_id], [])
            case PageAllocated() | PageShared() | PageHashed() | PageReleased():
                return _Touched([event.page_id], [event.seq_id])
            case InvariantViolated():
                is_known = event.page_id is not None and event.page_id < len(before.pages)
                pages = [event.page_id] if is_known and event.page_id is not None else []
                return _Touched(pages, [] if event.seq_id is None else [event.seq_id])
            case PageCopied():
                others = [
                    view.seq_id
                    for view in before.sequences
                    if view.seq_id != event.seq_id and event.source_id in view.page_ids
                ]
                seqs, num_slots = [event.seq_id, *others], event.num_slots
                pages = [event.page_id, event.source_id]
                span = [event.seq_id, event.logical_index * before.block_size, num_slots]
                return _Touched(pages, seqs, span, tuple([page, 0, num_slots] for page in pages))
            case SequenceForked():
                return _Touched([], [event.seq_id, event.parent_id])
            case SwappedIn() if event.num_tokens:
                slots = self._slots(event, before.block_size)
                span = [event.seq_id, event.start, event.num_tokens]
                return _Touched([page_id for page_id, _, _ in slots], [event.seq_id], span, slots)
            case PrefixLookedUp():
                at = [event.seq_id, event.position, 1] if event.position is not None else 0
                return _Touched(list(event.page_ids), [event.seq_id], at)
            case SequencePreempted():
                return _Touched([], [event.seq_id, event.by])
            case SequenceScheduled():
                span = [event.seq_id, event.start, event.num_tokens]
                return _Touched([], [event.seq_id], span)
            case SlotsWritten():
                slots = self._slots(event, before.block_size)
                span = [event.seq_id, event.start, event.num_tokens]
                return _Touched([page_id for page_id, _, _ in slots], [event.seq_id], span, slots)
            case TokenSampled():
                place = before.sequence(event.seq_id).num_tokens
                return _Touched([], [event.seq_id], [event.seq_id, place, 1])
            case _:
                return _Touched([], [event.seq_id])

    def _slots(self, event: SlotsWritten | SwappedIn, size: int) -> tuple[list[int], ...]:
        """[page id, first slot, number of slots] of each page written."""
        table = self._tracker.page_ids(event.seq_id)
        end = event.start + event.num_tokens
        slots = []
        for index in range(event.start // size, -(-end // size)):
            first = max(event.start - index * size, 0)
            slots.append([table[index], first, min(end - index * size, size) - first])
        return tuple(slots)
