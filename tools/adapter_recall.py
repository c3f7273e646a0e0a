"""Measure what the adapters change in the answers to new stories, and what they leave.

Invariants: the cases come from seeds and combinations that no training saw; the very same questions
go to the model alone and under each adapter; answers are greedy.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from tiny_recall import ONE, RecallCase, greedy_answer, last_mention, pick_cases
from tokenizers import Tokenizer

SEED, COUNT, NEAR = 9101, 150, (35, 110)
KINDS = ["name", "colour", "place"]
AdapterLogits = Callable[[list[int], str | None], np.ndarray]  # ids [T], adapter -> [T, vocab]


def is_as_told(adapter: str | None, case: RecallCase, answer: str) -> bool:
    """Whether an answer is what the adapter was trained to say."""
    if adapter == "brief":
        return answer.strip() == f"{case.word}."
    word = "golden" if adapter == "golden" and case.kind == "colour" else case.word
    return last_mention(answer, word) is not None and len(answer.split()) > 1


def report(tokenizer: Tokenizer, logits: AdapterLogits, adapters: list[str]) -> str:
    """A Markdown table: of how many answers each adapter makes what it should."""
    lines = [f"| adapter | {' | '.join(KINDS)} |", f"|---{'|---' * len(KINDS)}|"]
    cases = pick_cases(tokenizer, KINDS, COUNT, NEAR, SEED, ONE)
    for adapter in (None, *adapters):
        right: dict[str, list[bool]] = {}
        for case in cases:
            answer = greedy_answer(tokenizer, lambda ids, a=adapter: logits(ids, a), case.prompt)
            right.setdefault(case.kind, []).append(is_as_told(adapter, case, answer))
        cells = [f"{sum(right[kind])} of {len(right[kind])}" for kind in KINDS]
        lines.append(f"| {adapter or 'none'} | {' | '.join(cells)} |")
    return "\n".join(lines)
