"""LiveState: what the live checker reads off an engine at the end of a step, and its own accounts.

Invariants: everything comes from the structures themselves (tables, queue, counts, fills, lookup
map, tokens), read whole at every step, never from a snapshot or from a number somebody derived;
looking changes nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import chain, islice
from operator import lt
from typing import NamedTuple

from pagedviz.engine.block_manager import BlockManager
from pagedviz.engine.host_pool import HostPool
from pagedviz.engine.lookup_map import LookupMap, Page, read_map
from pagedviz.engine.scheduler import Scheduler
from pagedviz.engine.sequence import Sequence
from pagedviz.engine.sequence_manager import SequenceManager
from pagedviz.engine.sequence_state import FinishReason
from pagedviz.engine.step_start import StepStart


class Audited(NamedTuple):
    """The parts of an engine that the rules are about. reads: how many slots attention has read for
    each sequence in this step, as the model told."""

    num_steps: int
    block_manager: BlockManager
    sequences: SequenceManager
    scheduler: Scheduler
    reads: Mapping[int, int] | None = None
    host_pool: HostPool | None = None


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
    """What an engine holds. All are copies.

    sequences: the open ones; numbers, tables, given: their ids, the pages in their tables, and the
    generations in which they were given; num_computed: their tokens that have K/V. counts:
    [num_pages] tables that hold each page, None if a table lists what cannot be, or a page twice;
    shared: pages of several of them that no lookup finds. queue, ref_counts, generations: of the
    pool. map: the lookup map; hashes, contents: hash and tokens of each findable page. fills: by
    page, once `expected_fills` was asked.

    before: the state of the step before, called `last` if all was right with it. Every structure
    is read whole all the same, but what follows from one that is equal to that of `last` is not
    derived again. has_same_tables, has_same_map: whether they are; changed: pages for which the
    lookup map is not that of `before`.
    """

    def __init__(self, engine: Audited, roll: Roll, before: LiveState | None) -> None:
        self.engine = engine
        self.roll = roll
        self.pool = pool = engine.block_manager.pool
        self.block_size = pool.config.block_size
        self.num_pages = len(pool.page_ids)
        self.is_right = False
        """Whether all rules hold; for the checker to say."""
        last = before if before is not None and before.is_right else None
        self.sequences = roll.open
        self.numbers = [sequence.number for sequence in self.sequences]
        self.num_computed = [sequence.num_computed for sequence in self.sequences]
        self.queue: list[int] = [*pool.queue]
        self.ref_counts = pool.ref_counts[:]
        self.generations = pool.generations[:]
        self.fills: list[int] = []
        self.tables: list[list[int]]
        self.given: list[list[int]]
        self.counts: list[int] | None
        self._read_tables(last)
        self.map_before: LookupMap | None = None if before is None else before.map
        self.map: LookupMap = read_map(engine.block_manager.cache, self.map_before)
        self.hashes: dict[int, int] = self.map.hashes
        self.contents: dict[int, Page] = self.map.contents
        is_same = self.map is self.map_before
        self.changed: set[int] = set() if is_same else self.map.changed
        self.has_same_map = is_same and last is not None
        self.shared: set[int] = set()
        if last is not None and self.has_same_tables and self.has_same_map:
            self.shared = last.shared
        elif self.counts is not None and max(self.counts) > 1:
            self.shared = {
                page_id
                for page_id, count in enumerate(self.counts)
                if count > 1 and page_id not in self.hashes
            }

    def _read_tables(self, last: LiveState | None) -> None:
        all_tables = self.engine.block_manager.page_tables([s.id for s in self.sequences])
        tables = [table.page_ids for table in all_tables]
        given = [table.generations for table in all_tables]
        self.has_same_tables = False
        if last is not None and last.numbers == self.numbers:
            if tables == last.tables and given == last.given:
                self.has_same_tables = True
                self.tables, self.given, self.counts = last.tables, last.given, last.counts
                return
            self.tables = last.tables[:]
        else:
            known = {} if last is None else dict(zip(last.numbers, last.tables, strict=True))
            self.tables = [known.get(number, []) for number in self.numbers]
        self.given = [generations[:] for generations in given]
        is_possible = True
        for place, page_ids in enumerate(tables):
            if page_ids != self.tables[place]:
                own_ids: list[int] = [*page_ids]
                self.tables[place] = own_ids
                is_possible = is_possible and self._is_possible(own_ids)
        self.counts = None
        if is_possible:
            self.counts = counts = [0] * self.num_pages
            for page_id in chain.from_iterable(self.tables):
                counts[page_id] += 1

    def _is_possible(self, page_ids: list[int]) -> bool:
        """Whether all are pages of this pool and no two the same."""
        return not page_ids or (
            min(page_ids) >= 0
            and max(page_ids) < self.num_pages
            and len({*page_ids}) == len(page_ids)
        )

    def expected_fills(self, counts: list[int], last: LiveState | None) -> list[int]:
        """[num_pages]: slots that the owners' computed tokens fill; a page that only the lookup map
        knows is full, any other is empty."""
        size = self.block_size
        if (
            last is not None
            and self.has_same_tables
            and self.has_same_map
            and not any(map(lt, self.num_computed, last.num_computed))
        ):
            fills, starts = last.fills[:], last.num_computed
        else:
            fills, starts = self._cached_fills(counts), [0] * len(self.tables)
        for page_ids, start, stop in zip(self.tables, starts, self.num_computed, strict=True):
            if stop <= start:
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

    def _cached_fills(self, counts: list[int]) -> list[int]:
        fills = [0] * self.num_pages
        for page_id in self.hashes:
            if not counts[page_id]:
                fills[page_id] = self.block_size
        return fills

    def as_start(self, fills: list[int]) -> StepStart:
        """What the next step begins with. fills: [num_pages], written slots."""
        sequences = self.sequences
        return StepStart(
            self.block_size,
            dict(zip(self.numbers, self.tables, strict=True)),
            {sequence.number: sequence.num_computed for sequence in sequences},
            {sequence.number: len(sequence.token_ids) for sequence in sequences},
            fills,
            self.hashes,
            self.contents,
            self.roll.has_forks,
            self.is_right,
        )
