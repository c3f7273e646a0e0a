"""Every moment of a trace, folded once from the start: no index, no cache, no resumption.

An oracle for whoever needs all moments of a run. That `Trace.at` gives the same states, in any
order, and that a hash carried along equals the whole one, is tested in tests/trace.
"""

from __future__ import annotations

from collections.abc import Iterator

from pagedviz.engine.snapshot import Snapshot
from pagedviz.engine.state_hash import state_hash, updated_state_hash
from pagedviz.trace.reducer import Reducer
from pagedviz.trace.trace import Moment, Trace


def every_state(trace: Trace) -> Iterator[tuple[Moment, Snapshot]]:
    """Of each step its start, the state after each event, and its end."""
    reducer = Reducer(trace.header.num_pages, trace.header.block_size)
    for step in range(trace.num_steps):
        yield Moment(step, 0), reducer.snapshot()
        for number, event in enumerate(trace.events(step), start=1):
            reducer.apply(event)
            yield Moment(step, number), reducer.snapshot()
        reducer.end_step()
        yield Moment(step, None), reducer.snapshot()


def every_hash(trace: Trace) -> Iterator[tuple[Moment, Snapshot, int]]:
    """The same with the state hash of each."""
    old, old_hash = trace.initial, state_hash(trace.initial)
    for moment, new in every_state(trace):
        old, old_hash = new, updated_state_hash(old_hash, old, new)
        yield moment, new, old_hash
