"""PageOwners: which sequence owns which pages, and who may share them.

             reserve: head of the queue, or a prefix hit from its middle
        free ----------------------------------> active (ref_count >= 1) <- fork: one owner more
          ^                                         |
          |  front: unhashed        release         |
          +-----------------------------------------+
          back: hashed = cached, evicted only when it reaches the head

Invariants: one PageTable per registered sequence, owned here; ref_count of a page = tables that
hold it; a call either happens whole or raises and has changed nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from pagedviz.engine.errors import (
    MaxPagesExceeded,
    MaxSequencesExceeded,
    OutOfPages,
    SequenceExists,
    SequenceNotFound,
)
from pagedviz.engine.events import (
    Emit,
    PageAllocated,
    PageCopied,
    PageEvicted,
    PageHashed,
    PageReleased,
    PageShared,
)
from pagedviz.engine.holding import BlockManagerConfig, Holding
from pagedviz.engine.ids import PageId, SeqId
from pagedviz.engine.page_table import PageTable
from pagedviz.engine.pages import KvPagePool
from pagedviz.engine.prefix_cache import NoPrefixCache, SharedPrefixCache
from pagedviz.engine.prefix_entry import Entry
from pagedviz.engine.prefix_hash import PrefixChain, extend_together


class PageOwners:
    def __init__(
        self,
        pool: KvPagePool,
        config: BlockManagerConfig | None = None,
        cache: SharedPrefixCache | None = None,
        emit: Emit | None = None,
        frees_unhashed_first: bool = True,
    ) -> None:
        self.pool = pool
        self._frees_unhashed_first = frees_unhashed_first
        self.config = config or BlockManagerConfig()
        self.cache = cache if cache is not None else NoPrefixCache(pool.config.block_size)
        pool.is_findable = self.cache.__contains__
        self._emit = emit
        self._holdings: dict[SeqId, Holding] = {}
        self._block_size = pool.config.block_size

    # ---- registering ---------------------------------------------------------------------

    @property
    def active_sequences(self) -> int:
        return len(self._holdings)

    def register(self, seq_id: SeqId, chain: PrefixChain | None = None) -> PageTable:
        """An empty page table for a new sequence. SequenceExists, MaxSequencesExceeded."""
        if seq_id in self._holdings:
            raise SequenceExists(seq_id)
        limit = self.config.max_sequences
        if limit is not None and len(self._holdings) >= limit:
            raise MaxSequencesExceeded(limit)
        table = PageTable(self._block_size)
        self._holdings[seq_id] = Holding(seq_id, table, chain)
        return table

    def unregister(self, seq_id: SeqId) -> PageTable:
        """Forget a sequence; the table comes back listing the pages it held, which are released."""
        table = self._holding(seq_id).table
        record = PageTable(self._block_size)
        for page_id, generation in zip(table.page_ids, table.generations, strict=True):
            record.append(page_id, generation)
        self.release(seq_id)
        del self._holdings[seq_id]
        return record

    def page_table(self, seq_id: SeqId) -> PageTable:
        """SequenceNotFound."""
        return self._holding(seq_id).table

    def page_tables(self, seq_ids: Iterable[SeqId]) -> list[PageTable]:
        """Those of many sequences. SequenceNotFound."""
        holdings = self._holdings
        try:
            return [holdings[seq_id].table for seq_id in seq_ids]
        except KeyError as error:
            raise SequenceNotFound(error.args[0]) from None

    def _holding(self, seq_id: SeqId) -> Holding:
        holding = self._holdings.get(seq_id)
        if holding is None:
            raise SequenceNotFound(seq_id)
        return holding

    # ---- reserving and releasing -----------------------------------------------------------

    def fork(self, parent_id: SeqId, seq_id: SeqId, num_tokens: int) -> None:
        """Put the pages with a sequence's first `num_tokens` tokens, the partial tail included,
        into the table of one registered just now. SequenceNotFound."""
        parent, child = self._holding(parent_id), self._holding(seq_id)
        num_pages = -(-num_tokens // self._block_size)
        child.entries = parent.entries.copy()
        child.num_hashed = parent.num_hashed
        for index in range(num_pages):
            page_id = parent.table.page_ids[index]
            child.table.append(page_id, parent.table.generations[index])
            self.pool.ref_counts[page_id] += 1
            if self._emit is not None:
                self._emit(PageShared(page_id, self.pool.ref_counts[page_id], seq_id, index))
        # Whoever of the two writes first must ask, and so must the other, who may then be alone.
        parent.table.quiet_until = child.table.quiet_until = 0

    def pages_needed(self, seq_id: SeqId, num_tokens: int, hits: Sequence[Entry] = ()) -> int:
        """Pages that must leave the queue before the first `num_tokens` tokens have slots: new
        ones, and hits that nobody owns."""
        held = len(self._holding(seq_id).table)
        num_new = -(-num_tokens // self._block_size) - held - len(hits)
        return max(0, num_new) + self._idle_hits(hits)

    def reserve(
        self,
        seq_id: SeqId,
        num_tokens: int,
        hits: Sequence[Entry] = (),
        write_from: int | None = None,
    ) -> list[PageId]:
        """Give a sequence slots for its first `num_tokens` tokens; returns the pages it gained.

        `hits` (from `cache.walk`, for a sequence that holds no pages yet) come first, then the head
        of the queue. Pages from position `write_from` on that others hold too are replaced by
        copies. Raises SequenceNotFound, OutOfPages, MaxPagesExceeded.
        """
        holding = self._holdings.get(seq_id)
        if holding is None:
            raise SequenceNotFound(seq_id)
        table = holding.table
        num_held = len(table.page_ids)
        num_new = max(0, -(-num_tokens // self._block_size) - num_held - len(hits))
        shared = [] if write_from is None else self._shared_pages(table, write_from, num_tokens)
        if not num_new and not hits and not shared:
            self._note_next_turn(holding)
            return []
        limit = self.config.max_pages_per_seq
        if limit is not None and num_held + len(hits) + num_new > limit:
            raise MaxPagesExceeded(seq_id, num_held + len(hits) + num_new, limit)
        needed = num_new + len(shared) + (self._idle_hits(hits) if hits else 0)
        if needed > len(self.pool.queue):
            raise OutOfPages(needed, len(self.pool.queue))
        for index in shared:
            self._copy(seq_id, table, index, min(write_from or 0, (index + 1) * self._block_size))
        self._extend(holding, hits, num_new)
        self._note_next_turn(holding)
        return table.page_ids[num_held:]

    def _shared_pages(self, table: PageTable, write_from: int, num_tokens: int) -> list[int]:
        """Places in a table, between two positions, whose pages have other owners too."""
        size, ref_counts = self._block_size, self.pool.ref_counts
        last = min(len(table), -(-num_tokens // size))
        return [
            index
            for index in range(write_from // size, last)
            if ref_counts[table.page_ids[index]] > 1
        ]

    def _copy(self, seq_id: SeqId, table: PageTable, index: int, stop: int) -> None:
        """Replace page `index` by a copy of its slots below position `stop`."""
        source_id = table.page_ids[index]
        page_id, generation = self._take_head()
        num_slots = stop - index * self._block_size
        # At once and not with the step's own work: before that is done, the source may have been
        # released by a preemption and handed out again.
        self.pool.copy_page(source_id, page_id, num_slots)
        source_ref_count = self.pool.release_page(source_id)
        table.page_ids[index], table.generations[index] = page_id, generation
        if self._emit is not None:
            self._emit(
                PageCopied(
                    page_id, generation, source_id, source_ref_count, seq_id, index, num_slots
                )
            )

    def _note_next_turn(self, holding: Holding) -> None:
        table = holding.table
        table.quiet_until = len(table.page_ids) * self._block_size
        if holding.chain is not None:
            # One short of the next page's last slot: the token that takes it completes the page.
            next_full = (holding.num_hashed + 1) * self._block_size
            if table.quiet_until >= next_full:
                table.quiet_until = next_full - 1

    def _extend(self, holding: Holding, hits: Sequence[Entry], num_new: int) -> None:
        """Put the hits and then new pages behind those that a sequence holds."""
        # Hits leave the queue before it is popped, or a page could evict its own prefix.
        if hits:
            self._take_hits(holding.seq_id, holding, hits)
        for _ in range(num_new):
            self._allocate(holding.seq_id, holding.table)

    def _idle_hits(self, hits: Sequence[Entry]) -> int:
        ref_counts = self.pool.ref_counts
        return [ref_counts[next(iter(entry.page_ids))] for entry in hits].count(0)

    def _take_hits(self, seq_id: SeqId, holding: Holding, hits: Sequence[Entry]) -> None:
        pool, table, emit = self.pool, holding.table, self._emit
        queue, ref_counts = pool.queue, pool.ref_counts
        assert not table.page_ids
        table.page_ids = [entry.oldest_page for entry in hits]
        table.generations = [pool.generations[page_id] for page_id in table.page_ids]
        for index, page_id in enumerate(table.page_ids):
            if not ref_counts[page_id]:
                del queue[page_id]
            ref_counts[page_id] += 1
            if emit is not None:
                emit(PageShared(page_id, ref_counts[page_id], seq_id, index))
        holding.entries = list(hits)
        holding.num_hashed = len(hits)

    def _allocate(self, seq_id: SeqId, table: PageTable) -> None:
        page_id, generation = self._take_head()
        if self._emit is not None:
            self._emit(PageAllocated(page_id, generation, seq_id, len(table.page_ids)))
        table.page_ids.append(page_id)
        table.generations.append(generation)

    def _take_head(self) -> tuple[PageId, int]:
        """Page and generation. Eviction is lazy: a cached page keeps its content until it is taken
        for something else."""
        page_id = self.pool.alloc_page()
        if page_id in self.cache.entry_of:
            page_hash = self.cache.forget_page(page_id)
            if self._emit is not None and page_hash is not None:
                self._emit(PageEvicted(page_id, page_hash))
        return page_id, self.pool.generations[page_id]

    def hash_pages(self, covered: Sequence[tuple[SeqId, int]]) -> None:
        """Make the pages findable that lie whole below each (seq_id, num_tokens).

        Called when a plan covers a page's last slot, before its K/V are computed, so that requests
        of the same step can share it. That is sound because a step writes all K/V of a layer
        before any attention of that layer reads.
        """
        size, add_page, emit = self._block_size, self.cache.add_page, self._emit
        ready: list[tuple[Holding, PrefixChain, int]] = []
        for seq_id, num_tokens in covered:
            holding = self._holdings[seq_id]
            num_full = num_tokens // size
            if num_full > holding.num_hashed and holding.chain is not None:
                ready.append((holding, holding.chain, num_full))
        extend_together([chain for _, chain, _ in ready])
        for holding, chain, num_full in ready:
            entries, page_ids = holding.entries, holding.table.page_ids
            num_full = min(num_full, len(chain.hashes))  # unknown tokens have no hash
            while holding.num_hashed < num_full:
                index = holding.num_hashed
                holding.num_hashed = index + 1
                if len(entries) < index:
                    continue  # a hash collision further up: nothing could walk to this page
                page_hash = add_page(chain, entries, page_ids[index])
                if page_hash is None:
                    continue
                for older in self.cache.superseded(page_ids[index]):
                    self.cache.forget_page(older)
                    if not self.pool.ref_counts[older]:
                        self.pool.fills[older] = 0
                    if emit is not None:
                        emit(PageEvicted(older, page_hash))
                if emit is not None:
                    emit(PageHashed(page_ids[index], page_hash, holding.seq_id, index))
            self._note_next_turn(holding)

    def release(self, seq_id: SeqId) -> None:
        """Let go of all pages, last page first, and keep the empty table.

        Tail first, so that of one prefix the head is evicted last. Unowned pages without a hash go
        to the front of the queue in that order (their content is worthless), hashed ones to the
        back. SequenceNotFound.
        """
        holding = self._holding(seq_id)
        pool, cache, table, emit = self.pool, self.cache, holding.table, self._emit
        front = pool.queue_head
        unhashed: list[PageId] = []
        for page_id in reversed(table.page_ids):
            ref_count = pool.release_page(page_id)
            before = None
            if ref_count == 0 and (page_id in cache or not self._frees_unhashed_first):
                pool.put_at_back(page_id)
            elif ref_count == 0:
                unhashed.append(page_id)
                before = front
            if emit is not None:
                emit(PageReleased(page_id, seq_id, ref_count, before))
        pool.put_in_front(unhashed)
        table.clear()
        holding.entries = []
        holding.num_hashed = 0
