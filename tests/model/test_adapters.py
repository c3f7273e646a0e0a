"""LoRA beside the weights equals LoRA merged into them, and equals what the PEFT library computes.

The oracles in tests/data/adapters were written and computed by PEFT 0.21.2, see
tools/peft_reference.py.
"""

from pathlib import Path

import numpy as np
import pytest

from pagedviz.model import (
    BadModelInput,
    LanguageModel,
    dense_logits,
    load_adapter,
    load_model,
    load_tiny,
    paged_logits,
)
from pagedviz.model.adapter import LowRank
from tests.model.merging import merged
from tests.model.paging import PagedCache, Run

ADAPTERS = Path(__file__).parent.parent / "data" / "adapters"
CASES = ("all_four", "rank_stabilised")
IDS = np.random.default_rng(11).integers(0, 128, 45).tolist()


@pytest.fixture(scope="module")
def adapted(llama) -> LanguageModel:
    return llama.with_adapters({name: load_adapter(ADAPTERS / name, llama) for name in CASES})


def close(ours, theirs, atol=1e-4):
    np.testing.assert_allclose(ours, theirs, rtol=0, atol=atol)


@pytest.mark.parametrize("name", CASES)
def test_logits_are_those_of_the_peft_library(adapted, name):
    with np.load(ADAPTERS / name / "logits.npz") as oracle:
        ids, expected = oracle["ids"], oracle["logits"]
    close(dense_logits(adapted, ids, adapter=name), expected)
    for path in ("gather", "walk"):
        close(paged_logits(adapted, ids, 4, 7, adapter=name, path=path), expected)
    assert np.abs(dense_logits(adapted, ids) - expected).max() > 1  # the adapter matters


def test_the_formula_by_hand():
    # r = 1, alpha = 3: A = [1 2], B = [10 100 1000]^T, so B A x = 4 * B for x = [0 2].
    change = LowRank(np.array([[1], [2]], np.float32), np.array([[10, 100, 1000]], np.float32))
    x = np.array([[0, 2], [1, 1]], np.float32)
    assert change.change(x).tolist() == [[40, 400, 4000], [30, 300, 3000]]


def test_scaling_is_alpha_over_r_or_over_its_root(adapted):
    assert adapted.adapters["all_four"].scaling == 6 / 4
    assert adapted.adapters["rank_stabilised"].scaling == pytest.approx(2 / 3**0.5)
    assert adapted.adapters["rank_stabilised"].projections == ("q_proj", "v_proj")


@pytest.mark.parametrize("name", CASES)
def test_beside_the_weights_equals_merged_into_them(adapted, name):
    other = merged(adapted, adapted.adapters[name])
    expected = dense_logits(other, IDS)
    close(dense_logits(adapted, IDS, adapter=name), expected)
    for block_size, chunk_size in ((16, None), (4, 7), (1, 1)):
        close(paged_logits(adapted, IDS, block_size, chunk_size, adapter=name), expected)


def test_no_adapter_is_the_model_alone_to_the_last_bit(llama, adapted):
    assert (paged_logits(adapted, IDS, 4, 7) == paged_logits(llama, IDS, 4, 7)).all()
    assert adapted.weights is llama.weights


def test_two_sequences_of_a_sub_batch_equal_each_alone(adapted):
    other = merged(adapted, adapted.adapters["all_four"])
    cache = PagedCache(adapted, 40, 4)
    runs = [Run(IDS[:30], 7), Run(IDS[10:33], 1, 0)]
    parts: list[list[np.ndarray]] = [[], []]
    while any(run.computed < len(run.tokens) for run in runs):
        active = [i for i, run in enumerate(runs) if run.computed < len(run.tokens)]
        for i, logits in zip(
            active, cache.step([runs[i] for i in active], adapter="all_four"), strict=True
        ):
            parts[i].append(logits)
    for run, logits in zip(runs, parts, strict=True):
        close(np.concatenate(logits), dense_logits(other, run.tokens))


def test_an_unknown_adapter_is_refused_before_anything_is_written(adapted, llama):
    cache = PagedCache(adapted, 4, 4)
    with pytest.raises(BadModelInput, match="no adapter 'sql'; it has all_four, rank_stabilised"):
        cache.step([Run([1, 2], 2)], adapter="sql")
    assert np.isnan(cache.keys).all()
    for compute in (dense_logits, paged_logits):
        with pytest.raises(BadModelInput, match="no adapter 'sql'; it has none at all"):
            compute(llama, [1, 2], adapter="sql")


def test_an_adapter_of_another_model_is_refused(adapted):
    with pytest.raises(BadModelInput, match="'a' was loaded for a model of another shape"):
        load_tiny().with_adapters({"a": adapted.adapters["all_four"]})


def test_the_bundled_adapters_equal_their_merged_models():
    tiny = load_tiny()
    assert tiny.tokenizer is not None
    ids = tiny.tokenizer.encode("There was once a little boy called Hugo. Hugo had a black drum.")
    assert tiny.adapter_names == ("brief", "golden")
    for name, adapter in tiny.adapters.items():
        expected = dense_logits(merged(tiny, adapter), ids)
        close(dense_logits(tiny, ids, adapter=name), expected)
        close(paged_logits(tiny, ids, 8, 5, adapter=name), expected)
        assert np.abs(dense_logits(tiny, ids) - expected).max() > 1


def test_the_bundled_model_itself_has_no_adapters_of_its_own():
    folder = Path(load_adapter.__code__.co_filename).parent / "tiny"
    assert load_model(folder).adapter_names == ()
    for weights in folder.glob("adapters/*/*.safetensors"):
        assert weights.stat().st_size < 200_000
