"""ReducedState: pages, free queue, sequences and lists that a reducer changes, and views of them.

Invariants: mutable inside, what `snapshot` gives is frozen and shares every page and sequence that
did not change with the snapshot before; a look or a change at what does not exist raises
TraceFormatError and changes nothing.
"""

from __future__ import annotations

from pagedviz.engine.errors import TraceFormatError
from pagedviz.engine.events import PageAllocated, PageShared, SlotsWritten, SwappedIn
from pagedviz.engine.snapshot import PageView, SequenceView, Snapshot
from pagedviz.trace.linked_queue import LinkedQueue
from pagedviz.trace.open_sequences import OpenSequence, OpenSequences


class ReducedState:
    """The state of a snapshot, of a moment inside or between steps."""

    def __init__(self, snapshot: Snapshot) -> None:
        self.num_steps = snapshot.num_steps
        self.block_size = snapshot.block_size
        self._pages = list(snapshot.pages)
        self._queue = LinkedQueue(snapshot.free_queue)
        self._queue_ids: tuple[int, ...] | None = snapshot.free_queue
        self._waiting = LinkedQueue(snapshot.waiting)
        self._running = LinkedQueue(snapshot.running)
        self._sequences = OpenSequences(snapshot.sequences)
        self.num_tokens = sum(len(view.token_ids) for view in snapshot.sequences)
        self._num_finished_tokens = sum(
            len(view.token_ids) for view in snapshot.sequences if view.finish_reason is not None
        )

    def end_step(self) -> None:
        self.num_steps += 1

    def snapshot(self) -> Snapshot:
        if self._queue_ids is None:
            self._queue_ids = tuple(self._queue)
        return Snapshot(
            self.num_steps,
            self.block_size,
            tuple(self._pages),
            self._queue_ids,
            self._sequences.freeze(),
            tuple(self._waiting),
            tuple(self._running),
        )

    # ---- looking, without the price of a snapshot ----------------------------------------

    @property
    def num_items(self) -> int:
        """About how many values a snapshot of this state has to itself: pages, queue places,
        sequences and the tokens of those that still change."""
        num_places = len(self._pages) + len(self._queue) + len(self._sequences)
        return num_places + self.num_tokens - self._num_finished_tokens

    @property
    def free_count(self) -> int:
        return len(self._queue)

    def page(self, page_id: int) -> PageView:
        if not 0 <= page_id < len(self._pages):
            raise TraceFormatError(
                f"page {page_id:d} does not exist: the pool has {len(self._pages)} pages"
            )
        return self._pages[page_id]

    def is_running(self, seq_id: int) -> bool:
        return seq_id in self._running

    def sequence(self, seq_id: int) -> OpenSequence | SequenceView:
        """To read at once, not to keep. TraceFormatError if it was never submitted."""
        return self._sequences.look(seq_id)

    def page_ids(self, seq_id: int) -> list[int] | tuple[int, ...]:
        """The page table; to read at once, not to keep."""
        return self._sequences.look(seq_id).page_ids

    def written_page_ids(self, event: SlotsWritten | SwappedIn) -> list[int] | tuple[int, ...]:
        """The pages that hold the tokens the event is about."""
        end = event.start + event.num_tokens
        page_ids = self._sequences.look(event.seq_id).page_ids
        if end > len(page_ids) * self.block_size:
            raise TraceFormatError(
                f"tokens {event.start} to {end - 1} of seq:{event.seq_id:d} have no slot: its "
                f"{len(page_ids)} pages of {self.block_size} slots end before"
            )
        return page_ids[event.start // self.block_size : -(-end // self.block_size)]

    # ---- changes that several events make --------------------------------------------------

    def _fill(self, event: SlotsWritten | SwappedIn) -> None:
        touched = self.written_page_ids(event)
        end = event.start + event.num_tokens
        first = event.start // self.block_size
        for index, page_id in enumerate(touched, start=first):
            page = self._pages[page_id]
            fill = min(end - index * self.block_size, self.block_size)
            if fill > page.fill:
                self._pages[page_id] = PageView(
                    page_id, page.generation, page.ref_count, fill, page.page_hash, page.token_ids
                )

    def _join_table(self, event: PageAllocated | PageShared, generation: int) -> None:
        held = len(self._sequences.look(event.seq_id).page_ids)
        if event.logical_index != held:
            raise TraceFormatError(
                f"p{event.page_id:d} becomes page {event.logical_index} of seq:{event.seq_id:d}, "
                f"which holds {held} pages"
            )
        sequence = self._sequences.change(event.seq_id)
        sequence.page_ids.append(event.page_id)
        sequence.generations.append(generation)

    def _check_takable(self, page_id: int, seq_id: int) -> None:
        page = self.page(page_id)
        if page_id not in self._queue:
            raise TraceFormatError(
                f"p{page_id:d} is allocated to seq:{seq_id:d} but is not in the free queue "
                f"(ref_count {page.ref_count})"
            )
        if page.page_hash is not None:
            raise TraceFormatError(
                f"p{page_id:d} is allocated to seq:{seq_id:d} while it can still be found by its "
                "hash; it must be evicted first"
            )

    def _leave_queue(self, page_id: int) -> None:
        self._queue.remove(page_id)
        self._queue_ids = None

    def _move(self, seq_id: int, place: LinkedQueue, verb: str, needed: str) -> None:
        if seq_id not in place:
            raise TraceFormatError(f"seq:{seq_id:d} is {verb} but is not {needed}")
        place.remove(seq_id)
