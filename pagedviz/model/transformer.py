"""The Llama decoder in NumPy: all tokens of a step at once, attention handed in from outside.

Invariants:
- A `LanguageModel` never changes after loading; a call keeps its scratch memory to itself. Many
  sessions may share one model.
- Weights are float32 [in, out], applied as `x @ W`; files store [out, in], but products with the
  few tokens of a decode step measured a quarter faster this way round.
- The blocks know nothing of pages, batches or sequences: `attend(layer, q, k, v)` does.
- A call computes under one adapter or under none; adapters are never merged into the weights.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pagedviz.model.adapter import Adapter, LowRank
from pagedviz.model.config import LlamaConfig
from pagedviz.model.errors import BadModelInput
from pagedviz.model.layers import rms_norm, rope_cos_sin, rope_frequencies, rotate, swiglu
from pagedviz.model.paged_attention import PagedAttention, Path
from pagedviz.model.tokenizer import Tokenizer

Array = NDArray[np.float32]
Attend = Callable[[int, Array, Array, Array], Array]
"""(layer, queries [T, H, D], keys [T, Hkv, D], values [T, Hkv, D]) -> output [T, H, D]."""


@dataclass(frozen=True)
class LayerWeights:
    """One block. Projections that share an input are stacked: one product instead of three."""

    attention_norm: Array  # [d]
    qkv: Array  # [d, (H + 2 * Hkv) * D]: query heads, key heads, value heads
    output: Array  # [H * D, d]
    mlp_norm: Array  # [d]
    gate_up: Array  # [d, 2 * ff]
    down: Array  # [ff, d]


@dataclass(frozen=True)
class Weights:
    """All weights of a decoder; `head` is a view of `embedding` when the two are tied."""

    embedding: Array  # [vocab, d]
    layers: tuple[LayerWeights, ...]
    final_norm: Array  # [d]
    head: Array  # [d, vocab]


class LanguageModel:
    """A loaded decoder. `tokenizer` is None when the folder has no `tokenizer.json`.

    `adapters` are those that `forward` can be asked for, by name.
    """

    attention = PagedAttention
    """How a step's tokens look at the pages."""

    def __init__(
        self,
        config: LlamaConfig,
        weights: Weights,
        tokenizer: Tokenizer | None = None,
        adapters: Mapping[str, Adapter] | None = None,
    ) -> None:
        self.config = config
        self.weights = weights
        self.tokenizer = tokenizer
        self.adapters: Mapping[str, Adapter] = dict(adapters or {})
        for name, adapter in self.adapters.items():
            adapter.check_fits(name, config)
        self._frequencies = rope_frequencies(config.head_dim, config.rope)  # [D/2]

    @property
    def num_layers(self) -> int:
        """Number of blocks; each has its own keys and values."""
        return self.config.num_layers

    @property
    def num_kv_heads(self) -> int:
        """Key/value heads of a layer, Hkv."""
        return self.config.num_kv_heads

    @property
    def head_dim(self) -> int:
        """Dimensions of one head, D."""
        return self.config.head_dim

    @property
    def vocab_size(self) -> int:
        """Number of logits; token ids run from 0 to one less."""
        return self.config.vocab_size

    @property
    def max_seq_len(self) -> int:
        """Most tokens of one sequence, prompt and output together."""
        return self.config.max_position_embeddings

    @property
    def eos_token_ids(self) -> tuple[int, ...]:
        """Tokens that end a text; empty when the model names none."""
        return self.config.eos_token_ids

    @property
    def adapter_names(self) -> tuple[str, ...]:
        """The adapters that `forward` can be asked for."""
        return tuple(self.adapters)

    def with_adapters(self, adapters: Mapping[str, Adapter]) -> "LanguageModel":
        """The same weights with these adapters instead. `BadModelInput` for one that cannot fit."""
        return LanguageModel(self.config, self.weights, self.tokenizer, adapters)

    def forward(
        self,
        token_ids: ArrayLike,
        query_lens: Sequence[int],
        context_lens: Sequence[int],
        page_tables: Sequence[Sequence[int]],
        keys: Array,
        values: Array,
        *,
        adapter: str | None = None,
        path: Path = "gather",
        all_logits: bool = False,
        attention: list[list[Array]] | None = None,
        reads: list[int] | None = None,
    ) -> Array:
        """Compute a step, or its part under one `adapter`: prefill chunks and decodes together,
        over paged keys and values.

        `token_ids` [T] holds the new tokens of S sequences, one sequence after another;
        `query_lens` [S] how many are whose; `context_lens` [S] how many tokens each sequence has
        cached once this step is written. `keys` and `values` [layers, pages, block_size, Hkv, D]
        are written in place. Returns float32 logits [S, vocab] of each sequence's last token, or
        [T, vocab] with `all_logits`. `attention=[]` receives one list per layer with the weights
        [H, query_len, context_len] of each sequence; `reads=[]` how many slots, from the first on,
        are read for each. Raises `BadModelInput`, before any write.
        """
        ids = self.checked_ids(token_ids)
        if sum(query_lens) != len(ids):
            raise BadModelInput(
                f"the query lengths add up to {sum(query_lens)}, but the step has {len(ids)} "
                "tokens."
            )
        self._check_storage(keys, values)
        if max(context_lens, default=0) > self.max_seq_len:
            raise BadModelInput(
                f"a sequence has {max(context_lens)} tokens; this model's context holds "
                f"{self.max_seq_len}."
            )
        self.find_adapter(adapter)
        attend = self.attention(
            keys, values, query_lens, context_lens, page_tables, path, attention
        )
        if reads is not None:
            reads += attend.key_lens
        hidden = self.hidden_states(ids, attend.positions, attend, adapter)  # [T, d]
        return self.logits(hidden if all_logits else hidden[attend.last_rows])

    def find_adapter(self, name: str | None) -> Adapter | None:
        """The adapter called `name`, None for None; `BadModelInput` if there is none."""
        if name is None:
            return None
        if name not in self.adapters:
            known = ", ".join(self.adapters)
            raise BadModelInput(
                f"this model has no adapter {name!r}; "
                + (f"it has {known}." if known else "it has none at all.")
            )
        return self.adapters[name]

    def hidden_states(
        self,
        token_ids: NDArray[np.int64],
        positions: NDArray[np.int64],
        attend: Attend,
        adapter: str | None = None,
    ) -> Array:
        """Run all blocks over `token_ids` [T] standing at `positions` [T]: [T, d]."""
        lora = self.find_adapter(adapter)
        x: Array = self.weights.embedding[token_ids]  # [T, d]
        cos, sin = rope_cos_sin(positions, self._frequencies)  # [T, 1, D] each
        for index, layer in enumerate(self.weights.layers):
            x += self._attention(index, layer, x, cos, sin, attend, lora)
            normed = rms_norm(x, layer.mlp_norm, self.config.rms_norm_eps)  # [T, d]
            x += swiglu(normed @ layer.gate_up) @ layer.down
        return x

    def logits(self, hidden: Array) -> Array:
        """Logits [R, vocab] of the rows of `hidden` [R, d]."""
        normed = rms_norm(hidden, self.weights.final_norm, self.config.rms_norm_eps)
        return normed @ self.weights.head

    def checked_ids(self, token_ids: ArrayLike) -> NDArray[np.int64]:
        """`token_ids` as an int64 array [T], T >= 1, or `BadModelInput`."""
        try:
            ids = np.asarray(token_ids)
        except (ValueError, OverflowError) as error:
            raise BadModelInput(f"token ids must be one list of whole numbers: {error}.") from error
        if ids.ndim != 1 or ids.size == 0:
            raise BadModelInput(
                f"token ids must be one list of at least one id; got shape {ids.shape}."
            )
        if ids.dtype.kind not in "iu":
            raise BadModelInput(f"token ids must be whole numbers, not {ids.dtype}.")
        low, high = int(ids.min()), int(ids.max())
        if low < 0 or high >= self.vocab_size:
            raise BadModelInput(
                f"token id {low if low < 0 else high} is outside the vocabulary: ids run from 0 to "
                f"{self.vocab_size - 1}."
            )
        return ids.astype(np.int64, copy=False)

    def _attention(
        self,
        index: int,
        layer: LayerWeights,
        x: Array,
        cos: Array,
        sin: Array,
        attend: Attend,
        lora: Adapter | None,
    ) -> Array:
        h, h_kv, d = self.config.num_heads, self.config.num_kv_heads, self.config.head_dim
        normed = rms_norm(x, layer.attention_norm, self.config.rms_norm_eps)  # [T, d]
        qkv = normed @ layer.qkv  # [T, (H + 2 * Hkv) * D]
        if lora is not None:
            _add_change(qkv, lora.layers[index].qkv, normed, lora.scaling)
        qkv = qkv.reshape(len(x), h + 2 * h_kv, d)
        # Queries and keys lie next to each other and turn alike; values do not turn.
        turned = rotate(qkv[:, : h + h_kv], cos, sin)  # [T, H + Hkv, D]
        mixed = attend(index, turned[:, :h], turned[:, h:], qkv[:, h + h_kv :])  # [T, H, D]
        mixed = mixed.reshape(len(x), h * d)
        output = mixed @ layer.output  # [T, d]
        if lora is not None:
            _add_change(output, lora.layers[index].output, mixed, lora.scaling)
        return output

    def _check_storage(self, keys: Array, values: Array) -> None:
        for name, array in (("keys", keys), ("values", values)):
            shape = (self.num_layers, *array.shape[1:3], self.num_kv_heads, self.head_dim)
            if array.ndim != 5 or array.shape != shape or 0 in shape or array.dtype != np.float32:
                raise BadModelInput(
                    f"{name} must be float32 [{self.num_layers} layers, pages, block size, "
                    f"{self.num_kv_heads} heads, {self.head_dim}]; got {array.dtype} "
                    f"{list(array.shape)}."
                )
        if keys.shape != values.shape:
            raise BadModelInput(
                f"keys {list(keys.shape)} and values {list(values.shape)} must have one shape."
            )


def _add_change(y: Array, change: LowRank | None, x: Array, scaling: float) -> None:
    """y += scaling * B (A x)"""
    if change is not None:
        y += np.float32(scaling) * change.change(x)
