"""LanguageModel: what the engine needs of a transformer, which knows nothing of scheduling."""

from __future__ import annotations

from collections.abc import Sequence as SequenceOf
from typing import Protocol

import numpy as np
from numpy.typing import NDArray


class LanguageModel(Protocol):
    """A decoder that keeps its keys and values in pages it is handed."""

    @property
    def num_layers(self) -> int: ...
    @property
    def num_kv_heads(self) -> int: ...
    @property
    def head_dim(self) -> int: ...
    @property
    def vocab_size(self) -> int: ...
    @property
    def max_seq_len(self) -> int: ...
    @property
    def eos_token_ids(self) -> tuple[int, ...]: ...
    @property
    def adapter_names(self) -> tuple[str, ...]: ...

    def forward(
        self,
        token_ids: NDArray[np.int64],
        query_lens: SequenceOf[int],
        context_lens: SequenceOf[int],
        page_tables: SequenceOf[SequenceOf[int]],
        keys: NDArray[np.float32],
        values: NDArray[np.float32],
        *,
        adapter: str | None,
        reads: list[int] | None = None,
    ) -> NDArray[np.float32]:
        """Write the K/V of all tokens of a sub-batch, [T], into the pages; return the logits of
        each sequence's last one, [S, vocab]. context_lens: tokens in cache once this step is
        written. adapter: that of all its sequences, one of `adapter_names` or None. `reads=[]`
        receives how many slots, from the first on, attention has read for each sequence."""
        ...


class ModelFacts:
    """What an engine asks of a model besides computing, for whoever stands between the two."""

    def __init__(self, model: LanguageModel) -> None:
        self.num_layers = model.num_layers
        self.num_kv_heads = model.num_kv_heads
        self.head_dim = model.head_dim
        self.vocab_size = model.vocab_size
        self.max_seq_len = model.max_seq_len
        self.eos_token_ids = model.eos_token_ids
        self.adapter_names = model.adapter_names
