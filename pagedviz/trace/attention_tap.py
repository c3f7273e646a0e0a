"""A model that also hands out the attention weights of the step it is computing.

Invariant: it computes exactly what the model behind it does; nothing is kept unless somebody asked.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from pagedviz.engine.language_model import LanguageModel, ModelFacts

Weights = list[list[NDArray[np.float32]]]
"""[layer][sequence of the step]: softmax weights [num_heads, query_len, context_len]. Sequences
stand sub-batch after sub-batch, as they were computed."""


class AttentionModel(LanguageModel, Protocol):
    """A language model that can be asked what its queries looked at."""

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
        reads: list[int] | None = None,
        attention: Weights | None = None,
    ) -> NDArray[np.float32]:
        """As LanguageModel.forward; `attention=[]` receives the weights."""
        ...


class AttentionTap(ModelFacts):
    """The engine's view of `model`. While `weights` is a list, what is computed is added to it."""

    def __init__(self, model: AttentionModel) -> None:
        super().__init__(model)
        self._model = model
        self.weights: Weights | None = None

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
        reads: list[int] | None = None,
    ) -> NDArray[np.float32]:
        part: Weights | None = None if self.weights is None else []
        logits = self._model.forward(
            token_ids,
            query_lens,
            context_lens,
            page_tables,
            keys,
            values,
            adapter=adapter,
            reads=reads,
            attention=part,
        )
        if self.weights is not None and part is not None:
            self.weights += [[] for _ in part[len(self.weights) :]]  # the first of a step
            for layer, more in zip(self.weights, part, strict=True):
                layer += more
        return logits
