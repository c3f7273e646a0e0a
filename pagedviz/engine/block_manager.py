"""BlockManager: the source document's own calls, a thin layer over what the engine itself uses."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from pagedviz.engine.errors import OutOfPages, PageIsHashed, PositionGap
from pagedviz.engine.ids import PageId, SeqId
from pagedviz.engine.page_owners import PageOwners


class BlockManager(PageOwners):
    def allocate_sequence(self, seq_id: SeqId) -> None:
        """Register a sequence with its first page.

        SequenceExists, MaxSequencesExceeded, OutOfPages.
        """
        self.register(seq_id)
        try:
            self.reserve(seq_id, 1)
        except OutOfPages:
            del self._holdings[seq_id]
            raise

    def extend_sequence(self, seq_id: SeqId) -> PageId:
        """One page more. SequenceNotFound, MaxPagesExceeded, OutOfPages."""
        return self.reserve(seq_id, self.page_table(seq_id).capacity + 1)[0]

    def free_sequence(self, seq_id: SeqId) -> None:
        """Release all pages and forget the sequence. SequenceNotFound."""
        self.release(seq_id)
        del self._holdings[seq_id]

    def sequence_page_chain(self, seq_id: SeqId) -> tuple[PageId, ...]:
        """Pages in order. SequenceNotFound."""
        return tuple(self._holding(seq_id).table.page_ids)

    def write_token_kv(
        self,
        seq_id: SeqId,
        token_pos: int,
        key: NDArray[np.floating],
        value: NDArray[np.floating],
        layer: int = 0,
    ) -> None:
        """Store one token's key and value, each [num_heads, head_dim], taking a page if needed.

        Positions are written in order; one that is there already may be written again while its
        page is not findable. Raises SequenceNotFound, PositionGap, KvShapeMismatch, PageIsHashed,
        OutOfPages, MaxPagesExceeded.
        """
        table = self.page_table(seq_id)
        written = sum(self.pool.fills[page_id] for page_id in table)
        if not 0 <= token_pos <= written:
            raise PositionGap(token_pos, written)
        self.pool.get_page(self.pool.page_ids[0]).check_kv(key, value, layer)
        if token_pos < table.capacity:
            page_id, _ = table.resolve(token_pos)
            if page_id in self.cache:
                raise PageIsHashed(page_id, token_pos)
        else:
            self.extend_sequence(seq_id)
        page_id, slot = table.resolve(token_pos)
        self.pool.get_page(page_id).write_kv(slot, key, value, layer)
