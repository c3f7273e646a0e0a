"""StepPages: what a step's events make of the pages: who holds them, how full they are, and by
which hash they are found.

Invariant: it starts from what held before the step and believes only the events after it; what it
starts from is not changed.
"""

from __future__ import annotations

from collections.abc import Sequence

from pagedviz.engine.events import (
    PageAllocated,
    PageCopied,
    PageEvicted,
    PageHashed,
    PageReleased,
    PageShared,
)
from pagedviz.engine.step_start import StepStart


class StepPages:
    """hits: page_id -> the sequence that hit it last in this step. fills: written slots of each
    page. hashes: pages handed out or hashed in this step, and the hash they have now. An eviction
    alone does not count: what makes a page lose its hash is that it is handed out again, or that
    another page takes the hash over."""

    def __init__(self, start: StepStart) -> None:
        self.hits: dict[int, int] = {}
        self.evicted: set[int] = set()
        self.hashes: dict[int, int | None] = {}
        self.fills = list(start.fills)
        self._hashes_before = start.hashes
        self._tables: dict[int, Sequence[int]] = dict(start.tables)
        self._changed: dict[int, list[int]] = {}
        """Those tables that are no longer those of the start."""
        self._lowered: set[int] = set()
        """Pages that were emptied in this step, be it to be written again."""
        self._evicted_by_hash: dict[int, list[int]] = {}

    def _evicted(self, event: PageEvicted) -> None:
        self.evicted.add(event.page_id)
        self.hashes.pop(event.page_id, None)
        self._evicted_by_hash.setdefault(event.page_hash, []).append(event.page_id)

    def _hashed(self, event: PageHashed) -> None:
        for page_id in self._evicted_by_hash.pop(event.page_hash, ()):
            self.hashes.setdefault(page_id, None)
        self.hashes[event.page_id] = event.page_hash

    def _allocated(self, event: PageAllocated) -> None:
        self.hashes[event.page_id] = None
        self._set_fill(event.page_id, 0)
        self._add_page(event.seq_id, event.logical_index, event.page_id)

    def _shared(self, event: PageShared) -> None:
        self.hits[event.page_id] = event.seq_id
        self._add_page(event.seq_id, event.logical_index, event.page_id)

    def _copied(self, event: PageCopied) -> None:
        self.hashes[event.page_id] = None
        self._set_fill(event.page_id, min(event.num_slots, self._fill(event.source_id)))
        pages = self._own_table(event.seq_id)
        if event.logical_index < len(pages):
            pages[event.logical_index] = event.page_id

    def _own_table(self, seq_id: int) -> list[int]:
        """A table that may be changed: those of the start belong to it."""
        table = self._changed.get(seq_id)
        if table is None:
            table = self._changed[seq_id] = [*self._tables.get(seq_id, ())]
            self._tables[seq_id] = table
        return table

    def _add_page(self, seq_id: int, index: int, page_id: int) -> None:
        self._own_table(seq_id).insert(index, page_id)

    def _released(self, event: PageReleased) -> None:
        del self._own_table(event.seq_id)[-1:]
        if event.ref_count == 0 and self.hash_now(event.page_id) is None:
            self._set_fill(event.page_id, 0)

    def _fill(self, page_id: int) -> int:
        return self.fills[page_id] if 0 <= page_id < len(self.fills) else 0

    def _set_fill(self, page_id: int, fill: int) -> None:
        if 0 <= page_id < len(self.fills):  # rule 3 is about pages that do not exist
            if fill < self.fills[page_id]:
                self._lowered.add(page_id)
            self.fills[page_id] = fill

    def hash_now(self, page_id: int) -> int | None:
        if page_id in self.hashes:
            return self.hashes[page_id]
        return self._hashes_before.get(page_id)
