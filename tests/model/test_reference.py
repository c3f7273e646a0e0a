"""The model computes what PyTorch computes, however the tokens are cut and paged.

Tolerances leave room for float noise between kernels only: the smallest fault known to keep all
greedy ids right (a wrong epsilon) moves logits by 9e-4.
"""

import numpy as np
import pytest

from pagedviz.model import dense_logits, paged_logits
from tests.model.paging import PagedCache, Run

LOGITS, ATTENTION = 5e-4, 5e-5


def assert_close(found, expected, tolerance):
    assert np.shape(found) == np.shape(expected)
    assert np.abs(found - expected).max() < tolerance  # NaN fails too


@pytest.mark.parametrize("block_size", [1, 3, 16])
@pytest.mark.parametrize("chunk_size", [None, 1, 7, 16])
def test_prompt_logits_equal_the_reference_at_any_page_and_chunk_size(
    reference, block_size, chunk_size
):
    for name, prompt in reference.prompts.items():
        logits = paged_logits(reference.model, prompt, block_size, chunk_size)
        assert logits.dtype == np.float32
        assert_close(logits, reference.logits[f"prefill_{name}"], LOGITS)


@pytest.mark.parametrize("block_size", [3, 16])
def test_page_walk_equals_the_reference(reference, block_size):
    for name in ("p1", "p17", "p40b"):
        logits = paged_logits(reference.model, reference.prompts[name], block_size, 9, path="walk")
        assert_close(logits, reference.logits[f"prefill_{name}"], LOGITS)


def test_dense_oracle_equals_the_reference_and_both_paged_paths(reference):
    for name, prompt in reference.prompts.items():
        dense = dense_logits(reference.model, prompt)
        assert_close(dense, reference.logits[f"prefill_{name}"], LOGITS)
        for path in ("gather", "walk"):
            paged = paged_logits(reference.model, prompt, path=path)
            # Relative beyond 16, where one float32 step is no longer small against 1e-4.
            assert_close(paged, dense, 1e-4 * max(1, np.abs(dense).max() / 16))


@pytest.mark.parametrize(
    ("path", "block_size"), [("gather", 1), ("gather", 3), ("gather", 16), ("walk", 5)]
)
def test_mixed_batch_continues_every_prompt_as_the_reference_does(reference, path, block_size):
    # Seven prompts arrive one per step with different chunk sizes: every step mixes prefill
    # chunks and decodes of different ages, in an order that puts decodes between chunks.
    cache = PagedCache(reference.model, num_pages=500, block_size=block_size)
    names = ["p40a", "p1", "p100", "p5", "p16", "p40b", "p17"]
    runs = {name: Run(list(reference.prompts[name]), chunk=7 + i) for i, name in enumerate(names)}
    prefill = {name: [] for name in names}
    decode = {name: [] for name in names}
    for step in range(100):
        active = [name for name in names[: step + 1] if len(decode[name]) < 32]
        if not active:
            break
        for name, logits in zip(
            active, cache.step([runs[name] for name in active], path=path), strict=True
        ):
            run = runs[name]
            if not decode[name]:
                prefill[name].extend(logits)
            if run.computed == len(run.tokens):
                decode[name].append(logits[-1])
                run.tokens.append(int(logits[-1].argmax()))
    for name in names:
        assert runs[name].tokens[len(reference.prompts[name]) :] == reference.greedy[name]
        assert_close(np.array(prefill[name]), reference.logits[f"prefill_{name}"], LOGITS)
        assert_close(np.array(decode[name]), reference.logits[f"decode_{name}"], LOGITS)


def test_dense_attention_equals_the_reference(reference):
    for name, expected in reference.attention.items():
        weights = []
        dense_logits(reference.model, reference.prompts[name], attention=weights)
        assert_close(np.array(weights), expected, ATTENTION)


@pytest.mark.parametrize("path", ["gather", "walk"])
@pytest.mark.parametrize("block_size", [1, 3, 16])
def test_recorded_attention_of_a_mixed_batch_equals_the_reference(reference, path, block_size):
    cache = PagedCache(reference.model, num_pages=100, block_size=block_size)
    prompts = reference.prompts
    runs = {"p40a": Run(prompts["p40a"], chunk=3), "p17": Run(prompts["p17"], chunk=1)}
    rows = {name: [] for name in runs}  # of each step: [layer, head, query_len, context_len]
    while active := [name for name, run in runs.items() if run.computed < len(run.tokens)]:
        weights = []
        cache.step([runs[name] for name in active], path=path, attention=weights)
        for i, name in enumerate(active):
            rows[name].append(np.array([layer[i] for layer in weights]))
    for name, expected in reference.attention.items():
        start = 0
        for part in rows[name]:
            end = start + part.shape[2]
            assert_close(part, expected[:, :, start:end, :end], ATTENTION)
            start = end
        assert start == len(prompts[name])
