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
    """By page that is listed as findable: pages, entries, and their hashes and contents. By entry
    that lookups find: keys, finders, the entries, and found, their pages."""

    pages: list[PageId]
    entries: list[Entry]
    hashes: list[int]
    contents: list[Page]
    keys: list[int]
    finders: list[Entry]
    found: list[dict[PageId, None]]

    def starts_with(self, other: LookupMap) -> bool:
        """Whether this is `other`, perhaps with more pages and entries behind."""
        num_pages, num_keys = len(other.pages), len(other.keys)
        return (
            self.pages[:num_pages] == other.pages
            and self.entries[:num_pages] == other.entries
            and self.hashes[:num_pages] == other.hashes
            and self.contents[:num_pages] == other.contents
            and self.keys[:num_keys] == other.keys
            and self.finders[:num_keys] == other.finders
            and self.found[:num_keys] == other.found
        )


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
    `tables`, those that are not; num_same: how many pages and entries of `map` stand as they stood.
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
        self.num_same: tuple[int, int]
        self.hashes: dict[int, int]
        self.contents: dict[int, Page]
        self.num_computed = [sequence.num_computed for sequence in self.sequences]
        self.fills: list[int] = []
        self.ref_counts = pool.ref_counts[:]
        self.generations = pool.generations[:]
        self._read_tables(last)
        self._read_map(last)

    def _read_tables(self, last: LiveState | None) -> None:
        sequences, manager = self.sequences, self.engine.block_manager
        tables = manager.page_tables([sequence.id for sequence in sequences])
        self.numbers = [sequence.number for sequence in sequences]
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
        finders = [*cache.entries.values()]
        # One loop for each attribute is faster than one for all.
        now = LookupMap(
            [*listed],
            under,
            [entry.page_hash for entry in under],
            [entry.token_ids for entry in under],
            [*cache.entries],
            finders,
            [entry.page_ids for entry in finders],
        )
        self.has_same_map, self.num_same = False, (0, 0)
        if last is not None and now.starts_with(last.map):
            self.num_same = num_pages, num_entries = len(last.map.pages), len(last.map.keys)
            if len(now.pages) == num_pages and len(now.keys) == num_entries:
                self.has_same_map, self.map = True, last.map
                self.hashes, self.contents = last.hashes, last.contents
                return
            found = last.map.found + [{**page_ids} for page_ids in now.found[num_entries:]]
        else:
            found = [{**page_ids} for page_ids in now.found]
        self.map = LookupMap(*now[:-1], found)
        self.hashes = dict(zip(now.pages, now.hashes, strict=True))
        self.contents = dict(zip(now.pages, now.contents, strict=True))

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
            if stop == start:
                continue
            last_index = (stop - 1) // size
            if stop - start > 1:
                for page_id in page_ids[start // size : last_index]:
                    fills[page_id] = size
            if last_index < len(page_ids):
                tail, fill = page_ids[last_index], stop - last_index * size
                if fills[tail] < fill:
                    fills[tail] = fill
        self.fills = fills
        return fills

    def as_start(self, fills: list[int], is_right: bool) -> StepStart:
        """What the next step begins with. is_right: all rules hold."""
        num_known = [len(sequence.token_ids) for sequence in self.sequences]
        return StepStart(
            self.block_size,
            dict(zip(self.numbers, self.tables, strict=True)),
            dict(zip(self.numbers, self.num_computed, strict=True)),
            dict(zip(self.numbers, num_known, strict=True)),
            fills,
            self.hashes,
            self.contents,
            self.roll.has_forks,
            is_right,
        )
