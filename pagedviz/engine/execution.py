"""Execution: compute the K/V and logits of a plan.

Invariants: it changes no paging state but the fills of the pages that it writes; sequences of one
adapter are computed by one call of the model.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from pagedviz.engine.block_manager import BlockManager
from pagedviz.engine.language_model import LanguageModel
from pagedviz.engine.scheduler import StepPlan
from pagedviz.engine.sequence import Sequence
from pagedviz.engine.sub_batches import sub_batches


class Execution:
    """reads: by number of each sequence of the last step, how many slots the model has read for
    it."""

    def __init__(self, model: LanguageModel | None, block_manager: BlockManager) -> None:
        self.reads: dict[int, int] = {}
        self._model = model
        self._block_manager = block_manager

    def run(self, plan: StepPlan) -> NDArray[np.float32] | None:
        """The logits, [S, vocab]; None without a model or without anything to compute."""
        if self._model is None or not plan.sequences:
            return None
        parts = {}
        for rows in sub_batches(sequence.adapter_id for sequence in plan.sequences):
            parts[tuple(rows)] = self._forward(
                self._model, [plan.sequences[i] for i in rows], [plan.num_tokens[i] for i in rows]
            )
        if len(parts) == 1:
            return next(iter(parts.values()))
        logits = np.empty((len(plan.sequences), self._model.vocab_size), dtype=np.float32)
        for chosen, part in parts.items():
            logits[list(chosen)] = part
        return logits

    def _forward(
        self, model: LanguageModel, sequences: list[Sequence], counts: list[int]
    ) -> NDArray[np.float32]:
        """Compute the next `counts` tokens of sequences of one adapter: logits [S, vocab]."""
        token_ids: list[int] = []
        context_lens: list[int] = []
        for sequence, num_tokens in zip(sequences, counts, strict=True):
            start = sequence.num_computed
            token_ids += sequence.token_ids[start : start + num_tokens]
            context_lens.append(start + num_tokens)
        pool = self._block_manager.pool
        tables = [self._block_manager.page_table(s.id).page_ids for s in sequences]
        adapter = sequences[0].adapter_id
        reads: list[int] = []
        logits = model.forward(
            np.array(token_ids, dtype=np.int64),  # [T]
            counts,
            context_lens,
            tables,
            pool.keys,
            pool.values,
            adapter=None if adapter is None else adapter.name,
            reads=reads,
        )
        self.reads.update(zip([s.number for s in sequences], reads, strict=True))
        for page_ids, stop in zip(tables, context_lens, strict=True):
            pool.mark_filled(page_ids, stop)
        return logits
