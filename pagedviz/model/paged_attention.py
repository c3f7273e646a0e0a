"""Attention of one step through page tables: write the step's keys and values, then read pages.

Invariants:
- In each layer ALL keys and values of the step are written before ANY query reads. Two sequences
  of one step may share pages which one of them is just filling (a prefix that became findable in
  this very step); reading sequence by sequence would show the other one an empty page.
- Only slots below a sequence's context length are ever used: what lies in other slots, NaN
  included, changes nothing.
- Both paths see the same pages: `gather` copies them next to each other and attends in one go,
  `walk` visits them one by one.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from pagedviz.model.attention import (
    attention_weights,
    finish_walk,
    walk_pages,
    weighted_values,
)
from pagedviz.model.errors import BadModelInput

Array = NDArray[np.float32]
Index = NDArray[np.int64]
Path = Literal["gather", "walk"]


@dataclass(frozen=True)
class _Batch:
    """Sequences with equally many queries, gathered together and padded to the longest context.

    padded row of one sequence:  | page | page | pa..junk | junk |
                                 0             context_len       P * block_size
    """

    sequences: list[int]
    rows: slice | Index  # the N * T rows of the step's token arrays, sequence by sequence
    table: Index  # [N, P] page ids; padding names page 0, whose content is junk here
    short: list[tuple[int, int]]  # (row of the batch, context_len) where context_len < C
    bias: Array | None  # [N, 1, T, C], or None when every query sees all C slots
    num_slots: int  # C, the longest context
    scratch: Array  # [N, P, block_size, Hkv, D] where the pages are gathered


class PagedAttention:
    """Callable (layer, queries, keys, values) -> output for all tokens of one step.

    `keys` and `values` [layers, pages, block_size, Hkv, D] are written in place. A sequence's last
    `query_len` positions below `context_len` are computed now; position p lives in slot
    (table[p // block_size], p % block_size). With `record` given, each layer appends its list of
    weights, one [H, query_len, context_len] per sequence. key_lens: [S], how many slots are read
    for each. Raises `BadModelInput`.
    """

    def __init__(
        self,
        keys: Array,
        values: Array,
        query_lens: Sequence[int],
        context_lens: Sequence[int],
        page_tables: Sequence[Sequence[int]],
        path: Path = "gather",
        record: list[list[Array]] | None = None,
    ) -> None:
        if path not in ("gather", "walk"):
            raise BadModelInput(f"path must be 'gather' or 'walk', not {path!r}.")
        self._keys, self._values, self._record = keys, values, record
        self._query_lens = query_lens
        self._block_size = block_size = keys.shape[2]
        self.key_lens = self._count_keys(context_lens, page_tables)
        self._tables = _padded_tables(query_lens, self.key_lens, page_tables, keys.shape)  # [S, P]
        query_counts, contexts = np.array(query_lens), np.array(context_lens)  # [S] each
        ends = query_counts.cumsum()  # [S] row after each sequence's last token
        self._starts: Index = ends - query_counts  # [S]
        self.last_rows: Index = ends - 1  # [S]
        sequence_of = np.arange(len(ends)).repeat(query_counts)  # [T]
        # A sequence's last row stands at its last position, so position - row is one number each.
        self.positions: Index = np.arange(len(sequence_of)) + (contexts - ends)[sequence_of]  # [T]
        logical, self._slot_offsets = np.divmod(self.positions, block_size)  # [T] each
        self._slot_pages = self._tables[sequence_of, logical]  # [T]
        self._last_keys: Index = self.positions  # [T] how far each query sees
        if self.key_lens is not context_lens:
            self._last_keys = self.positions + (np.array(self.key_lens) - contexts)[sequence_of]
        self._read = self._walk if path == "walk" else self._gather
        self._batches = [] if path == "walk" else self._plan_batches()

    def __call__(self, layer: int, queries: Array, keys: Array, values: Array) -> Array:
        """Write `keys` and `values` [T, Hkv, D] of the step, then attend `queries` [T, H, D]."""
        # First every write, then every read: see the invariant above.
        self._keys[layer][self._slot_pages, self._slot_offsets] = keys
        self._values[layer][self._slot_pages, self._slot_offsets] = values
        output, weights = self._read(layer, queries)
        if self._record is not None:
            self._record.append(weights)
        return output

    def _count_keys(
        self, context_lens: Sequence[int], page_tables: Sequence[Sequence[int]]
    ) -> Sequence[int]:
        """How many slots the last query of each sequence sees, [S]."""
        # Keys end where the chunk ends: what lies behind it in the same pages is not written yet.
        return context_lens

    def _gather(self, layer: int, queries: Array) -> tuple[Array, list[Array]]:
        output: Array = np.empty_like(queries)  # [T, H, D]
        recorded: dict[int, Array] = {}
        for batch in self._batches:
            batched = queries[batch.rows].reshape(len(batch.table), -1, *queries.shape[1:])
            # Keys are done with when values come, so both use one scratch: it stays in the cache.
            keys = _gather_pages(self._keys[layer], batch)  # [N, C, Hkv, D]
            weights = attention_weights(batched, keys, batch.bias)  # [N, H, T, C]
            values = _gather_pages(self._values[layer], batch)  # [N, C, Hkv, D]
            mixed = weighted_values(weights, values)  # [N, T, H, D]
            output[batch.rows] = mixed.reshape(-1, *queries.shape[1:])
            if self._record is not None:
                for row, s in enumerate(batch.sequences):
                    recorded[s] = weights[row, :, :, : self.key_lens[s]].copy()
        return output, [recorded[s] for s in sorted(recorded)]

    def _walk(self, layer: int, queries: Array) -> tuple[Array, list[Array]]:
        output: Array = np.empty_like(queries)  # [T, H, D]
        weights: list[Array] = []
        for s, (start, query_len) in enumerate(zip(self._starts, self._query_lens, strict=True)):
            rows = slice(start, start + query_len)
            context_len = self.key_lens[s]
            pages = (
                (
                    self._keys[layer, page_id, : context_len - first],
                    self._values[layer, page_id, : context_len - first],
                )
                for page_id, first in zip(
                    self._tables[s], range(0, context_len, self._block_size), strict=False
                )
            )
            visits = list(walk_pages(queries[rows], context_len - query_len, pages))
            output[rows], sequence_weights = finish_walk(visits)
            weights.append(sequence_weights)
        return output, weights

    def _plan_batches(self) -> list[_Batch]:
        # Decodes (one query each) are many and small: one batch. Chunks are few and large: one
        # batch each, for padding chunks of different length would cost more than it saves.
        decodes = [s for s, query_len in enumerate(self._query_lens) if query_len == 1]
        chunks = [[s] for s, query_len in enumerate(self._query_lens) if query_len > 1]
        return [self._plan_batch(group) for group in [decodes, *chunks] if group]

    def _plan_batch(self, sequences: list[int]) -> _Batch:
        query_len = self._query_lens[sequences[0]]
        rows = self._rows(sequences, query_len)
        contexts = [self.key_lens[s] for s in sequences]
        num_slots = max(contexts)
        num_pages = -(-num_slots // self._block_size)
        short = [(row, length) for row, length in enumerate(contexts) if length < num_slots]
        bias: Array | None = None
        if query_len > 1 or short:
            last_keys = self._last_keys[rows].reshape(len(sequences), 1, query_len, 1)
            bias = np.where(np.arange(num_slots) <= last_keys, np.float32(0), np.float32(-np.inf))
        scratch = np.empty((len(sequences), num_pages, *self._keys.shape[2:]), dtype=np.float32)
        table = self._tables[sequences, :num_pages]
        return _Batch(sequences, rows, table, short, bias, num_slots, scratch)

    def _rows(self, sequences: list[int], query_len: int) -> slice | Index:
        first, end = int(self._starts[sequences[0]]), int(self._starts[sequences[-1]]) + query_len
        if end - first == len(sequences) * query_len:
            return slice(first, end)  # neighbours: indexing makes a view, no copy
        return self._starts[sequences]  # decodes with chunks between them: one row each


def _gather_pages(pages: Array, batch: _Batch) -> Array:
    """Copy the batch's pages [pages, block_size, Hkv, D] next to each other: [N, C, Hkv, D]."""
    # "clip" only because it lets NumPy write straight into `out`; all ids are known to be good.
    pages.take(batch.table, axis=0, out=batch.scratch, mode="clip")
    gathered = batch.scratch.reshape(len(batch.table), -1, *pages.shape[2:])
    for row, context_len in batch.short:
        # A weight of zero is no protection, 0 * NaN is NaN: nothing of a junk slot may survive.
        gathered[row, context_len:] = 0
    return gathered[:, : batch.num_slots]


def _padded_tables(
    query_lens: Sequence[int],
    context_lens: Sequence[int],
    page_tables: Sequence[Sequence[int]],
    storage: tuple[int, ...],
) -> Index:
    """The used part of all page tables as one array [S, P], padded with page 0, after checks."""
    if not len(query_lens) == len(context_lens) == len(page_tables) > 0:
        raise BadModelInput(
            f"a step needs at least one sequence and one query length, context length and page "
            f"table for each; got {len(query_lens)}, {len(context_lens)} and {len(page_tables)}."
        )
    num_pages, block_size = storage[1:3]
    needed = [-(-context_len // block_size) for context_len in context_lens]
    tables = np.zeros((len(page_tables), max(needed)), dtype=np.int64)  # [S, P]
    for s, (query_len, context_len, count) in enumerate(
        zip(query_lens, context_lens, needed, strict=True)
    ):
        if not 1 <= query_len <= context_len:
            raise BadModelInput(
                f"sequence {s} of the step has {query_len} queries and {context_len} cached "
                "tokens; it needs at least one query, and its queries count as cached."
            )
        if len(page_tables[s]) < count:
            raise BadModelInput(
                f"sequence {s} of the step has {len(page_tables[s])} pages of {block_size} slots "
                f"for {context_len} tokens; it needs {count}."
            )
        tables[s, :count] = page_tables[s][:count]
    if tables.min() < 0 or tables.max() >= num_pages:
        raise BadModelInput(
            f"a page table names page {tables.min() if tables.min() < 0 else tables.max()}; the "
            f"storage has pages 0 to {num_pages - 1}."
        )
    return tables
