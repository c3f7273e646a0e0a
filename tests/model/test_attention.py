"""Attention through pages is attention: three ways agree, and nothing outside a context counts."""

import numpy as np
import pytest

from pagedviz.model import BadModelInput, dense_logits
from pagedviz.model.attention import attend_dense, finish_walk, walk_pages
from pagedviz.model.paged_attention import PagedAttention
from tests.model.paging import PagedCache, Run

H, H_KV, D, B = 6, 2, 8, 4


def random_layer(t, seed=0):
    """Queries [T, H, D], keys and values [T, Hkv, D] of one layer, scores spread wide."""
    rng = np.random.default_rng(seed)
    return [2 * rng.standard_normal((t, heads, D), dtype=np.float32) for heads in (H, H_KV, H_KV)]


def nan_pages(num_pages):
    return [np.full((1, num_pages, B, H_KV, D), np.nan, dtype=np.float32) for _ in range(2)]


@pytest.mark.parametrize("path", ["gather", "walk"])
@pytest.mark.parametrize("chunks", [[23], [1] * 23, [4, 4, 4, 4, 4, 3], [5, 1, 9, 8]])
def test_both_paged_paths_equal_dense_attention_on_one_layer(path, chunks):
    queries, keys, values = random_layer(23)
    expected, expected_weights = attend_dense(queries, keys, values)
    storage = nan_pages(9)
    table, end, recorded = [7, 2, 8, 0, 3, 5], 0, []
    for chunk in chunks:
        rows = slice(end, end + chunk)
        end += chunk
        attend = PagedAttention(*storage, [chunk], [end], [table], path, recorded)
        output = attend(0, queries[rows], keys[rows], values[rows])
        np.testing.assert_allclose(output, expected[rows], atol=1e-5, rtol=0)
        np.testing.assert_allclose(
            recorded[-1][0], expected_weights[:, rows, :end], atol=1e-5, rtol=0
        )


@pytest.mark.parametrize("path", ["gather", "walk"])
def test_ragged_batch_equals_each_sequence_alone_beside_pages_of_nan(path):
    # Contexts end inside, at the end and at the start of a page; chunks and decodes alternate.
    lengths, chunks = [1, 4, 5, 11, 16, 9], [1, 1, 5, 1, 7, 1]
    storage = nan_pages(20)
    tables = np.random.default_rng(3).permutation(19)[:18].reshape(6, 3)
    tables = [[*table, 19] for table in tables.tolist()]  # all but one need fewer than 4 pages
    layers = [random_layer(length, seed) for seed, length in enumerate(lengths)]
    step = [[], [], []]
    for (queries, keys, values), length, chunk, table in zip(
        layers, lengths, chunks, tables, strict=True
    ):
        if before := length - chunk:
            earlier = PagedAttention(*storage, [before], [before], [table], path)
            earlier(0, queries[:before], keys[:before], values[:before])
        for part, array in zip(step, (queries, keys, values), strict=True):
            part.append(array[before:])
    attend = PagedAttention(*storage, chunks, lengths, tables, path)
    output = attend(0, *(np.concatenate(part) for part in step))
    expected = [
        attend_dense(*layer)[0][-chunk:] for layer, chunk in zip(layers, chunks, strict=True)
    ]
    np.testing.assert_allclose(output, np.concatenate(expected), atol=1e-5, rtol=0)


@pytest.mark.parametrize("path", ["gather", "walk"])
@pytest.mark.parametrize("reader_first", [False, True])
def test_sequences_of_one_step_may_share_a_page_that_one_of_them_is_just_filling(
    llama, path, reader_first
):
    # The writer computes its whole prompt in this step. The reader took the first two pages as a
    # prefix hit in the same step, so it computes only its own tail - before or after in the batch.
    prompt = list(range(3, 13))
    writer = Run(prompt, chunk=10)
    reader = Run([*prompt[:8], 90, 91, 92], chunk=3, computed=8)
    cache = PagedCache(llama, num_pages=6, block_size=4)
    writer.table = [cache.free.pop() for _ in range(3)]
    reader.table = [*writer.table[:2], cache.free.pop()]
    runs = [reader, writer] if reader_first else [writer, reader]
    logits = cache.step(runs, path=path)
    expected = {
        10: dense_logits(llama, prompt),
        3: dense_logits(llama, reader.tokens)[8:],
    }
    for found in logits:
        np.testing.assert_allclose(found, expected[len(found)], atol=1e-4, rtol=0)


def test_a_step_writes_its_own_slots_and_no_others(llama):
    cache = PagedCache(llama, num_pages=5, block_size=4)
    run = Run([5, 6, 7, 8, 9, 10], chunk=6)
    cache.step([run])
    written = ~np.isnan(cache.keys).all(axis=(0, 3, 4))  # [page, slot]
    expected = np.zeros((5, 4), dtype=bool)
    expected[run.table[0]] = True
    expected[run.table[1], :2] = True
    assert (written == expected).all()
    assert (~np.isnan(cache.values).all(axis=(0, 3, 4)) == expected).all()


def test_after_each_page_of_the_walk_the_running_output_is_attention_so_far():
    queries, keys, values = random_layer(10)
    pages = [(keys[i : i + B], values[i : i + B]) for i in range(0, 10, B)]  # 4, 4 and 2 slots
    visits = list(walk_pages(queries[9:], 9, pages))
    assert [visit.first_position for visit in visits] == [0, 4, 8]
    for visit, seen in zip(visits, (4, 8, 10), strict=True):
        # The last query placed right behind the slots seen so far sees all of them.
        moved = np.concatenate([queries[: seen - 1], queries[9:]])
        expected = attend_dense(moved, keys[:seen], values[:seen])[0][-1]  # [H, D]
        so_far = (visit.running_output / visit.running_sum[:, :, None])[:, 0]
        np.testing.assert_allclose(so_far, expected, atol=1e-5, rtol=0)
    output, weights = finish_walk(visits)
    np.testing.assert_allclose(weights.sum(axis=-1), 1, atol=1e-6)
    np.testing.assert_allclose(output[0], expected, atol=1e-5, rtol=0)


def test_huge_scores_do_not_overflow():
    queries, keys, values = random_layer(9)
    for path in ("gather", "walk"):
        attend = PagedAttention(*nan_pages(3), [9], [9], [[2, 0, 1]], path)
        assert np.isfinite(attend(0, 1e4 * queries, keys, values)).all()


@pytest.mark.parametrize(
    ("query_lens", "context_lens", "tables", "message"),
    [
        ([2], [], [], "got 1, 0 and 0"),
        ([2], [2, 2], [[0]], "got 1, 2 and 1"),
        ([0, 2], [3, 2], [[0], [1]], "0 queries"),
        ([2], [1], [[0]], "2 queries and 1 cached"),
        ([2], [5], [[0]], "has 1 pages of 4 slots for 5 tokens; it needs 2"),
        ([2], [5], [[0, 3]], "names page 3; the storage has pages 0 to 2"),
        ([2], [5], [[0, -1]], "names page -1"),
        ([3], [5], [[0, 1]], "add up to 3, but the step has 2 tokens"),
        ([2], [257], [list(range(65))], "has 257 tokens; this model's context holds 256"),
    ],
)
def test_a_bad_step_says_what_is_wrong_and_writes_nothing(
    llama, query_lens, context_lens, tables, message
):
    cache = PagedCache(llama, num_pages=3, block_size=4)
    with pytest.raises(BadModelInput, match=message):
        llama.forward([1, 2], query_lens, context_lens, tables, cache.keys, cache.values)
    assert np.isnan(cache.keys).all()
    assert np.isnan(cache.values).all()


def test_storage_of_another_shape_or_type_is_refused(llama):
    cache = PagedCache(llama, num_pages=3, block_size=4)
    for keys, values in (
        (cache.keys[:2], cache.values),
        (cache.keys, cache.values[:, :2]),
        (cache.keys, cache.values.astype(np.float64)),
        (cache.keys[0], cache.values),
    ):
        with pytest.raises(BadModelInput, match=r"^(keys|values) "):
            llama.forward([1], [1], [1], [[0]], keys, values)
    with pytest.raises(BadModelInput, match="path must be"):
        llama.forward([1], [1], [1], [[0]], cache.keys, cache.values, path="slow")
