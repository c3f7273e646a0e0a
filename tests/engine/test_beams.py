"""Beam search over forks equals a brute-force search that knows no pages."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest

from pagedviz.engine import EngineConfig, SeqId
from pagedviz.engine.events import SequenceFinished
from pagedviz.model import LanguageModel, dense_logits, load_tiny
from tests.engine.kit import CheckedEngine, of_type

PROMPTS = (
    "Once upon a time there was a girl",
    "Tom had a red ball. What colour was the ball?",
    "The fox",
)
NUM_NEW = 8


@cache
def model() -> LanguageModel:
    return load_tiny()


def encode(text: str) -> list[int]:
    tokenizer = model().tokenizer
    assert tokenizer is not None
    return list(tokenizer.encode(text))


@cache
def logprobs(token_ids: tuple[int, ...]) -> np.ndarray:
    """[vocab] of the next token, by the dense model."""
    row = dense_logits(model(), list(token_ids))[-1].astype(np.float64)
    return row - row.max() - np.log(np.exp(row - row.max()).sum())


def brute_force(
    prompt: tuple[int, ...], width: int, num_new: int
) -> list[tuple[float, tuple[int, ...]]]:
    """Every continuation by one token of every hypothesis, the best kept; sorted by score."""
    open_, ended = [(0.0, prompt)], []
    for _ in range(num_new):
        every = [
            (score + float(logprob), tokens + (token_id,))
            for score, tokens in open_
            for token_id, logprob in enumerate(logprobs(tokens))
        ]
        best = sorted(every, key=lambda item: -item[0])[: width - len(ended)]
        ended += [item for item in best if item[1][-1] in model().eos_token_ids]
        open_ = [item for item in best if item[1][-1] not in model().eos_token_ids]
    return sorted(ended + open_, key=lambda item: -item[0])


def searched(
    config: EngineConfig, prompt: tuple[int, ...], width: int
) -> tuple[CheckedEngine, list[tuple[int, ...]]]:
    lab = CheckedEngine(config, model())
    lab.engine.submit(list(prompt), max_new_tokens=NUM_NEW, beam_width=width)
    lab.finish()
    lab.assert_all_is_free()
    found = [
        sequence.token_ids for sequence in lab.after.sequences if sequence.finish_reason != "pruned"
    ]
    return lab, found


ROOMY = EngineConfig(num_pages=64, block_size=4)
TIGHT = EngineConfig(num_pages=5, block_size=4)
SWAPPING = EngineConfig(num_pages=5, block_size=4, preemption="swap", host_pages=40)


@pytest.mark.parametrize("width", [1, 2, 3, 4])
@pytest.mark.parametrize("text", PROMPTS)
def test_beams_equal_a_brute_force_search(text: str, width: int) -> None:
    prompt = tuple(encode(text))
    expected = brute_force(prompt, width, NUM_NEW)
    _, found = searched(ROOMY, prompt, width)
    assert sorted(found) == sorted(tokens for _, tokens in expected)


@pytest.mark.parametrize("config", [TIGHT, SWAPPING], ids=["recompute", "swap"])
@pytest.mark.parametrize("width", [2, 4])
def test_beams_under_pressure_find_the_same(config: EngineConfig, width: int) -> None:
    prompt = tuple(encode(PROMPTS[0]))
    lab, found = searched(config, prompt, width)
    assert sorted(found) == sorted(tokens for _, tokens in brute_force(prompt, width, NUM_NEW))
    assert width == 2 or sum(s.num_preemptions for s in lab.after.sequences)


def test_the_beams_that_fall_out_are_pruned_and_let_go_of_their_pages() -> None:
    lab, _ = searched(ROOMY, tuple(encode(PROMPTS[0])), 4)
    pruned = [
        event
        for events in lab.all_events
        for event in of_type(events, SequenceFinished)
        if event.reason == "pruned"
    ]
    assert pruned
    assert all(not lab.after.sequence(event.seq_id).page_ids for event in pruned)


def test_an_aborted_search_ends_all_its_beams() -> None:
    lab = CheckedEngine(ROOMY, model())
    lab.engine.submit(encode(PROMPTS[0]), max_new_tokens=NUM_NEW, beam_width=4)
    for _ in range(4):
        lab.step()
    lab.engine.abort(SeqId(0))
    lab.step()
    assert not lab.engine.has_unfinished
    lab.assert_all_is_free()
