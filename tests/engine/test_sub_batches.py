"""Sequences of one adapter are computed together, of two never; nobody's tokens depend on it."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from pagedviz.engine import Engine, EngineConfig, errors
from pagedviz.engine.events import PageShared, PrefixLookedUp
from pagedviz.engine.sub_batches import sub_batches
from tests.engine.kit import ChainModel, CheckedEngine, of_type, table


class CountingModel(ChainModel):
    """Notes the adapter and the number of sequences of each call."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: list[tuple[str | None, int]] = []

    def forward(
        self,
        token_ids: NDArray[np.int64],
        query_lens: Sequence[int],
        *rest: Any,
        adapter: str | None = None,
        reads: list[int] | None = None,
    ) -> NDArray[np.float32]:
        self.calls.append((adapter, len(query_lens)))
        return super().forward(token_ids, query_lens, *rest, adapter=adapter, reads=reads)


def test_equal_adapters_share_a_sub_batch_in_order_of_first_appearance() -> None:
    assert sub_batches([None, "b", None, "a", "b"]) == [[0, 2], [1, 4], [3]]
    assert sub_batches(["a", "a"]) == [[0, 1]]
    assert sub_batches([]) == []


def test_one_call_of_the_model_for_each_adapter_of_a_step() -> None:
    model = CountingModel()
    engine = Engine(EngineConfig(num_pages=16, block_size=4), model)
    for adapter in (None, "b", None, "a", "b"):
        engine.submit([0, 1, 2], max_new_tokens=1, adapter=adapter)
    engine.step()
    assert model.calls == [(None, 2), ("b", 2), ("a", 1)]


def test_a_mixed_batch_says_what_each_sequence_says_alone() -> None:
    model = ChainModel()
    num_mixed = num_shared = 0
    for seed in range(25):
        rng = random.Random(seed)
        config = EngineConfig(
            num_pages=rng.randint(9, 24),
            block_size=rng.randint(1, 4),
            max_tokens_per_step=rng.choice((5, 12, 200)),
            chunk_size=rng.choice((None, 3)),
            prefix_caching=seed % 4 > 0,
        )
        lab = CheckedEngine(config, model)
        expected = {}
        for _ in range(12):
            prompt = [rng.randrange(2) for _ in range(rng.randint(1, 8))]
            adapter = rng.choice((None, "a", "b"))
            try:
                seq_id = lab.engine.submit(prompt, max_new_tokens=5, adapter=adapter)
            except errors.ConfigError:
                continue  # too long for this pool
            expected[seq_id] = tuple(model.continuation(prompt, 5, adapter))
            plan = lab.step().plan
            num_mixed += len({sequence.adapter_id for sequence in plan.sequences}) > 1
            num_shared += len(of_type(lab.all_events[-1], PageShared))
        lab.finish()
        for seq_id, generated in expected.items():
            assert lab.after.sequence(seq_id).generated_ids == generated
    assert num_mixed > 50
    assert num_shared > 50


def test_one_prompt_under_two_adapters_shares_no_page_and_the_lookup_says_why() -> None:
    lab = CheckedEngine(EngineConfig(num_pages=16, block_size=4), ChainModel())
    prompt = [0, 1, 2, 3, 0, 1, 2, 3, 0]
    ids = [lab.engine.submit(prompt, max_new_tokens=2, adapter=a) for a in (None, "a", "b", "a")]
    lab.step()
    ends = [event.end for event in of_type(lab.all_events[-1], PrefixLookedUp)]
    assert ends == ["never_seen", "other_adapter", "other_adapter", "full_hit"]
    plain, first, other, again = (set(table(lab.after, seq_id)) for seq_id in ids)
    assert not plain & first and not plain & other and not first & other
    assert len(first & again) == 2


def test_an_adapter_that_the_model_does_not_have_is_refused_and_nothing_changes() -> None:
    engine = Engine(EngineConfig(num_pages=4, block_size=4), ChainModel())
    before = engine.snapshot()
    with pytest.raises(errors.ConfigError, match="no adapter 'sql'; it has a, b, or none"):
        engine.submit([1, 2], adapter="sql")
    assert engine.snapshot() == before

    class Plain(ChainModel):
        adapter_names = ()

    with pytest.raises(errors.ConfigError, match="no adapter 'a'; it has none"):
        Engine(EngineConfig(num_pages=4, block_size=4), Plain()).submit([1, 2], adapter="a")


def test_without_a_model_any_adapter_is_only_a_name() -> None:
    lab = CheckedEngine(EngineConfig(num_pages=4, block_size=4))
    lab.submit([1, 2], [3], adapter="sql")
    lab.finish()
    assert lab.after.sequence(0).adapter == "sql"
