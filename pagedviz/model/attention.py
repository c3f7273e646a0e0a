"""Attention over keys and values at hand: a batch with padding, a walk page by page, and an oracle.

Invariants:
- The batch, `walk_pages` and `attend_dense` compute the same function in three independent ways;
  tests hold them together.
- Query head h reads KV head h // (H / Hkv) (grouped-query attention, Ainslie 2023).
- Shape letters: N sequences, T queries of each, C cached tokens, H query heads, Hkv KV heads,
  G = H / Hkv query heads of one KV head, D dimensions of a head.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float32]


def attention_weights(queries: Array, keys: Array, bias: Array | None) -> Array:
    """softmax(q k / sqrt(D) + bias) of a padded batch, [N, H, T, C].

    `queries` [N, T, H, D], `keys` [N, C, Hkv, D]; `bias` [N, 1, T, C] is 0 where a query may look
    and -inf where not (None: everywhere). Keys must be finite even where the bias is -inf: NaN
    stays NaN under any bias. One product for all queries of a KV head.
    """
    n, t, h, d = queries.shape
    c, h_kv = keys.shape[1:3]
    # [N, T, H, D] -> [N, Hkv, G * T, D]: the heads of a group lie side by side
    grouped = (queries * np.float32(d**-0.5)).transpose(0, 2, 1, 3).reshape(n, h_kv, -1, d)
    scores: Array = np.matmul(grouped, keys.transpose(0, 2, 3, 1)).reshape(n, h, t, c)
    if bias is not None:
        scores += bias
    scores -= scores.max(axis=-1, keepdims=True)  # so that exp cannot overflow
    np.exp(scores, out=scores)
    scores /= scores.sum(axis=-1, keepdims=True)
    return scores


def weighted_values(weights: Array, values: Array) -> Array:
    """Mix `values` [N, C, Hkv, D] by `weights` [N, H, T, C]: [N, T, H, D]."""
    n, h, t, c = weights.shape
    h_kv, d = values.shape[2:]
    grouped = weights.reshape(n, h_kv, -1, c)  # [N, Hkv, G * T, C]
    mixed: Array = np.matmul(grouped, values.transpose(0, 2, 1, 3))  # [N, Hkv, G * T, D]
    return mixed.reshape(n, h, t, d).transpose(0, 2, 1, 3)


@dataclass(frozen=True)
class PageVisit:
    """What is known after the walk has seen one more page (online softmax, Milakov 2018).

    `scores` [H, T, n] of this page's n slots (-inf where a query may not look), `running_max`
    [H, T], `running_sum` [H, T] = sum of exp(score - running_max) so far, `running_output`
    [H, T, D] = the same sum weighted with the values. Output so far = running_output / running_sum;
    weight of a slot = exp(score - last running_max) / last running_sum.
    """

    first_position: int
    scores: Array
    running_max: Array
    running_sum: Array
    running_output: Array


def walk_pages(
    queries: Array, first_query: int, pages: Iterable[tuple[Array, Array]]
) -> Iterator[PageVisit]:
    """Attend page by page without ever holding all scores of a row together.

    `queries` [T, H, D] stand at positions `first_query`, `first_query + 1`, ...; `pages` yields
    the written slots of each page in order, keys and values [n, Hkv, D] each, from position 0.
    """
    t, h, d = queries.shape
    query_positions = np.arange(first_query, first_query + t)[:, None]  # [T, 1]
    scaled = (queries * np.float32(d**-0.5)).transpose(1, 0, 2)  # [H, T, D]
    running_max: Array = np.full((h, t), -np.inf, dtype=np.float32)
    running_sum: Array = np.zeros((h, t), dtype=np.float32)
    running_output: Array = np.zeros((h, t, d), dtype=np.float32)
    first_position = 0
    for keys, values in pages:
        n, h_kv, _ = keys.shape
        grouped = scaled.reshape(h_kv, -1, d)  # [Hkv, G * T, D]
        scores: Array = np.matmul(grouped, keys.transpose(1, 2, 0)).reshape(h, t, n)
        slot_positions = first_position + np.arange(n)  # [n]
        scores[:, slot_positions > query_positions] = -np.inf
        # Position 0 is visible to every query, so after the first page no maximum is -inf and
        # exp(-inf - maximum) = 0 is what drops the empty start and the masked slots.
        new_max: Array = np.maximum(running_max, scores.max(axis=-1))  # [H, T]
        shrink: Array = np.exp(running_max - new_max)  # [H, T]: earlier pages in the new scale
        weights = np.exp(scores - new_max[:, :, None])  # [H, T, n]
        mixed = np.matmul(weights.reshape(h_kv, -1, n), values.transpose(1, 0, 2))
        running_max = new_max
        running_sum = running_sum * shrink + weights.sum(axis=-1)
        running_output = running_output * shrink[:, :, None] + mixed.reshape(h, t, d)
        yield PageVisit(first_position, scores, running_max, running_sum, running_output)
        first_position += n


def finish_walk(visits: list[PageVisit]) -> tuple[Array, Array]:
    """Output [T, H, D] and weights [H, T, C] of a complete walk."""
    last = visits[-1]
    output = last.running_output / last.running_sum[:, :, None]  # [H, T, D]
    scores: Array = np.concatenate([visit.scores for visit in visits], axis=-1)  # [H, T, C]
    weights: Array = np.exp(scores - last.running_max[:, :, None]) / last.running_sum[:, :, None]
    return output.transpose(1, 0, 2), weights


def attend_dense(queries: Array, keys: Array, values: Array) -> tuple[Array, Array]:
    """The oracle: causal attention of a whole prompt, written as the textbook has it.

    `queries` [T, H, D], `keys` and `values` [T, Hkv, D]. Returns output [T, H, D] and weights
    [H, T, T]. Slow and wide on purpose: one head at a time, no batching, no shared code.
    """
    t, h, d = queries.shape
    group = h // keys.shape[1]
    future = np.triu(np.ones((t, t), dtype=bool), k=1)  # [T, T]
    output: Array = np.empty_like(queries)
    weights: Array = np.empty((h, t, t), dtype=np.float32)
    for head in range(h):
        scores = queries[:, head] @ keys[:, head // group].T / np.float32(d**0.5)  # [T, T]
        scores = np.where(future, np.float32(-np.inf), scores)
        powers = np.exp(scores - scores.max(axis=1, keepdims=True))
        weights[head] = powers / powers.sum(axis=1, keepdims=True)
        output[:, head] = weights[head] @ values[:, head // group]
    return output, weights
