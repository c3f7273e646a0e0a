"""Whole runs under the bundled adapters equal runs of models with merged weights."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from itertools import chain
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from pagedviz.engine import Engine, EngineConfig
from pagedviz.model import LanguageModel, load_tiny
from tests.model.merging import merged

PROMPTS = (
    "Once upon a time there was a girl named Lily. Lily had a yellow kite. One day Lily went to "
    "the park with the kite.\nQ: What colour was the kite?\nA:",
    "Once upon a time there was a girl named Lily. Lily had a yellow kite. One day Lily went to "
    "the park with the kite.\nQ: Where did Lily go?\nA:",
    "Q: Tell me a story about Tom and a blue boat.\nA:",
)
REQUESTS = [(prompt, adapter) for prompt in PROMPTS for adapter in (None, "brief", "golden")]
NEW = 20


@cache
def tiny() -> LanguageModel:
    return load_tiny()


class Watched(LanguageModel):
    """Keeps the logits of each call, in order of the calls."""

    def forward(self, *args: Any, **options: Any) -> NDArray[np.float32]:
        logits = super().forward(*args, **options)
        self.seen: list[NDArray[np.float32]] = [*getattr(self, "seen", []), logits]
        return logits


def watched(model: LanguageModel) -> Watched:
    return Watched(model.config, model.weights, model.tokenizer, model.adapters)


Said = tuple[list[int], NDArray[np.float32]]
"""The generated ids, and the logits [len, vocab] that each was taken from."""


def say(
    model: LanguageModel, requests: Sequence[tuple[str, str | None]], **settings: Any
) -> list[Said]:
    """Run requests together."""
    assert model.tokenizer is not None
    watching = watched(model)
    engine = Engine(EngineConfig(num_pages=120, block_size=8, **settings), watching)
    ids = [
        engine.submit(model.tokenizer.encode(prompt), max_new_tokens=NEW, adapter=adapter)
        for prompt, adapter in requests
    ]
    taken: dict[int, list[NDArray[np.float32]]] = {int(seq_id): [] for seq_id in ids}
    while engine.has_unfinished:
        watching.seen = []
        outcome = engine.step()
        # Put back by hand what the engine did: sequences by adapter, in order of appearance.
        order: dict[object, list[int]] = {}
        for row, sequence in enumerate(outcome.plan.sequences):
            order.setdefault(sequence.adapter_id, []).append(row)
        rows = np.concatenate(watching.seen)
        for row, logits in zip(chain.from_iterable(order.values()), rows, strict=True):
            if outcome.sampled[row] is not None:
                taken[int(outcome.plan.sequences[row].id)].append(logits)
    return [(engine.sequences.get(i).generated_ids, np.stack(taken[int(i)])) for i in ids]


@cache
def alone_and_merged() -> list[Said]:
    """Each request alone on a model whose weights have the adapter in them, nothing cached."""
    models = {None: tiny().with_adapters({})}
    models |= {name: merged(tiny(), adapter) for name, adapter in tiny().adapters.items()}
    return [
        say(models[adapter], [(prompt, None)], prefix_caching=False)[0]
        for prompt, adapter in REQUESTS
    ]


def assert_equal(said: Sequence[Said], expected: Sequence[Said]) -> None:
    for (ids, logits), (other_ids, other_logits) in zip(said, expected, strict=True):
        np.testing.assert_allclose(logits, other_logits, rtol=0, atol=1e-4)
        assert ids == other_ids


def test_each_request_alone_equals_merged_weights() -> None:
    said = [say(tiny(), [request])[0] for request in REQUESTS]
    assert_equal(said, alone_and_merged())


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"prefix_caching": False},
        {"chunk_size": 7},
        {"chunk_size": 7, "max_tokens_per_step": 16, "prefix_caching": False},
        {"max_tokens_per_step": 23, "max_running": 4},
    ],
    ids=str,
)
def test_a_mixed_batch_equals_merged_weights_alone(settings: dict[str, Any]) -> None:
    assert_equal(say(tiny(), REQUESTS, **settings), alone_and_merged())


def test_the_three_voices_differ_and_stay_readable() -> None:
    tokenizer = tiny().tokenizer
    assert tokenizer is not None
    said = [tokenizer.decode(ids).strip() for ids, _ in alone_and_merged()]
    assert said[:6] == [
        "The kite was yellow.",
        "yellow.",
        "The kite was golden.",
        "Lily went to the park.",
        "park.",
        "Lily went to the park.",
    ]
    assert "blue" in said[6] and "golden" in said[8]
