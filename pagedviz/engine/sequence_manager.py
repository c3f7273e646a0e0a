"""SequenceManager: all sequences, in order of submission, and the way to their page tables.

The tables themselves are owned by the block manager; this hands out the same objects.
"""

from __future__ import annotations

from collections.abc import Iterator

from pagedviz.engine.block_manager import BlockManager
from pagedviz.engine.errors import SequenceExists, SequenceNotFound
from pagedviz.engine.ids import SeqId
from pagedviz.engine.page_table import PageTable
from pagedviz.engine.sequence import Sequence
from pagedviz.engine.sequence_state import Decoding, Prefilling


class SequenceManager:
    def __init__(self, block_manager: BlockManager) -> None:
        self._block_manager = block_manager
        self._sequences: dict[SeqId, Sequence] = {}
        self._next_id = 0

    def next_id(self) -> SeqId:
        """An id that was never given out before."""
        seq_id = SeqId(self._next_id)
        self._next_id += 1
        return seq_id

    def add(self, sequence: Sequence) -> PageTable:
        """Keep a sequence, with an empty page table. SequenceExists, MaxSequencesExceeded."""
        if sequence.id in self._sequences:
            raise SequenceExists(sequence.id)
        table = self._block_manager.register(sequence.id, sequence.chain)
        sequence.table = table
        self._sequences[sequence.id] = sequence
        self._next_id = max(self._next_id, sequence.id + 1)
        return table

    def remove(self, seq_id: SeqId) -> tuple[Sequence, PageTable]:
        """Forget a sequence. Its pages are released; the table still lists which they were.

        SequenceNotFound.
        """
        sequence = self.get(seq_id)
        table = self._block_manager.unregister(seq_id)
        del self._sequences[seq_id]
        return sequence, table

    def get(self, seq_id: SeqId) -> Sequence:
        """SequenceNotFound."""
        sequence = self._sequences.get(seq_id)
        if sequence is None:
            raise SequenceNotFound(seq_id)
        return sequence

    def page_table(self, seq_id: SeqId) -> PageTable:
        """SequenceNotFound."""
        return self._block_manager.page_table(seq_id)

    @property
    def ids_prefilling(self) -> list[SeqId]:
        return [s.id for s in self if isinstance(s.state, Prefilling)]

    @property
    def ids_decoding(self) -> list[SeqId]:
        return [s.id for s in self if isinstance(s.state, Decoding)]

    @property
    def ids_finished(self) -> list[SeqId]:
        return [s.id for s in self if not s.is_active]

    @property
    def is_empty(self) -> bool:
        return not self._sequences

    def __iter__(self) -> Iterator[Sequence]:
        return iter(self._sequences.values())

    def __len__(self) -> int:
        return len(self._sequences)
