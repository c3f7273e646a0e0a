"""What happened in one step, gathered from its events, as a readable line or as JSON.

Invariant: made from the events and the state behind them alone, so a live run and a trace that was
read from a file give the same report.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from pagedviz.engine.events import (
    Event,
    PageAllocated,
    PageCopied,
    PageEvicted,
    SequenceAdmitted,
    SequenceFinished,
    SequenceForked,
    SequencePreempted,
    SequenceScheduled,
    SequenceSubmitted,
    SwappedIn,
    SwappedOut,
    TokenSampled,
)
from pagedviz.engine.snapshot import Snapshot

TokenText = Callable[[int], str]


@dataclass(frozen=True, slots=True)
class Scheduled:
    """num_cached: tokens found in the prefix cache, None if the sequence ran already."""

    name: str
    start: int
    num_tokens: int
    num_cached: int | None


@dataclass(frozen=True, slots=True)
class Sampled:
    name: str
    token_id: int | None
    text: str | None


@dataclass(frozen=True, slots=True)
class Ended:
    name: str
    reason: str


@dataclass(frozen=True, slots=True)
class StepReport:
    """Page lists hold labels such as `p12.3`; `active`, `cached` and `free` count pages after the
    step; `waiting` are names, front first."""

    step: int
    submitted: tuple[str, ...]
    scheduled: tuple[Scheduled, ...]
    forked: tuple[str, ...]
    preempted: tuple[str, ...]
    swapped_out: tuple[str, ...]
    swapped_in: tuple[str, ...]
    allocated: tuple[str, ...]
    copied: tuple[str, ...]
    evicted: tuple[str, ...]
    sampled: tuple[Sampled, ...]
    finished: tuple[Ended, ...]
    waiting: tuple[str, ...]
    active: int
    cached: int
    free: int

    @property
    def as_json(self) -> dict[str, Any]:
        return asdict(self)

    @property
    def as_line(self) -> str:
        """Only what happened: a quiet step is a short line."""
        parts = [
            ("submitted", self.submitted),
            ("scheduled", tuple(_show_scheduled(item) for item in self.scheduled)),
            ("forked", self.forked),
            ("preempted", self.preempted),
            ("to the host", self.swapped_out),
            ("from the host", self.swapped_in),
            ("took", self.allocated),
            ("copied", self.copied),
            ("evicted", self.evicted),
            ("sampled", tuple(_show_sampled(item) for item in self.sampled)),
            ("finished", tuple(f"{item.name} ({item.reason})" for item in self.finished)),
            ("waiting", self.waiting),
        ]
        happened = [f"{word} {', '.join(items)}" for word, items in parts if items]
        pages = f"pages {self.active} active {self.cached} cached {self.free} free"
        return f"step {self.step:3}  {'; '.join(happened) or 'idle'}; {pages}"


def report_step(
    step: int, events: Sequence[Event], after: Snapshot, token_text: TokenText | None
) -> StepReport:
    """token_text: how a token reads; None = as a number."""
    names = {sequence.seq_id: printable(sequence.name) for sequence in after.sequences}
    hits = {e.seq_id: e.num_cached for e in events if isinstance(e, SequenceAdmitted)}
    states = [page.state for page in after.pages]

    def of_type(event_type: type[Any]) -> list[Any]:
        return [event for event in events if isinstance(event, event_type)]

    # A page's label is that of the use it had: an evicted one was taken in its next use.
    taken = (*of_type(PageAllocated), *of_type(PageCopied))
    generations = {e.page_id: e.generation for e in taken}
    return StepReport(
        step=step,
        submitted=tuple(names[e.seq_id] for e in of_type(SequenceSubmitted)),
        scheduled=tuple(
            Scheduled(names[e.seq_id], e.start, e.num_tokens, hits.get(e.seq_id))
            for e in of_type(SequenceScheduled)
        ),
        forked=tuple(
            f"{names[e.seq_id]} from {names[e.parent_id]}" for e in of_type(SequenceForked)
        ),
        preempted=tuple(names[e.seq_id] for e in of_type(SequencePreempted)),
        swapped_out=tuple(f"{names[e.seq_id]} {e.num_tokens}" for e in of_type(SwappedOut)),
        swapped_in=tuple(f"{names[e.seq_id]} {e.num_tokens}" for e in of_type(SwappedIn)),
        allocated=tuple(f"p{e.page_id:d}.{e.generation}" for e in of_type(PageAllocated)),
        copied=tuple(
            f"p{e.source_id:d} to p{e.page_id:d}.{e.generation}" for e in of_type(PageCopied)
        ),
        evicted=tuple(
            f"p{e.page_id:d}.{generations.get(e.page_id, 1) - 1}" for e in of_type(PageEvicted)
        ),
        sampled=tuple(
            Sampled(names[e.seq_id], e.token_id, _text(e.token_id, token_text))
            for e in of_type(TokenSampled)
        ),
        finished=tuple(
            Ended(names[e.seq_id], printable(e.reason)) for e in of_type(SequenceFinished)
        ),
        waiting=tuple(names[seq_id] for seq_id in after.waiting),
        active=states.count("active"),
        cached=states.count("cached"),
        free=states.count("free"),
    )


def printable(text: str) -> str:
    """A text from a file as a line may hold it: no control characters reach the terminal."""
    return text if text.isprintable() else ascii(text)


def _text(token_id: int | None, token_text: TokenText | None) -> str | None:
    return None if token_id is None or token_text is None else token_text(token_id)


def _show_scheduled(item: Scheduled) -> str:
    chunk = f"{item.name} {item.start}+{item.num_tokens}"
    return f"{chunk} ({item.num_cached} cached)" if item.num_cached else chunk


def _show_sampled(item: Sampled) -> str:
    if item.text is not None:
        return f"{item.name} {item.text!r}"
    return f"{item.name} {'?' if item.token_id is None else item.token_id}"
