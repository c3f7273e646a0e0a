"""Logits of a whole prompt, computed twice: through scattered pages, and without any.

Invariants:
- `paged_logits` takes the path the engine takes; `dense_logits` shares only the token-wise layers
  with it. Where both agree, the paging is right.
- Both are pure: equal arguments give equal results, the page order included.
"""

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pagedviz.model.attention import attend_dense
from pagedviz.model.errors import BadModelInput
from pagedviz.model.paged_attention import Path
from pagedviz.model.transformer import LanguageModel

Array = NDArray[np.float32]
MAX_BLOCK_SIZE = 4096


def paged_logits(
    model: LanguageModel,
    token_ids: ArrayLike,
    block_size: int = 16,
    chunk_size: int | None = None,
    *,
    adapter: str | None = None,
    path: Path = "gather",
) -> Array:
    """Logits of every position, float32 [T, vocab], with keys and values in shuffled pages.

    The prompt is computed in chunks of `chunk_size` tokens (None: at once), under one adapter of
    the model or none. Raises `BadModelInput` for an unknown adapter, no tokens, ids outside the
    vocabulary, sizes below 1, a block size above 4096, and prompts longer than the model's context
    (`max_position_embeddings`): beyond it the model was never trained, and the numbers would mean
    nothing.
    """
    ids = _checked_prompt(model, token_ids)
    chunk = _checked_size("chunk_size", len(ids) if chunk_size is None else chunk_size, None)
    block_size = _checked_size("block_size", block_size, MAX_BLOCK_SIZE)
    num_pages = -(-len(ids) // block_size)
    # A few pages more than needed, in a fixed scattered order: code that takes a logical index
    # for a page id finds NaN.
    table = np.random.default_rng(0).permutation(num_pages + 3)[:num_pages].tolist()
    shape = (model.num_layers, num_pages + 3, block_size, model.num_kv_heads, model.head_dim)
    keys = np.full(shape, np.nan, dtype=np.float32)
    values = np.full(shape, np.nan, dtype=np.float32)
    parts = []
    for start in range(0, len(ids), chunk):
        part = ids[start : start + chunk]
        end = start + len(part)
        parts.append(
            model.forward(
                part,
                [len(part)],
                [end],
                [table],
                keys,
                values,
                adapter=adapter,
                path=path,
                all_logits=True,
            )
        )
    return np.concatenate(parts)  # [T, vocab]


def dense_logits(
    model: LanguageModel,
    token_ids: ArrayLike,
    *,
    adapter: str | None = None,
    attention: list[Array] | None = None,
) -> Array:
    """The oracle: logits [T, vocab] of a plain dense pass, no pages, no cache, no batch.

    `attention=[]` receives the weights [H, T, T] of each layer. Raises `BadModelInput` as
    `paged_logits` does.
    """
    ids = _checked_prompt(model, token_ids)

    def attend(_layer: int, queries: Array, keys: Array, values: Array) -> Array:
        output, weights = attend_dense(queries, keys, values)
        if attention is not None:
            attention.append(weights)
        return output

    return model.logits(model.hidden_states(ids, np.arange(len(ids)), attend, adapter))


def _checked_prompt(model: LanguageModel, token_ids: ArrayLike) -> NDArray[np.int64]:
    ids = model.checked_ids(token_ids)
    if len(ids) > model.max_seq_len:
        raise BadModelInput(
            f"the prompt has {len(ids)} tokens; this model's context holds {model.max_seq_len}."
        )
    return ids


def _checked_size(name: str, size: int, limit: int | None) -> int:
    if type(size) is not int or size < 1 or (limit is not None and size > limit):
        upper = "" if limit is None else f" to {limit}"
        raise BadModelInput(f"{name} must be a whole number from 1{upper}, not {size!r}.")
    return size
