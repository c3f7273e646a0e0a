"""Which fields of the state hash each event changes, with the value before and after.

    event -> ((path, old, new), ..)        None = the field is not there

Invariants: paths and values are those of `state_hash.snapshot_fields`; assigning all `new` values
goes one event on, all `old` values one back; an event costs what it changes, however large the
pool is.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple, cast

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
    SequenceSubmitted,
    SlotsWritten,
    SwappedIn,
)
from pagedviz.engine.snapshot import PageView, SequenceView, Snapshot
from pagedviz.trace.open_sequences import OpenSequence
from pagedviz.trace.reducer import Reducer
from pagedviz.views.links import Change, Links, Value

_SCALARS = (
    "state",
    "num_computed",
    "num_scheduled",
    "num_cached",
    "num_preemptions",
    "finish_reason",
    "num_swapped",
)
# Events that change no field of any page, sequence or list.
_QUIET = frozenset({"PrefixLookedUp", "AdmissionDeferred", "InvariantViolated"})


class FieldTracker:
    """The state at a moment, moved on event by event."""

    def __init__(self, snapshot: Snapshot) -> None:
        self._reducer = Reducer.from_snapshot(snapshot)
        self._links = {
            "queue": Links("queue", snapshot.free_queue),
            "waiting": Links("waiting", snapshot.waiting),
            "running": Links("running", snapshot.running),
        }
        self._num_sequences = len(snapshot.sequences)
        self._pages = list(snapshot.pages)

    @property
    def before(self) -> Snapshot:
        """The present state for whoever words the next event; to read at once, not to keep. It
        answers what a Snapshot answers, without the price of building one: with thousands of
        pages that would cost more than all the rest of an event."""
        return cast(Snapshot, _State(self._reducer, self._pages, self._links))

    def page_ids(self, seq_id: int) -> list[int] | tuple[int, ...]:
        return self._reducer.page_ids(seq_id)

    def end_step(self) -> tuple[Change, ...]:
        old = self._reducer.num_steps
        self._reducer.end_step()
        return (Change("step", old, old + 1),)

    def apply(self, event: Event) -> tuple[Change, ...]:
        """Every field that the event changes. TraceFormatError if it cannot apply."""
        reducer = self._reducer
        if type(event).__name__ in _QUIET:
            reducer.apply(event)
            return ()
        if isinstance(event, SequenceSubmitted | SequenceForked):
            reducer.apply(event)
            index = self._num_sequences
            self._num_sequences += 1
            view = reducer.sequence(event.seq_id)
            assert isinstance(view, SequenceView)
            fields = [Change(path, None, value) for path, value in _sequence_fields(index, view)]
            place = "running" if reducer.is_running(event.seq_id) else "waiting"
            return (*fields, *self._links[place].insert_before(event.seq_id, None))
        pages = {page_id: reducer.page(page_id) for page_id in self._touched(event)}
        seq_id = None if isinstance(event, PageEvicted) else event.seq_id
        old = None if seq_id is None else _Numbers.of(reducer.sequence(seq_id))
        changes: list[Change] = []
        if isinstance(event, PageCopied):
            changes += self._replaced(event)
        reducer.apply(event)
        for page_id, page in pages.items():
            now = self._pages[page_id] = reducer.page(page_id)
            changes += _page_changes(page, now)
        if seq_id is not None and old is not None:
            changes += old.changes(seq_id, reducer.sequence(seq_id))
        changes += self._list_changes(event)
        return tuple(changes)

    def _replaced(self, event: PageCopied) -> Iterator[Change]:
        """The one change of a page table that is not at its end; before it is applied."""
        prefix, index = f"seq/{event.seq_id:d}", event.logical_index
        generations = self._reducer.sequence(event.seq_id).generations
        yield Change(f"{prefix}/page/{index}", event.source_id, event.page_id)
        yield Change(f"{prefix}/generation/{index}", generations[index], event.generation)

    def _touched(self, event: Event) -> list[int] | tuple[int, ...]:
        match event:
            case SlotsWritten():
                return self._reducer.written_page_ids(event)
            case SwappedIn():
                return self._reducer.written_page_ids(event) if event.num_tokens else ()
            case PageCopied():
                return (event.source_id, event.page_id)
            case PageEvicted() | PageAllocated() | PageShared() | PageHashed() | PageReleased():
                return (event.page_id,)
            case _:
                return ()

    def _list_changes(self, event: Event) -> list[Change]:
        queue, waiting, running = (self._links[name] for name in ("queue", "waiting", "running"))
        match event:
            case PageAllocated() | PageCopied():
                return queue.remove(event.page_id)
            case PageShared():
                return queue.remove(event.page_id) if event.page_id in queue else []
            case PageReleased() if event.ref_count == 0:
                return queue.insert_before(event.page_id, event.queue_before)
            case SequenceAdmitted():
                left = waiting.remove(event.seq_id)
                return left + running.insert_before(event.seq_id, None)
            case SequencePreempted():
                left = running.remove(event.seq_id)
                return left + waiting.insert_after(event.seq_id, event.behind)
            case SequenceFinished():
                return (running if event.seq_id in running else waiting).remove(event.seq_id)
            case _:
                return []


class _Numbers(NamedTuple):
    """What may change of a sequence: scalars, its number of tokens, the end of its table."""

    scalars: tuple[Value, ...]
    num_tokens: int
    num_pages: int
    last_page: int | None
    last_generation: int | None
    host_page_ids: tuple[int, ...]

    @classmethod
    def of(cls, sequence: OpenSequence | SequenceView) -> _Numbers:
        table = sequence.page_ids
        return cls(
            tuple(getattr(sequence, name) for name in _SCALARS),
            len(sequence.token_ids),
            len(table),
            table[-1] if table else None,
            sequence.generations[-1] if table else None,
            sequence.host_page_ids,
        )

    def changes(self, seq_id: int, sequence: OpenSequence | SequenceView) -> Iterator[Change]:
        prefix = f"seq/{seq_id:d}"
        for name, old in zip(_SCALARS, self.scalars, strict=True):
            new = getattr(sequence, name)
            if new != old:
                yield Change(f"{prefix}/{name}", old, new)
        known = len(sequence.token_ids)
        if known != self.num_tokens:
            yield Change(f"{prefix}/num_tokens", self.num_tokens, known)
            for index in range(self.num_tokens, known):
                token_id = sequence.token_ids[index]
                if token_id is not None:
                    yield Change(f"{prefix}/token/{index}", None, token_id)
        held = len(sequence.page_ids)
        if held > self.num_pages:
            for index in range(self.num_pages, held):
                yield Change(f"{prefix}/page/{index}", None, sequence.page_ids[index])
                yield Change(f"{prefix}/generation/{index}", None, sequence.generations[index])
        elif held < self.num_pages:
            yield Change(f"{prefix}/page/{held}", self.last_page, None)
            yield Change(f"{prefix}/generation/{held}", self.last_generation, None)
        if sequence.host_page_ids != self.host_page_ids:
            # A browser's list loses its end, so the last place goes first.
            for index in reversed(range(len(self.host_page_ids))):
                yield Change(f"{prefix}/host/{index}", self.host_page_ids[index], None)
            for index, host_id in enumerate(sequence.host_page_ids):
                yield Change(f"{prefix}/host/{index}", None, host_id)


def _page_changes(old: PageView, new: PageView) -> Iterator[Change]:
    prefix = f"page/{new.page_id:d}"
    if old.generation != new.generation:
        yield Change(f"{prefix}/generation", old.generation, new.generation)
    if old.ref_count != new.ref_count:
        yield Change(f"{prefix}/ref_count", old.ref_count, new.ref_count)
    if old.fill != new.fill:
        yield Change(f"{prefix}/fill", old.fill, new.fill)
    if old.page_hash != new.page_hash:
        yield Change(f"{prefix}/hash", _hex(old.page_hash), _hex(new.page_hash))
    if old.token_ids != new.token_ids:
        for index in range(max(len(old.token_ids), len(new.token_ids))):
            was = old.token_ids[index] if index < len(old.token_ids) else None
            now = new.token_ids[index] if index < len(new.token_ids) else None
            if was != now:
                yield Change(f"{prefix}/token/{index}", was, now)


def _hex(page_hash: int | None) -> str | None:
    return None if page_hash is None else f"{page_hash:016x}"


def _sequence_fields(index: int, view: SequenceView) -> Iterator[tuple[str, int | str]]:
    """Those of a sequence just submitted or forked: it holds no page and has not finished."""
    prefix = f"seq/{view.seq_id:d}"
    yield f"{prefix}/index", index
    yield f"{prefix}/name", view.name
    if view.adapter is not None:
        yield f"{prefix}/adapter", view.adapter
    yield f"{prefix}/num_prompt_tokens", view.num_prompt_tokens
    yield f"{prefix}/max_new_tokens", view.max_new_tokens
    yield f"{prefix}/num_tokens", view.num_tokens
    for place, token_id in enumerate(view.token_ids):
        if token_id is not None:
            yield f"{prefix}/token/{place}", token_id
    yield f"{prefix}/state", view.state
    yield f"{prefix}/num_computed", view.num_computed
    yield f"{prefix}/num_scheduled", view.num_scheduled
    yield f"{prefix}/num_cached", view.num_cached
    yield f"{prefix}/num_preemptions", view.num_preemptions
    if view.parent_id is not None:
        yield f"{prefix}/parent", view.parent_id


class _State:
    """What sentences ask of the state before an event, answered from the reducer's own lists."""

    def __init__(self, reducer: Reducer, pages: list[PageView], links: dict[str, Links]) -> None:
        self._reducer = reducer
        self.pages = pages
        self.num_steps = reducer.num_steps
        self.block_size = reducer.block_size
        self.waiting = links["waiting"]
        self.running = links["running"]
        self.free_queue = links["queue"]

    def sequence(self, seq_id: int) -> SequenceView:
        found = self._reducer.sequence(seq_id)
        return found if isinstance(found, SequenceView) else found.freeze()

    @property
    def sequences(self) -> tuple[SequenceView, ...]:
        """Those that run: of the others nothing is scheduled."""
        return tuple(self.sequence(seq_id) for seq_id in self.running)
