"""What a step's events amount to, for the rules: who computed, wrote, hit and read what, and in
which state the pages were at that moment.

Invariant: it starts from the snapshot before the step and believes only the events after it; it
holds no more than the few numbers that the rules compare.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from pagedviz.engine.events import (
    Event,
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
from pagedviz.engine.snapshot import Snapshot


class Scheduled(NamedTuple):
    """A chunk, with the tokens that were computed (or scheduled before) and known at that time."""

    seq_id: int
    start: int
    num_tokens: int
    num_computed: int
    num_known: int


class LookedUp(NamedTuple):
    """A prefix lookup that found `num_tokens` of the `num_known` tokens of a sequence."""

    seq_id: int
    num_tokens: int
    num_known: int


class Overwritten(NamedTuple):
    """A write from `offset` on into a page findable by `page_hash` whose first `fill` slots, more
    than `offset`, were written already."""

    seq_id: int
    page_id: int
    offset: int
    fill: int
    page_hash: int


class SharedWrite(NamedTuple):
    """A write into a page that is not findable and that `num_owners` sequences held."""

    seq_id: int
    page_id: int
    offset: int
    num_owners: int


class Unwritten(NamedTuple):
    """Attention of `seq_id` needed `needed` slots of its page `logical_index`, `fill` had been
    written; page_id None = it held no such page."""

    seq_id: int
    logical_index: int
    page_id: int | None
    needed: int
    fill: int


class Unplanned(NamedTuple):
    """A write of other tokens than those scheduled; `planned` = (start, num_tokens)."""

    seq_id: int
    start: int
    num_tokens: int
    planned: tuple[int, int]


class StepFacts:
    def __init__(self, before: Snapshot, events: Sequence[Event]) -> None:
        self.scheduled: list[Scheduled] = []
        self.lookups: list[LookedUp] = []
        self.overwritten: list[Overwritten] = []
        self.shared_writes: list[SharedWrite] = []
        self.unwritten: list[Unwritten] = []
        self.unplanned: list[Unplanned] = []
        self.hits: dict[int, int] = {}
        """page_id -> the sequence that hit it last in this step."""
        self.evicted: set[int] = set()
        self._evicted_hashes: dict[int, int] = {}
        self.hashes: dict[int, int | None] = {}
        """Pages handed out or hashed in this step: the hash they have now. An eviction alone does
        not count: what makes a page lose its hash is that it is handed out again."""
        self.has_moved = False
        """Whether anything was scheduled, preempted or released."""
        self._size = before.block_size
        self._pages = before.pages
        self._fills: dict[int, int] = {}
        self._tables = {s.seq_id: list(s.page_ids) for s in before.sequences if s.page_ids}
        # Only forks hold an unhashed page together, so only with them need owners be counted.
        self._has_forks = any(s.parent_id is not None for s in before.sequences)
        self._computed = {s.seq_id: s.num_computed for s in before.sequences}
        self._known = {s.seq_id: s.num_tokens for s in before.sequences}
        self._planned: dict[int, tuple[int, int]] = {}
        # Sequences that wrote and have not attended yet: all K/V of a step are written before any
        # attention reads, so reads count only once something else happens than a write.
        self._readers: list[tuple[int, int]] = []
        for event in events:
            self._apply(event)
        self._read()

    def _apply(self, event: Event) -> None:
        match event:
            case SlotsWritten():
                self._write(event)
                return
            case PageEvicted():
                self.evicted.add(event.page_id)
                self._evicted_hashes[event.page_id] = event.page_hash
            case PageHashed():
                self._supersede(event)
                self.hashes[event.page_id] = event.page_hash
            case PageAllocated():
                self._read()
                self.hashes[event.page_id] = None
                self._evicted_hashes.pop(event.page_id, None)
                self._fills[event.page_id] = 0
                self._tables.setdefault(event.seq_id, []).insert(event.logical_index, event.page_id)
            case PageShared():
                self.hits[event.page_id] = event.seq_id
                self._tables.setdefault(event.seq_id, []).insert(event.logical_index, event.page_id)
            case PageCopied():
                self.hashes[event.page_id] = None
                self._evicted_hashes.pop(event.page_id, None)
                self._fills[event.page_id] = min(event.num_slots, self._fill(event.source_id))
                pages = self._tables.get(event.seq_id, [])
                if event.logical_index < len(pages):
                    pages[event.logical_index] = event.page_id
            case PageReleased():
                self._read()
                self.has_moved = True
                table = self._tables.get(event.seq_id)
                if table:
                    table.pop()
            case SequenceSubmitted():
                self._computed[event.seq_id] = 0
                self._known[event.seq_id] = event.num_prompt_tokens
            case SequenceForked():
                self._has_forks = True
                self._computed[event.seq_id] = event.num_computed
                self._known[event.seq_id] = event.num_tokens
            case PrefixLookedUp():
                known = self._known.get(event.seq_id, 0)
                self.lookups.append(LookedUp(event.seq_id, event.num_tokens, known))
            case SwappedIn():
                self._restore(event)
            case SequenceAdmitted():
                self._computed[event.seq_id] = event.num_cached + event.num_restored
            case SequencePreempted():
                self.has_moved = True
                self._computed[event.seq_id] = 0
                self._planned.pop(event.seq_id, None)
            case SequenceScheduled():
                self._schedule(event)
            case TokenSampled():
                self._read()
                self.has_moved = True
                self._known[event.seq_id] = self._known.get(event.seq_id, 0) + 1
            case SequenceFinished():
                self._read()
            case _:
                pass

    def _supersede(self, event: PageHashed) -> None:
        """Pages that lost the hash which this one takes over: in some engines only the newest of
        several equal pages is found."""
        for page_id, page_hash in self._evicted_hashes.items():
            if page_hash == event.page_hash and page_id != event.page_id:
                self.hashes[page_id] = None

    def _schedule(self, event: SequenceScheduled) -> None:
        seq_id = event.seq_id
        self.has_moved = True
        already = self._planned.get(seq_id, (0, 0))[1]
        computed = self._computed.get(seq_id, 0) + already
        known = self._known.get(seq_id, 0)
        self.scheduled.append(Scheduled(seq_id, event.start, event.num_tokens, computed, known))
        self._planned[seq_id] = (event.start, event.num_tokens)

    def _write(self, event: SlotsWritten) -> None:
        seq_id, start = event.seq_id, event.start
        stop = start + event.num_tokens
        planned = self._planned.get(seq_id)
        if planned is not None and planned != (start, event.num_tokens):
            self.unplanned.append(Unplanned(seq_id, start, event.num_tokens, planned))
        table = self._tables.get(seq_id, [])
        for index in range(start // self._size, min(len(table), -(-stop // self._size))):
            page_id = table[index]
            offset = max(0, start - index * self._size)
            fill, page_hash = self._fill(page_id), self.hash_now(page_id)
            if page_hash is not None and offset < fill:
                self.overwritten.append(Overwritten(seq_id, page_id, offset, fill, page_hash))
            if self._has_forks and page_hash is None:
                num_owners = sum(page_id in pages for pages in self._tables.values())
                if num_owners > 1:
                    self.shared_writes.append(SharedWrite(seq_id, page_id, offset, num_owners))
            # A write that leaves a hole fills nothing: what lies below is not there.
            if offset <= fill:
                self._fills[page_id] = max(fill, min(self._size, stop - index * self._size))
        self._computed[seq_id] = stop
        self._readers.append((seq_id, stop))

    def _restore(self, event: SwappedIn) -> None:
        table, stop = self._tables.get(event.seq_id, []), event.start + event.num_tokens
        for index in range(event.start // self._size, min(len(table), -(-stop // self._size))):
            self._fills[table[index]] = min(self._size, stop - index * self._size)

    def _read(self) -> None:
        for seq_id, stop in self._readers:
            table = self._tables.get(seq_id, [])
            for index in range(-(-stop // self._size)):
                needed = min(self._size, stop - index * self._size)
                page_id = table[index] if index < len(table) else None
                fill = 0 if page_id is None else self._fill(page_id)
                if fill < needed:
                    self.unwritten.append(Unwritten(seq_id, index, page_id, needed, fill))
        self._readers.clear()

    def _fill(self, page_id: int) -> int:
        fill = self._fills.get(page_id)
        return self._pages[page_id].fill if fill is None else fill

    def hash_now(self, page_id: int) -> int | None:
        return self.hashes[page_id] if page_id in self.hashes else self._pages[page_id].page_hash
