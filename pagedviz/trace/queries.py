"""Questions about a whole run, answered from its events.

Invariants: a query changes nothing; an answer over all steps is computed once per length of the
trace and kept with it. "At step s" means after its last event. costs.py has the questions about
tokens, search.py those about the next moment.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from pagedviz.engine.events import (
    Event,
    InvariantViolated,
    PageAllocated,
    PageCopied,
    PageReleased,
    PageShared,
    SequenceFinished,
)
from pagedviz.engine.ids import page_label
from pagedviz.trace.reducer import Reducer
from pagedviz.trace.scan import POOL_COLUMNS, touched_pages
from pagedviz.trace.trace import Moment, Trace

_T = TypeVar("_T")


def remembered(query: Callable[[Trace], _T]) -> Callable[[Trace], _T]:
    """Keep the answer with the trace until the trace is longer."""

    @wraps(query)
    def ask(trace: Trace) -> _T:
        trace.fold()  # events that do not fit together have no answers
        known = trace.query_cache.get(query.__name__)
        if known is None or known[0] != trace.num_steps:
            # The length is read before the answer is computed: a trace that grows meanwhile
            # must not pass a short answer off as the long one.
            known = trace.num_steps, query(trace)
            trace.query_cache[query.__name__] = known
        answer: _T = known[1]
        return answer

    return ask


class Occupancy(NamedTuple):
    """Per step, int64 arrays of shape [num_steps].

    active + cached + free = all pages. waste: empty slots of active pages. contiguous: pages an
    allocator would hold that gives each running sequence num_prompt_tokens + max_new_tokens slots
    in one piece from the start (may exceed the pool). references: places in page tables; without
    sharing each would need a page of its own. host: host pages in use.
    """

    active: NDArray[np.int64]
    cached: NDArray[np.int64]
    free: NDArray[np.int64]
    waste: NDArray[np.int64]
    contiguous: NDArray[np.int64]
    references: NDArray[np.int64]
    host: NDArray[np.int64]


@remembered
def occupancy(trace: Trace) -> Occupancy:
    """What the pool held after each step."""
    table = np.array(trace.scan().pool, dtype=np.int64).reshape(-1, POOL_COLUMNS)  # [num_steps, 6]
    active, cached, waste, contiguous, references, host = table.T  # [num_steps] each
    free = trace.header.num_pages - active - cached
    return Occupancy(active, cached, free, waste, contiguous, references, host)


class HostPoolSize(NamedTuple):
    """num_pages: None when the trace does not tell."""

    num_pages: int | None


def host_pool(trace: Trace) -> HostPoolSize | None:
    """Where a run swaps to; None when it does not."""
    settings = trace.header.settings
    if settings is not None and settings.preemption == "swap":
        return HostPoolSize(settings.host_pages)
    return HostPoolSize(None) if occupancy(trace).host.any() else None


class Phase(NamedTuple):
    """A sequence was in `state` from `first_step` to `last_step`, both included."""

    state: str
    first_step: int
    last_step: int


@remembered
def phases(trace: Trace) -> dict[int, tuple[Phase, ...]]:
    """Per sequence, in order of submission, its phases without a gap to the end of the trace.

    The state of a step is the one in which the sequence computed (a prompt done in one step was
    prefilling then, though it ends it decoding), or the last one if it computed nothing.
    """
    lanes = trace.scan().lanes
    return {seq_id: _phases_of(lane, trace.num_steps) for seq_id, lane in lanes.items()}


def _phases_of(lane: list[tuple[int, str]], num_steps: int) -> tuple[Phase, ...]:
    ends = [first for first, _ in lane[1:]] + [num_steps]
    return tuple(
        Phase(state, first, end - 1) for (first, state), end in zip(lane, ends, strict=True)
    )


@remembered
def last_tables(trace: Trace) -> dict[int, tuple[str, ...]]:
    """seq_id -> the names of its pages, in order, when it finished; of those that have. The pages
    are let go of right after, so no snapshot of a finished sequence has them."""
    tables: dict[int, list[int]] = {}
    generations = [0] * trace.header.num_pages
    found: dict[int, tuple[str, ...]] = {}
    for record in trace.steps:
        for event in record.events:
            if isinstance(event, PageAllocated | PageShared):
                tables.setdefault(event.seq_id, []).append(event.page_id)
                if isinstance(event, PageAllocated):
                    generations[event.page_id] = event.generation
            elif isinstance(event, PageCopied):
                tables[event.seq_id][event.logical_index] = event.page_id
                generations[event.page_id] = event.generation
            elif isinstance(event, PageReleased):
                tables[event.seq_id].remove(event.page_id)
            elif isinstance(event, SequenceFinished):
                held = tables.get(event.seq_id, ())
                found[event.seq_id] = tuple(page_label(i, generations[i]) for i in held)
    return found


class PageMoment(NamedTuple):
    """`event` happened to a page; `moment` is right after it."""

    moment: Moment
    event: Event


def page_history(trace: Trace, page_id: int) -> tuple[PageMoment, ...]:
    """Every event that changed the page, in order: handed out, shared, hashed, written,
    released, evicted; and every broken rule that names it."""
    return _histories(trace).get(page_id, ())


@remembered
def _histories(trace: Trace) -> dict[int, tuple[PageMoment, ...]]:
    histories: dict[int, list[PageMoment]] = {}
    reducer = Reducer(trace.header.num_pages, trace.header.block_size)
    for step, record in enumerate(trace.steps):
        for number, event in enumerate(record.events, start=1):
            pages = touched_pages(reducer, event)
            if isinstance(event, InvariantViolated) and event.page_id is not None:
                is_there = event.page_id < trace.header.num_pages
                pages = (event.page_id,) if is_there else ()
            for page_id in pages:
                entry = PageMoment(Moment(step, number), event)
                histories.setdefault(page_id, []).append(entry)
            reducer.apply(event)
    return {page_id: tuple(moments) for page_id, moments in histories.items()}
