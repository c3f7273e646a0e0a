"""A recorded run that can be asked for any moment, forwards and backwards at the same price.

    events     step 0 ........ step 32 ....... step 64 .......       one StepRecord a step
    index      ^ snapshot      ^ snapshot      ^ snapshot
    at(40, 3)                  |----fold---->|

Invariants: a trace only grows; a snapshot once given never changes; the index costs memory in
proportion to the events, however large the pool; moments that are not recorded raise
MomentNotFound. A trace may be read by several threads, as the sessions of one app do; one that
still grows is not handed to them, but a `copy` of it, which does not.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from threading import RLock
from typing import Any, NamedTuple

from pagedviz.engine.errors import MomentNotFound, TraceFormatError
from pagedviz.engine.events import Emitted, Event
from pagedviz.engine.snapshot import Snapshot
from pagedviz.engine.state_hash import state_hash, updated_state_hash
from pagedviz.trace.header import TraceHeader
from pagedviz.trace.packed import (
    Candidates,
    PackedStep,
    pack_step,
    unpack_events,
    unpack_step,
)
from pagedviz.trace.reducer import Reducer
from pagedviz.trace.scan import Scan

INDEX_EVERY = 32
# A snapshot of a large pool waits for more events than 32 steps may bring: one per this many items
# that it does not share with the one before. It bounds the index at some 64 bytes an event.
_ITEMS_PER_EVENT = 8


class StepRecord(NamedTuple):
    """One step: its events in order and, per sequence that sampled, the top candidates as
    (token_id, log probability), the best first."""

    events: tuple[Event, ...]
    logprobs: Mapping[int, Candidates] | None = None


class Moment(NamedTuple):
    """The state after `event` events of `step`; 0 = its start, None = its end."""

    step: int
    event: int | None = None


class FoldedStep(NamedTuple):
    """A step with the state on both sides, for whoever checks the whole run."""

    step: int
    before: Snapshot
    events: tuple[Event, ...]
    after: Snapshot


class Trace:
    """Header and steps of a run. `query_cache` belongs to queries.py."""

    def __init__(self, header: TraceHeader, steps: Iterable[StepRecord] = ()) -> None:
        self.header = header
        self.query_cache: dict[str, tuple[int, Any]] = {}
        # Steps are packed when somebody first asks, so that recording stays cheap.
        self._packed: list[PackedStep] = []
        self._recent: deque[tuple[Sequence[Emitted], Mapping[int, Candidates] | None]] = deque()
        self._num_steps = 0
        self._lock = RLock()
        # The index: _marks[i] is the state at the start of step _mark_steps[i]. _tail has folded
        # the steps before _num_folded; folding waits until somebody asks.
        self._tail = Reducer(header.num_pages, header.block_size)
        self._marks = [self._tail.snapshot()]
        self._mark_steps = [0]
        self._num_folded = 0
        self._events_since_mark = 0
        self._last: tuple[Moment, Snapshot] | None = None
        self._last_hash: tuple[Snapshot, int] | None = None
        self._scan = Scan(header.num_pages, header.block_size)
        for record in steps:
            self.append(record)

    def __repr__(self) -> str:
        return f"<Trace of {self.num_steps} steps, {self.total_events} events>"

    @property
    def num_steps(self) -> int:
        return self._num_steps

    @property
    def steps(self) -> tuple[StepRecord, ...]:
        return tuple(self.record(step) for step in range(self.num_steps))

    @property
    def total_events(self) -> int:
        return sum(map(self.num_events, range(self.num_steps)))

    @property
    def initial(self) -> Snapshot:
        """Before the first step; an empty trace has this state too."""
        return self._marks[0]

    @property
    def final(self) -> Snapshot:
        """After the last step."""
        return self.at(self.num_steps - 1) if self.num_steps else self.initial

    def append(self, record: StepRecord) -> None:
        """Add a step; folding it waits until somebody asks. Ids come back as plain integers."""
        self.append_emitted(record.events, record.logprobs)

    def append_emitted(
        self, emitted: Sequence[Emitted], logprobs: Mapping[int, Candidates] | None
    ) -> None:
        """`append` of what an engine emitted, as it is; `emitted` must not change any more."""
        self._recent.append((emitted, logprobs))
        self._num_steps += 1

    def record(self, step: int) -> StepRecord:
        """MomentNotFound if the step is not recorded."""
        return StepRecord(*unpack_step(self._packed_step(step)))

    def events(self, step: int) -> tuple[Event, ...]:
        """MomentNotFound if the step is not recorded."""
        return unpack_events(self._packed_step(step))

    def num_events(self, step: int) -> int:
        """MomentNotFound if the step is not recorded."""
        return len(self.kinds(step))

    def kinds(self, step: int) -> bytes:
        """What kinds the events of a step are, each its place in EVENT_TYPES, without the price of
        the events. MomentNotFound if the step is not recorded."""
        return self._packed_step(step).kinds

    def _packed_step(self, step: int) -> PackedStep:
        if not 0 <= step < self._num_steps:
            raise MomentNotFound(
                f"step {step} is not recorded: the trace has steps 0 to {self._num_steps - 1}"
                if self._num_steps
                else f"step {step} is not recorded: the trace is empty"
            )
        with self._lock:
            while len(self._packed) <= step:
                emitted, logprobs = self._recent.popleft()
                self._packed.append(pack_step(emitted, logprobs))
            return self._packed[step]

    def at(self, step: int, event: int | None = None) -> Snapshot:
        """The state after `event` events of `step` (0 = its start, None = its end).

        Raises MomentNotFound for a moment that is not recorded, TraceFormatError if the events
        up to there do not fit together.
        """
        num_events = self.num_events(step)
        if event is not None and not 0 <= event <= num_events:
            raise MomentNotFound(
                f"step {step} has no event {event}: its moments are 0 to {num_events}"
            )
        moment = Moment(step, event)
        with self._lock:
            if self._last is None or self._last[0] != moment:
                self._last = moment, self._fold_to(step, event)
            return self._last[1]

    def state_hash(self, step: int, event: int | None = None) -> int:
        """The 64-bit state hash of a moment. Raises as `at` does."""
        with self._lock:
            snapshot = self.at(step, event)
            if self._last_hash is None:
                value = state_hash(snapshot)
            else:
                old, old_hash = self._last_hash
                value = updated_state_hash(old_hash, old, snapshot)
            self._last_hash = snapshot, value
            return value

    def fold(self) -> None:
        """Build the index to the end. TraceFormatError names the first event that does not fit."""
        with self._lock:
            self._extend_index(self.num_steps)

    def copy(self) -> Trace:
        """What is recorded so far, as a trace that does not grow with this one. Costs memory in
        proportion to the steps, not to the events: these are shared. Raises as `fold` does."""
        with self._lock:
            self.scan()
            copied = Trace(self.header)
            # Asking for the last step has packed them all.
            copied._packed = list(self._packed)
            copied._num_steps = copied._num_folded = self._num_steps
            copied._tail = Reducer.from_snapshot(self._tail.snapshot())
            copied._marks, copied._mark_steps = list(self._marks), list(self._mark_steps)
            copied._events_since_mark = self._events_since_mark
            copied._scan = self._scan.copy()
            return copied

    def scan(self) -> Scan:
        """What queries gather step by step, up to the last one. Raises as `fold` does."""
        with self._lock:
            self.fold()  # events that do not fit together have no answers
            while self._scan.num_steps < self._num_steps:
                self._scan.add(self.events(self._scan.num_steps))
            return self._scan

    def walk(self, start: int = 0) -> Iterator[FoldedStep]:
        """Every step from `start` with the states around it, each event folded once."""
        if start == self.num_steps:
            return
        before = self.at(start, 0)
        reducer = Reducer.from_snapshot(before)
        for step in range(start, self.num_steps):
            events = self.events(step)
            _apply(reducer, step, events)
            reducer.end_step()
            after = reducer.snapshot()
            yield FoldedStep(step, before, events, after)
            before = after

    def _fold_to(self, step: int, event: int | None) -> Snapshot:
        self._extend_index(step)
        if step == self._num_folded - 1 and event is None:
            return self._tail.snapshot()
        place = bisect_right(self._mark_steps, step) - 1
        reducer = Reducer.from_snapshot(self._marks[place])
        for earlier in range(self._mark_steps[place], step):
            _apply(reducer, earlier, self.events(earlier))
            reducer.end_step()
        _apply(reducer, step, self.events(step)[:event])
        if event is None:
            reducer.end_step()
        return reducer.snapshot()

    def _extend_index(self, num_steps: int) -> None:
        while self._num_folded < num_steps:
            step = self._num_folded
            try:
                _apply(self._tail, step, self.events(step))
            except TraceFormatError:
                # Half a step was applied: go back to where everything fitted.
                self._tail = Reducer.from_snapshot(self._marks[-1])
                self._num_folded = self._mark_steps[-1]
                self._events_since_mark = 0
                raise
            self._tail.end_step()
            self._num_folded = step + 1
            self._events_since_mark += self.num_events(step)
            if self._num_folded - self._mark_steps[-1] >= INDEX_EVERY and (
                self._events_since_mark * _ITEMS_PER_EVENT >= self._tail.num_items
            ):
                self._marks.append(self._tail.snapshot())
                self._mark_steps.append(self._num_folded)
                self._events_since_mark = 0


def _apply(reducer: Reducer, step: int, events: tuple[Event, ...]) -> None:
    apply = reducer.apply
    try:
        for event in events:
            apply(event)
    except TraceFormatError as error:
        raise TraceFormatError(f"step {step}, {type(event).__name__}: {error}") from None
