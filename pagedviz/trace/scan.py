"""What is known of a run step by step, gathered in one pass that can go on when the run does.

Invariants: a step is added once, in order; what was gathered of a step never changes, so a copy is
right for as long as its run does not grow. Whoever adds and whoever reads take turns.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence

from pagedviz.engine.events import (
    Event,
    PageAllocated,
    PageCopied,
    PageEvicted,
    PageHashed,
    PageReleased,
    PageShared,
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
)
from pagedviz.engine.snapshot import PageView
from pagedviz.trace.reducer import Reducer

POOL_COLUMNS = 6
"""Active pages, cached pages, empty slots of active pages, pages a contiguous allocator holds,
places in page tables, host pages in use."""


class Scan:
    """pool: POOL_COLUMNS numbers a step, after its last event. lanes: per sequence, in order of
    submission, its states as (first step, state), only where they change."""

    def __init__(self, num_pages: int, block_size: int) -> None:
        self.num_steps = 0
        self.pool = array("q")
        self.lanes: dict[int, list[tuple[int, str]]] = {}
        self._size = block_size
        self._reducer = Reducer(num_pages, block_size)
        self._totals = (0, 0, 0, 0)
        self._reserved = 0
        self._num_host = 0
        self._reservations: dict[int, int] = {}
        self._states: dict[int, str] = {}
        # Those with an event in the step before: most sequences do nothing in most steps.
        self._recent: set[int] = set()

    def copy(self) -> Scan:
        """For a run that does not grow: it cannot be added to."""
        copied = Scan(0, self._size)
        copied.num_steps = self.num_steps
        copied.pool = self.pool[:]
        copied.lanes = {seq_id: list(lane) for seq_id, lane in self.lanes.items()}
        return copied

    def add(self, events: Sequence[Event]) -> None:
        """The next step. TraceFormatError if its events do not fit."""
        self._add_to_lanes(events)
        self._add_to_pool(events)
        self.num_steps += 1

    def _add_to_pool(self, events: Sequence[Event]) -> None:
        reducer, size = self._reducer, self._size
        before: dict[int, PageView] = {}
        for event in events:
            for page_id in touched_pages(reducer, event):
                before.setdefault(page_id, reducer.page(page_id))
            if isinstance(event, SequenceSubmitted):
                slots = event.num_prompt_tokens + event.max_new_tokens
                self._reservations[event.seq_id] = -(-slots // size)
            elif isinstance(event, SequenceForked):
                # Contiguous memory cannot be shared: a fork has a reservation of its own.
                self._reservations[event.seq_id] = self._reservations[event.parent_id]
                if event.num_computed:
                    self._reserved += self._reservations[event.seq_id]
            elif isinstance(event, SequenceAdmitted):
                self._reserved += self._reservations[event.seq_id]
            elif isinstance(event, SequencePreempted | SequenceFinished) and reducer.is_running(
                event.seq_id
            ):  # an aborted one may have been waiting
                self._reserved -= self._reservations[event.seq_id]
            if isinstance(event, SwappedOut | SwappedIn | SequenceFinished):
                num_left = len(reducer.sequence(event.seq_id).host_page_ids)
                reducer.apply(event)
                self._num_host += len(reducer.sequence(event.seq_id).host_page_ids) - num_left
            else:
                reducer.apply(event)
        active, cached, waste, references = self._totals
        for page_id, old in before.items():
            for page, sign in ((old, -1), (reducer.page(page_id), 1)):
                active += sign * (page.state == "active")
                cached += sign * (page.state == "cached")
                waste += sign * (size - page.fill if page.state == "active" else 0)
                references += sign * page.ref_count
        self._totals = active, cached, waste, references
        self.pool.extend((active, cached, waste, self._reserved, references, self._num_host))

    def _add_to_lanes(self, events: Sequence[Event]) -> None:
        computed_in: dict[int, str] = {}
        changed: set[int] = set()
        for event in events:
            if isinstance(event, SequenceSubmitted | SequenceForked):
                self._states[event.seq_id] = "waiting"
                self.lanes[event.seq_id] = []
                changed.add(event.seq_id)
            elif isinstance(event, StateChanged):
                self._states[event.seq_id] = event.state
                changed.add(event.seq_id)
            elif isinstance(event, SequenceScheduled | SlotsWritten):
                computed_in[event.seq_id] = self._states[event.seq_id]
        changed |= computed_in.keys()
        for seq_id in self._recent | changed:
            state = computed_in.get(seq_id, self._states[seq_id])
            lane = self.lanes[seq_id]
            if not lane or lane[-1][1] != state:
                lane.append((self.num_steps, state))
        self._recent = changed


def touched_pages(reducer: Reducer, event: Event) -> tuple[int, ...]:
    """The pages that `event`, about to be applied, changes."""
    match event:
        case SlotsWritten():
            return tuple(reducer.written_page_ids(event))
        case SwappedIn():
            return tuple(reducer.written_page_ids(event)) if event.num_tokens else ()
        case PageCopied():
            return (event.source_id, event.page_id)
        case PageEvicted() | PageAllocated() | PageShared() | PageHashed() | PageReleased():
            return (event.page_id,)
        case _:
            return ()
