"""What a step's events amount to, for the rules: who computed, wrote, hit and read what, and in
which state the pages were at that moment.

Invariant: it starts from what held before the step and believes only the events after it; it
holds no more than the few numbers that the rules compare.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from pagedviz.engine.events import (
    SAMPLED,
    SCHEDULED,
    Emitted,
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
    SwappedIn,
    TokenSampled,
)
from pagedviz.engine.step_breaches import (
    LookedUp,
    Overread,
    Overwritten,
    Scheduled,
    SharedWrite,
    Unplanned,
    Unwritten,
)
from pagedviz.engine.step_pages import StepPages
from pagedviz.engine.step_start import StepStart


class StepFacts(StepPages):
    """reads: how many slots the model says that attention has read for each sequence; one that it
    says nothing about has read what it had computed."""

    def __init__(
        self,
        start: StepStart,
        events: Iterable[Emitted],
        reads: Mapping[int, int] | None = None,
    ) -> None:
        super().__init__(start)
        self.misplanned: list[Scheduled] = []
        self.exhausted: list[LookedUp] = []
        self.overwritten: list[Overwritten] = []
        self.shared_writes: list[SharedWrite] = []
        self.unwritten: list[Unwritten] = []
        self.overread: list[Overread] = []
        self.unplanned: list[Unplanned] = []
        self.has_moved = False
        """Whether anything was scheduled, preempted or released."""
        self._size = start.block_size
        self._tables_before = start.tables if start.is_right else {}
        self._computed_before = start.computed
        self._has_forks = start.has_forks
        self._reads = reads or {}
        self._computed = dict(start.computed)
        self._known = dict(start.known)
        self._planned: dict[int, tuple[int, int]] = {}
        # Sequences that wrote and have not attended yet: all K/V of a step are written before any
        # attention reads, so reads count only once something else happens than a write.
        self._readers: list[tuple[int, int]] = []
        # Those that wrote one more token in tables of which all below was filled at the start.
        self._sure_readers: list[tuple[int, int]] = []
        self._fold(events)
        self._read()

    def _fold(self, events: Iterable[Emitted]) -> None:
        # Local names and no calls for the usual three events of a sequence, see events.py: this
        # runs in every step of an engine that is checked while it runs.
        size, fills, tables = self._size, self.fills, self._tables
        computed, known, planned = self._computed, self._known, self._planned
        readers, write, schedule = self._readers, self._write, self._schedule
        sure, tables_before = self._sure_readers, self._tables_before
        computed_before = self._computed_before
        has_forks, num_pages, has_sampled = self._has_forks, len(fills), False
        event: Any
        for event in events:
            if type(event) is not tuple:
                fold = _FOLDS.get(type(event))
                if fold is not None:
                    fold(self, event)
                    has_forks = self._has_forks
                continue
            kind, seq_id, start = event[0], event[1], event[2]
            if kind == SAMPLED:
                if readers or sure:
                    self._read()
                known[seq_id] = known.get(seq_id, 0) + 1
                has_sampled = True
            elif kind == SCHEDULED:
                if (
                    event[3] == 1
                    and seq_id not in planned
                    and computed.get(seq_id) == start < known[seq_id]
                ):
                    planned[seq_id] = (start, 1)
                else:
                    schedule(seq_id, start, event[3])
            else:
                page_id, table = -1, tables.get(seq_id, ())
                if not has_forks and planned.get(seq_id) == event[2:]:
                    index, offset = divmod(start, size)
                    page_id = table[index] if event[3] == 1 and index < len(table) else -1
                if 0 <= page_id < num_pages and fills[page_id] == offset:
                    # The next slot of a page that nobody else holds: always right.
                    fills[page_id] = offset + 1
                    computed[seq_id] = start + 1
                    is_sure = (
                        table is tables_before.get(seq_id) and computed_before[seq_id] == start
                    )
                    (sure if is_sure else readers).append((seq_id, start + 1))
                else:
                    write(seq_id, start, event[3])
        self.has_moved |= bool(planned) or has_sampled

    @property
    def is_clean(self) -> bool:
        """Whether no rule about what happens on the way was broken."""
        return not (
            self.misplanned
            or self.exhausted
            or self.overwritten
            or self.shared_writes
            or self.unwritten
            or self.overread
            or self.unplanned
        )

    # ---- pages -----------------------------------------------------------------------------

    def _allocated(self, event: PageAllocated) -> None:
        if self._readers or self._sure_readers:
            self._read()
        super()._allocated(event)

    def _released(self, event: PageReleased) -> None:
        if self._readers or self._sure_readers:
            self._read()
        self.has_moved = True
        super()._released(event)

    # ---- sequences -------------------------------------------------------------------------

    def _submitted(self, event: SequenceSubmitted) -> None:
        self._computed[event.seq_id] = 0
        self._known[event.seq_id] = event.num_prompt_tokens

    def _forked(self, event: SequenceForked) -> None:
        self._has_forks = True
        self._computed[event.seq_id] = event.num_computed
        self._known[event.seq_id] = event.num_tokens

    def _looked_up(self, event: PrefixLookedUp) -> None:
        known = self._known.get(event.seq_id, 0)
        if event.num_tokens >= known:
            self.exhausted.append(LookedUp(event.seq_id, event.num_tokens, known))

    def _admitted(self, event: SequenceAdmitted) -> None:
        self._computed[event.seq_id] = event.num_cached + event.num_restored

    def _preempted(self, event: SequencePreempted) -> None:
        self.has_moved = True
        self._computed[event.seq_id] = 0
        self._planned.pop(event.seq_id, None)

    def _sampled(self, seq_id: int) -> None:
        self._read()
        self.has_moved = True
        self._known[seq_id] = self._known.get(seq_id, 0) + 1

    def _finished(self, event: SequenceFinished) -> None:
        self._read()

    def _schedule(self, seq_id: int, start: int, num_tokens: int) -> None:
        self.has_moved = True
        computed, known = self._computed.get(seq_id, 0), self._known.get(seq_id, 0)
        if seq_id in self._planned:
            computed += self._planned[seq_id][1]
        if num_tokens < 1 or start != computed or computed + num_tokens > known:
            self.misplanned.append(Scheduled(seq_id, start, num_tokens, computed, known))
        self._planned[seq_id] = (start, num_tokens)

    # ---- slots -----------------------------------------------------------------------------

    def _write(self, seq_id: int, start: int, num_tokens: int) -> None:
        stop, size = start + num_tokens, self._size
        planned = self._planned.get(seq_id)
        if planned is not None and planned != (start, num_tokens):
            self.unplanned.append(Unplanned(seq_id, start, num_tokens, planned))
        table = self._tables.get(seq_id, ())
        for index in range(start // size, min(len(table), -(-stop // size))):
            page_id = table[index]
            offset = max(0, start - index * size)
            fill, page_hash = self._fill(page_id), self.hash_now(page_id)
            if page_hash is not None:
                if offset < fill:
                    self.overwritten.append(Overwritten(seq_id, page_id, offset, fill, page_hash))
            elif self._has_forks:
                num_owners = sum(page_id in pages for pages in self._tables.values())
                if num_owners > 1:
                    self.shared_writes.append(SharedWrite(seq_id, page_id, offset, num_owners))
            # A write that leaves a hole fills nothing: what lies below is not there.
            if offset <= fill:
                self._set_fill(page_id, max(fill, min(size, stop - index * size)))
        self._computed[seq_id] = stop
        self._readers.append((seq_id, stop))

    def _restore(self, event: SwappedIn) -> None:
        table, stop = self._tables.get(event.seq_id, ()), event.start + event.num_tokens
        for index in range(event.start // self._size, min(len(table), -(-stop // self._size))):
            self._set_fill(table[index], min(self._size, stop - index * self._size))

    def _read(self) -> None:
        size, fills, tables, reads = self._size, self.fills, self._tables, self._reads
        if self._lowered or reads:
            self._readers += [
                (seq_id, stop)
                for seq_id, stop in self._sure_readers
                if reads.get(seq_id, stop) > stop
                or not self._lowered.isdisjoint(tables.get(seq_id, ()))
            ]
        self._sure_readers.clear()
        for seq_id, stop in self._readers:
            if reads and reads.get(seq_id, stop) > stop:
                self.overread.append(Overread(seq_id, reads[seq_id], stop))
                stop = reads[seq_id]
            table = tables.get(seq_id, ())
            num_full, rest = divmod(stop, size)
            try:
                read = [fills[page_id] for page_id in table[:num_full]]
                is_whole = read.count(size) == num_full
                if rest and is_whole:
                    is_whole = fills[table[num_full]] >= rest
            except IndexError:
                is_whole = False
            if not is_whole:
                self._find_holes(seq_id, table, stop)
        self._readers.clear()

    def _find_holes(self, seq_id: int, table: Sequence[int], stop: int) -> None:
        for index in range(-(-stop // self._size)):
            needed = min(self._size, stop - index * self._size)
            page_id = table[index] if index < len(table) else None
            fill = 0 if page_id is None else self._fill(page_id)
            if fill < needed:
                self.unwritten.append(Unwritten(seq_id, index, page_id, needed, fill))


_FOLDS: dict[type[Any], Callable[[StepFacts, Any], None]] = {
    PageEvicted: StepFacts._evicted,
    PageHashed: StepFacts._hashed,
    PageAllocated: StepFacts._allocated,
    PageShared: StepFacts._shared,
    PageCopied: StepFacts._copied,
    PageReleased: StepFacts._released,
    SequenceSubmitted: StepFacts._submitted,
    SequenceForked: StepFacts._forked,
    PrefixLookedUp: StepFacts._looked_up,
    SequenceAdmitted: StepFacts._admitted,
    SequencePreempted: StepFacts._preempted,
    SequenceScheduled: lambda facts, event: facts._schedule(*event),
    SequenceFinished: StepFacts._finished,
    SlotsWritten: lambda facts, event: facts._write(*event),
    SwappedIn: StepFacts._restore,
    TokenSampled: lambda facts, event: facts._sampled(event.seq_id),
}
