"""ModelTap: stands between an engine and its model and keeps what the model was really asked.

Invariants: it computes exactly what the model behind it does; what it keeps belongs to one step.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from pagedviz.engine.language_model import ModelFacts
from pagedviz.model import LanguageModel
from pagedviz.model.paged_attention import PagedAttention


class ModelTap(ModelFacts):
    """logits: [vocab] of each sequence of the step, sub-batch after sub-batch. num_keys: how many
    slots attention read for it."""

    def __init__(self, model: LanguageModel, attention: type[PagedAttention]) -> None:
        super().__init__(model)
        # A model of its own: the one handed in may be shared.
        self._model = model.with_adapters(model.adapters)
        self._model.attention = attention
        self.logits: list[NDArray[np.float32]] = []
        self.num_keys: list[int] = []

    def start_step(self) -> None:
        self.logits.clear()
        self.num_keys.clear()

    def forward(
        self,
        token_ids: NDArray[np.int64],
        query_lens: Sequence[int],
        context_lens: Sequence[int],
        page_tables: Sequence[Sequence[int]],
        keys: NDArray[np.float32],
        values: NDArray[np.float32],
        *,
        adapter: str | None,
    ) -> NDArray[np.float32]:
        weights: list[list[NDArray[np.float32]]] = []  # [layer][sequence]: [H, query, key]
        logits = self._model.forward(
            token_ids,
            query_lens,
            context_lens,
            page_tables,
            keys,
            values,
            adapter=adapter,
            attention=weights,
        )
        self.logits += list(logits)
        self.num_keys += [part.shape[-1] for part in weights[0]]
        return logits
