"""What one sequence holds of the pool, and how much all may hold.

Invariant: only the block manager changes a holding.
"""

from __future__ import annotations

from dataclasses import dataclass

from pagedviz.engine.config import check_int
from pagedviz.engine.ids import SeqId
from pagedviz.engine.page_table import PageTable
from pagedviz.engine.prefix_entry import Entry
from pagedviz.engine.prefix_hash import PrefixChain


@dataclass(frozen=True, slots=True)
class BlockManagerConfig:
    """Limits of a block manager; None = limited by the pool alone."""

    max_sequences: int | None = 64
    max_pages_per_seq: int | None = 128

    def __post_init__(self) -> None:
        for name in ("max_sequences", "max_pages_per_seq"):
            if getattr(self, name) is not None:
                check_int(name, getattr(self, name), 1)


class Holding:
    """What one sequence holds: its table, its hashes, and its pages' cache entries."""

    __slots__ = ("chain", "entries", "num_hashed", "seq_id", "table")

    def __init__(self, seq_id: SeqId, table: PageTable, chain: PrefixChain | None) -> None:
        self.seq_id = seq_id
        self.table = table
        self.chain = chain
        self.entries: list[Entry] = []
        # Pages that had their turn to be hashed; more than entries only after a hash collision.
        self.num_hashed = 0
