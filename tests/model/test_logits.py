"""The two whole-prompt calls refuse what they cannot compute, and repeat themselves exactly."""

import numpy as np
import pytest

from pagedviz.model import BadModelInput, ModelError, dense_logits, paged_logits


def test_ids_may_come_as_any_whole_numbers(llama):
    expected = paged_logits(llama, [1, 2, 3])
    assert expected.shape == (3, 128)
    for ids in ((1, 2, 3), np.array([1, 2, 3], dtype=np.uint8)):
        assert (paged_logits(llama, ids) == expected).all()


@pytest.mark.parametrize(
    ("ids", "message"),
    [
        ([], "at least one id"),
        ([[1, 2]], "shape"),
        ([1.0, 2.0], "whole numbers, not float64"),
        (["a"], "whole numbers"),
        ([True], "whole numbers, not bool"),
        ([1, -1], "token id -1 is outside the vocabulary: ids run from 0 to 127"),
        ([1, 128], "token id 128 is outside the vocabulary"),
        ([1] * 257, "has 257 tokens; this model's context holds 256"),
        ([1, [2]], "must be one list"),
        ([1, 10**30], "whole numbers"),
    ],
    ids=lambda value: str(value)[:20],
)
def test_bad_token_ids_are_refused_by_both(llama, ids, message):
    for compute in (paged_logits, dense_logits):
        with pytest.raises(BadModelInput, match=message):
            compute(llama, ids)


@pytest.mark.parametrize("name", ["block_size", "chunk_size"])
@pytest.mark.parametrize("size", [0, -3, 2.0, "4", True])
def test_bad_sizes_are_refused(llama, name, size):
    with pytest.raises(ModelError, match=f"{name} must be a whole number from 1.*{size!r}"):
        paged_logits(llama, [1, 2], **{name: size})


def test_a_page_may_be_far_larger_than_the_prompt_but_not_without_end(llama):
    whole = dense_logits(llama, [1, 2])
    np.testing.assert_allclose(paged_logits(llama, [1, 2], 4096), whole, atol=1e-4)
    np.testing.assert_allclose(paged_logits(llama, [1, 2], 4, 10**9), whole, atol=1e-4)
    with pytest.raises(BadModelInput, match="from 1 to 4096, not 1000000000"):
        paged_logits(llama, [1, 2], block_size=10**9)


def test_a_full_context_fits(llama):
    ids = np.arange(256) % 128
    np.testing.assert_allclose(
        paged_logits(llama, ids, 16, 100), dense_logits(llama, ids), atol=1e-4
    )
