"""Folds events into the state they describe, knowing nothing of the engine that emitted them.

Invariants: an event assigns, it never decides (the only arithmetic is that of addresses: which
page and slot a position lies in); one that cannot apply raises TraceFormatError and changes
nothing, so that an edited file never leads to nonsense.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pagedviz.engine.errors import TraceFormatError
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
from pagedviz.engine.snapshot import PageView, SequenceView, Snapshot
from pagedviz.trace.reduced_state import ReducedState


class Reducer(ReducedState):
    """State after the events applied so far. `num_pages` pages of `block_size` slots."""

    def __init__(self, num_pages: int, block_size: int) -> None:
        pages = tuple(PageView(page_id) for page_id in range(num_pages))
        self._load(Snapshot(0, block_size, pages, tuple(range(num_pages)), (), (), ()))

    @classmethod
    def from_snapshot(cls, snapshot: Snapshot) -> Reducer:
        """Continue from a moment inside or between steps."""
        reducer = cls.__new__(cls)
        reducer._load(snapshot)
        return reducer

    def _load(self, snapshot: Snapshot) -> None:
        super().__init__(snapshot)
        self._handlers: dict[type[Any], Callable[[Any], None]] = {
            SequenceSubmitted: self._submitted,
            SequenceForked: self._forked,
            PrefixLookedUp: self._looked_up,
            AdmissionDeferred: self._deferred,
            PageEvicted: self._evicted,
            PageAllocated: self._allocated,
            PageShared: self._shared,
            PageCopied: self._copied,
            PageHashed: self._hashed,
            PageReleased: self._released,
            SequenceAdmitted: self._admitted,
            SequenceScheduled: self._scheduled,
            SequencePreempted: self._preempted,
            SwappedOut: self._swapped_out,
            SwappedIn: self._swapped_in,
            SlotsWritten: self._written,
            TokenSampled: self._sampled,
            StateChanged: self._state_changed,
            SequenceFinished: self._finished,
            InvariantViolated: self._violated,
        }

    def apply(self, event: Event) -> None:
        """Assign what `event` says. TraceFormatError if it cannot apply here."""
        self._handlers[type(event)](event)

    # ---- one method an event, in the order of events.py ------------------------------------

    def _submitted(self, event: SequenceSubmitted) -> None:
        if event.seq_id in self._sequences:
            raise TraceFormatError(f"seq:{event.seq_id:d} is submitted a second time")
        if event.prompt_ids and len(event.prompt_ids) != event.num_prompt_tokens:
            raise TraceFormatError(
                f"seq:{event.seq_id:d} says {event.num_prompt_tokens} prompt tokens and lists "
                f"{len(event.prompt_ids)}"
            )
        view = SequenceView(
            event.seq_id,
            event.name,
            event.adapter,
            event.num_prompt_tokens,
            event.max_new_tokens,
            event.prompt_ids or (None,) * event.num_prompt_tokens,
        )
        self._sequences.add(view)
        self.num_tokens += event.num_prompt_tokens
        self._waiting.append(event.seq_id)

    def _forked(self, event: SequenceForked) -> None:
        if event.seq_id in self._sequences:
            raise TraceFormatError(f"seq:{event.seq_id:d} is submitted a second time")
        parent = self._sequences.look(event.parent_id)
        if event.num_tokens > len(parent.token_ids) or event.num_computed > event.num_tokens:
            raise TraceFormatError(
                f"seq:{event.seq_id:d} is forked with {event.num_tokens} tokens, "
                f"{event.num_computed} of them computed, from seq:{event.parent_id:d}, which has "
                f"{len(parent.token_ids)}"
            )
        view = SequenceView(
            event.seq_id,
            event.name,
            parent.adapter,
            parent.num_prompt_tokens,
            event.max_new_tokens,
            tuple(parent.token_ids[: event.num_tokens]),
            num_computed=event.num_computed,
            parent_id=event.parent_id,
        )
        self._sequences.add(view)
        self.num_tokens += event.num_tokens
        (self._running if event.num_computed else self._waiting).append(event.seq_id)

    def _looked_up(self, event: PrefixLookedUp) -> None:
        self._sequences.look(event.seq_id)
        for page_id in event.page_ids:
            self.page(page_id)

    def _deferred(self, event: AdmissionDeferred) -> None:
        self._sequences.look(event.seq_id)

    def _evicted(self, event: PageEvicted) -> None:
        page = self.page(event.page_id)
        fill = page.fill if page.ref_count else 0
        self._pages[event.page_id] = PageView(page.page_id, page.generation, page.ref_count, fill)

    def _allocated(self, event: PageAllocated) -> None:
        page = self.page(event.page_id)
        self._check_takable(event.page_id, event.seq_id)
        self._join_table(event, event.generation)
        self._leave_queue(event.page_id)
        self._pages[event.page_id] = PageView(page.page_id, event.generation, 1)

    def _shared(self, event: PageShared) -> None:
        page = self.page(event.page_id)
        self._join_table(event, page.generation)
        if event.page_id in self._queue:
            self._leave_queue(event.page_id)
        self._pages[event.page_id] = page._replace(ref_count=event.ref_count)

    def _copied(self, event: PageCopied) -> None:
        source, page = self.page(event.source_id), self.page(event.page_id)
        table, index = self._sequences.look(event.seq_id).page_ids, event.logical_index
        if index >= len(table) or table[index] != event.source_id:
            raise TraceFormatError(
                f"p{event.source_id:d} is copied as page {index} of seq:{event.seq_id:d}, which "
                + (f"is p{table[index]:d}" if index < len(table) else f"has {len(table)} pages")
            )
        self._check_takable(event.page_id, event.seq_id)
        self._leave_queue(event.page_id)
        sequence = self._sequences.change(event.seq_id)
        sequence.page_ids[index] = event.page_id
        sequence.generations[index] = event.generation
        self._pages[event.source_id] = source._replace(ref_count=event.source_ref_count)
        fill = min(event.num_slots, source.fill)
        self._pages[event.page_id] = PageView(page.page_id, event.generation, 1, fill)

    def _hashed(self, event: PageHashed) -> None:
        page = self.page(event.page_id)
        sequence = self._sequences.look(event.seq_id)
        table, index = sequence.page_ids, event.logical_index
        if index >= len(table) or table[index] != event.page_id:
            raise TraceFormatError(
                f"p{event.page_id:d} is hashed as page {index} of seq:{event.seq_id:d}, which "
                + (f"is p{table[index]:d}" if index < len(table) else f"has {len(table)} pages")
            )
        start = index * self.block_size
        tokens = tuple(sequence.token_ids[start : start + self.block_size])
        self._pages[event.page_id] = PageView(*page[:4], event.page_hash, tokens)

    def _released(self, event: PageReleased) -> None:
        page = self.page(event.page_id)
        table = self._sequences.look(event.seq_id).page_ids
        if not table or table[-1] != event.page_id:
            raise TraceFormatError(
                f"seq:{event.seq_id:d} releases p{event.page_id:d}, but "
                + (f"its last page is p{table[-1]:d}" if table else "it holds no page")
            )
        fill = page.fill
        if event.ref_count == 0:
            before = event.queue_before
            if event.page_id in self._queue:
                raise TraceFormatError(f"p{event.page_id:d} joins the free queue a second time")
            if before is not None and before not in self._queue:
                raise TraceFormatError(
                    f"p{event.page_id:d} joins the free queue before p{before:d}, which is not "
                    "in it"
                )
            self._queue.insert_before(event.page_id, before)
            self._queue_ids = None
            # A hash keeps the content findable; without one the slots count as empty at once.
            fill = 0 if page.page_hash is None else fill
        sequence = self._sequences.change(event.seq_id)
        sequence.page_ids.pop()
        sequence.generations.pop()
        self._pages[event.page_id] = page._replace(ref_count=event.ref_count, fill=fill)

    def _admitted(self, event: SequenceAdmitted) -> None:
        sequence = self._sequences.change(event.seq_id)
        self._move(event.seq_id, self._waiting, "admitted", "waiting")
        self._running.append(event.seq_id)
        sequence.num_cached = event.num_cached
        sequence.num_computed = event.num_cached + event.num_restored

    def _scheduled(self, event: SequenceScheduled) -> None:
        self._sequences.change(event.seq_id).num_scheduled = event.num_tokens

    def _preempted(self, event: SequencePreempted) -> None:
        self._sequences.look(event.by)
        if event.behind is not None and event.behind not in self._waiting:
            raise TraceFormatError(
                f"seq:{event.seq_id:d} is to wait behind seq:{event.behind:d}, which does not wait"
            )
        sequence = self._sequences.change(event.seq_id)
        self._move(event.seq_id, self._running, "preempted", "running")
        self._waiting.insert_after(event.seq_id, event.behind)
        sequence.num_computed = sequence.num_cached = sequence.num_scheduled = 0
        sequence.num_preemptions += 1

    def _swapped_out(self, event: SwappedOut) -> None:
        sequence = self._sequences.change(event.seq_id)
        sequence.num_swapped = event.num_tokens
        sequence.host_page_ids = event.host_page_ids

    def _swapped_in(self, event: SwappedIn) -> None:
        if event.num_tokens:
            self._fill(event)
        sequence = self._sequences.change(event.seq_id)
        sequence.num_swapped, sequence.host_page_ids = None, ()

    def _written(self, event: SlotsWritten) -> None:
        self._fill(event)
        sequence = self._sequences.change(event.seq_id)
        sequence.num_computed = event.start + event.num_tokens
        sequence.num_scheduled = 0

    def _sampled(self, event: TokenSampled) -> None:
        self._sequences.change(event.seq_id).token_ids.append(event.token_id)
        self.num_tokens += 1

    def _state_changed(self, event: StateChanged) -> None:
        self._sequences.change(event.seq_id).state = event.state

    def _finished(self, event: SequenceFinished) -> None:
        sequence = self._sequences.change(event.seq_id)
        place = self._running if event.seq_id in self._running else self._waiting
        self._move(event.seq_id, place, "finished", "running or waiting")
        sequence.finish_reason = event.reason
        sequence.num_swapped, sequence.host_page_ids = None, ()
        self._num_finished_tokens += len(sequence.token_ids)

    def _violated(self, event: InvariantViolated) -> None:
        """It tells what is wrong with the state, perhaps that a page does not even exist."""
