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
from pagedviz.engine.ids import PageId
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


class LookupMap(NamedTuple):
    """By page that is listed as findable: pages, entries, and their hashes and contents. By entry:
    keys, by which lookups find it, and found, the pages that they find."""

    pages: list[PageId]
    entries: list[Entry]
    hashes: list[int]
    contents: list[Page]
    keys: list[int]
    found: list[dict[PageId, None]]


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
        if len(engine.sequences) > self._num_seen:
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
    hash and tokens of each findable page. map: the lookup map. num_computed: tokens, by sequence.
    fills: by page, once `expected_fills` was asked. All are copies.

    `last` is the state before, if all was right with it. Every structure is read whole all the
    same, but what follows from it is incremental: counts and fills are those of `last` plus what
    has changed since, and a table or map equal to that of `last` is not derived from again.
    has_same_tables, has_same_map: whether they are equal to those of `last`; new_places: in
    `tables`, those that are not.
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
        self.map: LookupMap
        self.hashes: dict[int, int]
        self.contents: dict[int, Page]
        self.num_computed = [sequence.num_computed for sequence in self.sequences]
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
        self.new_places: list[int] = []
        known: dict[int, tuple[list[int], list[int]]] = {}
        if last is not None and last.counts is not None:
            if self.numbers == last.numbers and page_lists == last.tables and given == last.given:
                self.has_same_tables = True
                self.tables, self.given, self.counts = last.tables, last.given, last.counts
                return
            known = dict(zip(last.numbers, zip(last.tables, last.given, strict=True), strict=True))
        self.tables, self.given = [], []
        come: list[list[int]] = []
        gone: list[list[int]] = []
        for place, number in enumerate(self.numbers):
            page_ids, generations = page_lists[place], given[place]
            old = known.pop(number, None)
            if old is not None and old[0] == page_ids and old[1] == generations:
                self.tables.append(old[0])
                self.given.append(old[1])
                continue
            own_ids: list[int] = [*page_ids]
            self.tables.append(own_ids)
            self.given.append([*generations])
            self.new_places.append(place)
            come.append(own_ids)
            if old is not None:
                gone.append(old[0])
        gone += [page_ids for page_ids, _ in known.values()]
        self.counts = self._count(gone, come, None if last is None else last.counts)

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
        listed, under = cache.entry_of, [*cache.entry_of.values()]
        # One loop for each attribute is faster than one for all.
        now = LookupMap(
            [*listed],
            under,
            [entry.page_hash for entry in under],
            [entry.token_ids for entry in under],
            [*cache.entries],
            [entry.page_ids for entry in cache.entries.values()],
        )
        self.has_same_map = last is not None and now == last.map
        if last is not None and self.has_same_map:
            self.map = last.map
        else:
            self.map = now._replace(found=[{**page_ids} for page_ids in now.found])
        if last is not None and self.has_same_map:
            self.hashes, self.contents = last.hashes, last.contents
        else:
            self.hashes = dict(zip(self.map.pages, self.map.hashes, strict=True))
            self.contents = dict(zip(self.map.pages, self.map.contents, strict=True))

    def expected_fills(self, counts: list[int], last: LiveState | None) -> list[int]:
        """[num_pages]: slots that the owners' computed tokens fill; a page that only the lookup map
        knows is full, any other is empty."""
        size = self.block_size
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
            if stop - start != 1 or not rest:
                for page_id in page_ids[start // size : num_full]:
                    fills[page_id] = size
            if rest and num_full < len(page_ids):
                tail = page_ids[num_full]
                if fills[tail] < rest:
                    fills[tail] = rest
        self.fills = fills
        return fills

    def as_start(self, fills: list[int], is_right: bool) -> StepStart:
        """What the next step begins with. is_right: all rules hold."""
        return StepStart(
            self.block_size,
            dict(zip(self.numbers, self.tables, strict=True)),
            dict(zip(self.numbers, self.num_computed, strict=True)),
            {sequence.number: len(sequence.token_ids) for sequence in self.sequences},
            fills,
            self.hashes,
            self.contents,
            self.roll.has_forks,
            is_right,
        )
