"""LiveState: what the live checker reads off an engine at the end of a step, and its own accounts.

Invariants: everything comes from the structures themselves (tables, queue, counts, fills, lookup
map, tokens), read whole at every step, never from a snapshot or from a number somebody derived;
looking changes nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import islice
from typing import NamedTuple

from pagedviz.engine.block_manager import BlockManager
from pagedviz.engine.prefix_cache import Entry
from pagedviz.engine.scheduler import Scheduler
from pagedviz.engine.sequence import FinishReason, Sequence
from pagedviz.engine.sequence_manager import SequenceManager
from pagedviz.engine.step_facts import StepStart

Page = tuple[int | None, ...]


class Audited(NamedTuple):
    """The parts of an engine that the rules are about. reads: how many slots attention has read for
    each sequence in this step, as the model told."""

    num_steps: int
    block_manager: BlockManager
    sequences: SequenceManager
    scheduler: Scheduler
    reads: Mapping[int, int] | None = None


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
    """numbers, tables, given: ids of the open sequences, pages in their tables, and the generations
    in which they were given. counts: [num_pages] tables that hold each page, None if a table lists
    what cannot be, or a page twice. queue, ref_counts, generations: of the pool. hashes, contents:
    hash and tokens of each findable page. num_computed, fills: by sequence and by page, once
    `expected_fills` was asked. All are copies.

    `last` is the state before, if all was right with it: what is made of equal parts is not made
    again. has_same_tables, has_same_map: whether they are equal to those of `last`.
    """

    def __init__(self, engine: Audited, roll: Roll, last: LiveState | None) -> None:
        self.engine = engine
        self.roll = roll
        self.pool = pool = engine.block_manager.pool
        self.block_size = pool.config.block_size
        self.num_pages = len(pool.page_ids)
        self.sequences = roll.open
        self.queue: list[int] = list(pool.queue)
        self.tables: list[list[int]]
        self.given: list[list[int]]
        self.counts: list[int] | None
        self.hashes: dict[int, int]
        self.contents: dict[int, Page]
        self.num_computed: list[int] = []
        self.fills: list[int] = []
        self.ref_counts = pool.ref_counts[:]
        self.generations = pool.generations[:]
        self._read_tables(last)
        self._read_map(last)

    def _read_tables(self, last: LiveState | None) -> None:
        table_of = self.engine.block_manager.page_table
        tables = [table_of(sequence.id) for sequence in self.sequences]
        self.numbers = [sequence.number for sequence in self.sequences]
        page_lists = [table.page_ids for table in tables]
        given = [table.generations for table in tables]
        self.has_same_tables = False
        if last is None or self.numbers != last.numbers or last.counts is None:
            self.tables = [[*page_ids] for page_ids in page_lists]
            self.given = [[*generations] for generations in given]
            self.counts = self._count([], self.tables)
        elif page_lists == last.tables and given == last.given:
            self.has_same_tables = True
            self.tables, self.given, self.counts = last.tables, last.given, last.counts
        else:
            self.tables, self.given = last.tables[:], last.given[:]
            places = [
                place
                for place, page_ids in enumerate(page_lists)
                if page_ids != last.tables[place] or given[place] != last.given[place]
            ]
            for place in places:
                self.tables[place] = [*page_lists[place]]
                self.given[place] = [*given[place]]
            self.counts = self._count(
                [last.tables[place] for place in places],
                [self.tables[place] for place in places],
                last.counts,
            )

    def _count(
        self, gone: list[list[int]], come: list[list[int]], counts: list[int] | None = None
    ) -> list[int] | None:
        """`counts` after the tables `gone` were replaced by `come`."""
        counts = [0] * self.num_pages if counts is None else counts[:]
        for page_ids in gone:
            for page_id in page_ids:
                counts[page_id] -= 1
        for page_ids in come:
            if page_ids and (
                min(page_ids) < 0
                or max(page_ids) >= self.num_pages
                or len(set(page_ids)) < len(page_ids)
            ):
                return None
            for page_id in page_ids:
                counts[page_id] += 1
        return counts

    def _read_map(self, last: LiveState | None) -> None:
        cache = self.engine.block_manager.cache
        listed, entries = cache.entry_of, cache.entries
        self._raw_map = (
            [*listed],
            [*listed.values()],
            [entry.page_hash for entry in listed.values()],
            [entry.token_ids for entry in listed.values()],
            [*entries],
            [page_id for entry in entries.values() for page_id in entry.page_ids],
        )
        self.has_same_map = last is not None and self._raw_map == last._raw_map
        if last is not None and self.has_same_map:
            self.hashes, self.contents = last.hashes, last.contents
        else:
            self.hashes = {page_id: entry.page_hash for page_id, entry in listed.items()}
            self.contents = {page_id: entry.token_ids for page_id, entry in listed.items()}

    def entries_by_page(self) -> dict[int, Entry]:
        """The lookup map turned round: page -> the entry by which a lookup finds it."""
        entries = self.engine.block_manager.cache.entries
        return {page_id: entry for entry in entries.values() for page_id in entry.page_ids}

    def expected_fills(self, counts: list[int], last: LiveState | None) -> list[int]:
        """[num_pages]: slots that the owners' computed tokens fill; a page that only the lookup map
        knows is full, any other is empty."""
        size = self.block_size
        self.num_computed = [sequence.num_computed for sequence in self.sequences]
        if last is not None and self.has_same_tables and self.has_same_map:
            fills, starts = last.fills[:], last.num_computed
        else:
            fills, starts = [0] * self.num_pages, [0] * len(self.tables)
            for page_id in self.hashes:
                if not counts[page_id]:
                    fills[page_id] = size
        for page_ids, start, stop in zip(self.tables, starts, self.num_computed, strict=True):
            if stop < start:
                return self.expected_fills(counts, None)
            num_full, rest = divmod(stop, size)
            for page_id in page_ids[start // size : num_full]:
                fills[page_id] = size
            if rest and num_full < len(page_ids):
                tail = page_ids[num_full]
                if fills[tail] < rest:
                    fills[tail] = rest
        self.fills = fills
        return fills

    def as_start(self, fills: list[int]) -> StepStart:
        """What the next step begins with."""
        return StepStart(
            self.block_size,
            dict(zip(self.numbers, self.tables, strict=True)),
            {sequence.number: sequence.num_computed for sequence in self.sequences},
            {sequence.number: len(sequence.token_ids) for sequence in self.sequences},
            fills,
            self.hashes,
            self.contents,
            self.roll.has_forks,
        )
