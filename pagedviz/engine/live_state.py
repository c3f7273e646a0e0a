"""LiveState: what the live checker reads off an engine at the end of a step, and its own accounts.

Invariants: everything comes from the structures themselves (tables, queue, counts, fills, lookup
map, tokens), never from a snapshot or from a number somebody derived; looking changes nothing.
"""

from __future__ import annotations

from itertools import islice
from typing import NamedTuple

from pagedviz.engine.block_manager import BlockManager
from pagedviz.engine.ids import PageId
from pagedviz.engine.page_table import PageTable
from pagedviz.engine.prefix_cache import Entry
from pagedviz.engine.scheduler import Scheduler
from pagedviz.engine.sequence import FinishReason, Sequence
from pagedviz.engine.sequence_manager import SequenceManager
from pagedviz.engine.step_facts import StepStart

Page = tuple[int | None, ...]


class Audited(NamedTuple):
    """The parts of an engine that the rules are about."""

    num_steps: int
    block_manager: BlockManager
    sequences: SequenceManager
    scheduler: Scheduler


class Roll:
    """Who is there, who has ended and who was aborted: kept from step to step, so that a long run
    does not make the check slower."""

    def __init__(self) -> None:
        self.open: list[Sequence] = []
        self.ended: list[Sequence] = []
        self.aborted: set[int] = set()
        self.has_forks = False
        self._num_seen = 0

    def update(self, engine: Audited) -> list[Sequence]:
        """Note who has come and who has gone; returns those that have ended since the last time."""
        for sequence in islice(engine.sequences, self._num_seen, None):
            self.open.append(sequence)
            self.has_forks |= sequence.parent_id is not None
        self._num_seen = len(engine.sequences)
        gone = [sequence for sequence in self.open if sequence.finish_reason is not None]
        if gone:
            self.open = [sequence for sequence in self.open if sequence.finish_reason is None]
            self.ended += gone
            self.aborted.update(
                sequence.number
                for sequence in gone
                if sequence.finish_reason is FinishReason.ABORTED
            )
        return gone


class LiveState:
    """tables, page_lists: of the open sequences, in their order, and the pages in them.
    entries: the lookup map turned round, page -> the entry by which a lookup finds it. hashes,
    contents: hash and tokens of each findable page."""

    def __init__(self, engine: Audited, roll: Roll) -> None:
        self.engine = engine
        self.roll = roll
        self.pool = engine.block_manager.pool
        self.block_size = self.pool.config.block_size
        self.num_pages = len(self.pool.page_ids)
        self.sequences = roll.open
        table_of = engine.block_manager.page_table
        self.tables: list[PageTable] = [table_of(s.id) for s in roll.open]
        self.page_lists: list[list[PageId]] = [table.page_ids for table in self.tables]
        cache = engine.block_manager.cache
        self.entry_of = cache.entry_of
        self.entries: dict[PageId, Entry] = {
            page_id: entry for entry in cache.entries.values() for page_id in entry.page_ids
        }
        listed = self.entry_of.items()
        self.hashes: dict[int, int] = {page_id: entry.page_hash for page_id, entry in listed}
        self.contents: dict[int, Page] = {page_id: entry.token_ids for page_id, entry in listed}

    def count_owners(self) -> list[int] | None:
        """[num_pages]: tables that hold each page; None if a table lists what cannot be, or a page
        twice."""
        counts = [0] * self.num_pages
        for page_ids in self.page_lists:
            if page_ids and (
                min(page_ids) < 0
                or max(page_ids) >= self.num_pages
                or len(set(page_ids)) < len(page_ids)
            ):
                return None
            for page_id in page_ids:
                counts[page_id] += 1
        return counts

    def as_start(self, fills: list[int]) -> StepStart:
        """What the next step begins with."""
        return StepStart(
            self.block_size,
            {
                sequence.number: page_ids[:]
                for sequence, page_ids in zip(self.sequences, self.page_lists, strict=True)
            },
            {sequence.number: sequence.num_computed for sequence in self.sequences},
            {sequence.number: len(sequence.token_ids) for sequence in self.sequences},
            fills,
            self.hashes,
            self.contents,
            self.roll.has_forks,
        )
