"""Decode speed of the paged path against the same model over contiguous caches, in one run.

Prints milliseconds a step (median and minimum) and the ratio at several context lengths.

Invariants:
- Both sides share all code but the access to keys and values, the same batch and the same BLAS
  thread; their steps alternate, so that a noisy neighbour disturbs both alike. Time is that of the
  thread, which on a quiet machine is the time on the wall, without waiting for a busy processor.
- The contiguous side is an honest peer: one [S, context, Hkv, D] cache a layer, attended in place
  without a copy.
"""

import os

os.environ["OPENBLAS_NUM_THREADS"] = "1"  # read once, when NumPy loads OpenBLAS

import argparse
import statistics
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

import pagedviz.model
from pagedviz.model import LanguageModel, LlamaConfig, load_tiny
from pagedviz.model.attention import attention_weights, weighted_values
from pagedviz.model.transformer import LayerWeights, Weights

Array = NDArray[np.float32]
NUM_SEQUENCES = 8
BLOCK_SIZE = 16


class ContiguousDecode:
    """The peer: attention of one decode step over [layers, S, context, Hkv, D] caches."""

    def __init__(self, keys: Array, values: Array, context_lens: list[int]) -> None:
        self._keys, self._values = keys, values
        self._sequences = np.arange(len(context_lens))  # [S]
        self.positions = np.array(context_lens, dtype=np.int64) - 1  # [S]
        self._num_slots = max(context_lens)
        self._bias: Array | None = None
        if min(context_lens) < self._num_slots:
            visible = np.arange(self._num_slots) <= self.positions[:, None, None, None]
            self._bias = np.where(visible, 0, -np.inf).astype(np.float32)  # [S, 1, 1, C]

    def __call__(self, layer: int, queries: Array, keys: Array, values: Array) -> Array:
        self._keys[layer][self._sequences, self.positions] = keys
        self._values[layer][self._sequences, self.positions] = values
        weights = attention_weights(
            queries[:, None], self._keys[layer][:, : self._num_slots], self._bias
        )
        return weighted_values(weights, self._values[layer][:, : self._num_slots])[:, 0]


def bundled_model() -> LanguageModel:
    """The model of the package, or random weights of its shape where it is not there yet."""
    if (Path(pagedviz.model.__file__).parent / "tiny" / "model.safetensors").exists():
        return load_tiny()
    print("the bundled model is not there: random weights of its shape")
    config = LlamaConfig.from_dict(
        {
            "model_type": "llama",
            "vocab_size": 512,
            "hidden_size": 96,
            "intermediate_size": 256,
            "num_hidden_layers": 4,
            "num_attention_heads": 4,
            "num_key_value_heads": 2,
            "max_position_embeddings": 512,
            "tie_word_embeddings": True,
        }
    )
    rng = np.random.default_rng(0)

    d, ff, rows = 96, 256, 4 * 24

    def random(*shape: int) -> Array:
        return rng.standard_normal(shape, dtype=np.float32) / np.float32(d**0.5)

    layers = tuple(
        LayerWeights(
            random(d),
            random(d, 2 * rows),
            random(rows, d),
            random(d),
            random(d, 2 * ff),
            random(ff, d),
        )
        for _ in range(4)
    )
    embedding = random(512, d)
    return LanguageModel(config, Weights(embedding, layers, random(d), embedding.T))


def measure(model: LanguageModel, context_lens: list[int], steps: int) -> tuple[list[float], ...]:
    """Seconds of each paged and each contiguous step; both must agree on the logits."""
    rng = np.random.default_rng(1)
    s = len(context_lens)
    kv_shape = (model.num_kv_heads, model.head_dim)
    caches = [
        rng.standard_normal((model.num_layers, s, model.max_seq_len, *kv_shape), dtype=np.float32)
        for _ in range(2)
    ]
    # The same content in pages of a pool with some to spare, in shuffled order.
    pages_each = model.max_seq_len // BLOCK_SIZE
    num_pages = s * pages_each
    tables = rng.permutation(num_pages).reshape(s, pages_each)
    pages = []
    for cache in caches:
        paged_cache = cache.reshape(model.num_layers, num_pages, BLOCK_SIZE, *kv_shape)
        pages.append(np.empty_like(paged_cache))
        pages[-1][:, tables.reshape(-1)] = paged_cache
    token_ids = rng.integers(0, model.vocab_size, s)
    page_tables = tables.tolist()

    def paged() -> Array:
        return model.forward(token_ids, [1] * s, context_lens, page_tables, pages[0], pages[1])

    def contiguous() -> Array:
        ids = model.checked_ids(token_ids)
        peer = ContiguousDecode(caches[0], caches[1], context_lens)
        return model.logits(model.hidden_states(ids, peer.positions, peer))

    error = float(np.abs(paged() - contiguous()).max())
    assert error < 1e-4, f"paged and contiguous logits differ by {error}"
    sides: list[Callable[[], Array]] = [paged, contiguous]
    seconds: tuple[list[float], ...] = ([], [])
    for step in range(steps + 20):
        for side in (0, 1) if step % 2 else (1, 0):
            start = time.thread_time()
            sides[side]()
            if step >= 20:  # warm by then
                seconds[side].append(time.thread_time() - start)
    return seconds


def main() -> None:
    """Print one line per context length."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=200, help="measured steps of each side")
    steps = parser.parse_args().steps
    model = bundled_model()
    print(
        f"decode, {NUM_SEQUENCES} sequences, {BLOCK_SIZE} slots a page, {steps} steps, one thread"
    )
    print("context    paged median/min   contiguous median/min   ratio of medians / of minima")
    cases = {str(c): [c] * NUM_SEQUENCES for c in (64, 256, 480)}
    cases["64-256"] = [64 + round(192 * i / (NUM_SEQUENCES - 1)) for i in range(NUM_SEQUENCES)]
    for name, context_lens in cases.items():
        paged, contiguous = measure(model, context_lens, steps)
        p, c = statistics.median(paged) * 1e3, statistics.median(contiguous) * 1e3
        p_min, c_min = min(paged) * 1e3, min(contiguous) * 1e3
        print(
            f"{name:>7}    {p:6.3f} / {p_min:6.3f} ms     {c:6.3f} / {c_min:6.3f} ms"
            f"         {p / c:5.2f} / {p_min / c_min:5.2f}"
        )


if __name__ == "__main__":
    main()
