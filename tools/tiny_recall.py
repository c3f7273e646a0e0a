"""Measure how well a model repeats a name, colour or place from far back in a new story.

Invariants: stories come from seeds and combinations that training never saw; a case counts as
right only if the model's own greedy answer, up to its first full stop or mark, holds the word.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import cycle
from pathlib import Path

import numpy as np
from stories import Recipe, Story, make_stories
from story_words import EOS
from tokenizers import Tokenizer

Logits = Callable[[list[int]], np.ndarray]  # token ids [T] -> logits [T, vocab]

# New stories, in which a friend has a name only: one thing, one colour, one or two places.
ONE = Recipe(held_out=True, made_up=0.0, full_friends=0.0)
CONTEXT = 512
MAX_ANSWER = 24  # tokens; a made-up name may take one a letter


@dataclass(frozen=True)
class RecallCase:
    """`distance`: tokens between the prompt's end and the end of the word's last mention."""

    kind: str
    prompt: str
    word: str
    distance: int


def load_rules(folder: Path) -> Tokenizer:
    return Tokenizer.from_file(str(folder / "tokenizer.json"))


def last_mention(text: str, word: str) -> int | None:
    """Offset in characters just behind the last mention of `word` as a whole word."""
    ends = [m.end() for m in re.finditer(rf"\b{re.escape(word)}\b", text)]
    return ends[-1] if ends else None


def cases_of(tokenizer: Tokenizer, story: Story) -> Iterator[RecallCase]:
    for case in story.cases:
        prompt = story.text[: case.prompt_end]
        end = last_mention(prompt, case.word)
        if end is None:
            continue
        distance = len(tokenizer.encode(prompt).ids) - len(tokenizer.encode(prompt[:end]).ids)
        yield RecallCase(case.kind, prompt, case.word, distance)


def pick_cases(
    tokenizer: Tokenizer,
    kinds: Iterable[str],
    count: int,
    distances: tuple[int, int],
    seed: int,
    recipe: Recipe,
) -> list[RecallCase]:
    """`count` cases, at most one a story, the kinds in turn and the distance within both ends."""
    wanted = cycle(kinds)
    kind = next(wanted)
    rng = random.Random(seed)
    picked: list[RecallCase] = []
    for story in make_stories(count * 200, seed, recipe):
        fit = [
            c
            for c in cases_of(tokenizer, story)
            if c.kind == kind
            and distances[0] <= c.distance <= distances[1]
            and len(tokenizer.encode(c.prompt).ids) + MAX_ANSWER <= CONTEXT
        ]
        if fit:
            picked.append(rng.choice(fit))
            kind = next(wanted)
        if len(picked) == count:
            return picked
    raise ValueError(f"only {len(picked)} of {count} cases found at distances {distances}")


def greedy_answer(tokenizer: Tokenizer, logits: Logits, prompt: str) -> str:
    """What the model says after `prompt`, up to the first full stop or end mark."""
    ids = tokenizer.encode(prompt).ids
    eos = tokenizer.token_to_id(EOS)
    start = len(ids)
    while len(ids) < start + MAX_ANSWER:
        token = int(logits(ids)[-1].argmax())
        if token == eos:
            break
        ids.append(token)
        if "." in tokenizer.decode([token]):
            break
    return tokenizer.decode(ids[start:])


def recall(tokenizer: Tokenizer, logits: Logits, cases: list[RecallCase]) -> dict[str, list[bool]]:
    right: dict[str, list[bool]] = {}
    for case in cases:
        answer = greedy_answer(tokenizer, logits, case.prompt)
        right.setdefault(case.kind, []).append(last_mention(answer, case.word) is not None)
    return right


def report(tokenizer: Tokenizer, logits: Logits) -> tuple[str, float]:
    """The recall table as Markdown, and the share of right answers among the 500 listed words."""
    listed, near = ["name", "colour", "place"], (35, 110)
    plan = [
        ("listed words", listed, 500, near, 9001, ONE),
        ("listed words, far", listed, 150, (111, 300), 9002, ONE),
        ("made-up names", ["made-up name"], 150, near, 9003, replace(ONE, made_up=1.0)),
        ("as in training", listed, 150, near, 9005, Recipe(held_out=True, made_up=0.0)),
        ("two with like facts", listed, 150, near, 9004, replace(ONE, friends=1, full_friends=1)),
    ]
    lines = ["| cases | tokens back | right | share |", "|---|---|---|---|"]
    shares = []
    for title, kinds, count, span, seed, recipe in plan:
        cases = pick_cases(tokenizer, kinds, count, span, seed, recipe)
        right = recall(tokenizer, logits, cases)
        everything = [r for rs in right.values() for r in rs]
        rows = [(f"{title}: {k}", rs) for k, rs in right.items()] if len(right) > 1 else []
        for name, rs in [*rows, (f"{title}: all" if rows else title, everything)]:
            share = sum(rs) / len(rs)
            lines.append(
                f"| {name} | {span[0]}-{span[1]} | {sum(rs)} of {len(rs)} | {100 * share:.1f} % |"
            )
        shares.append(sum(everything) / len(everything))
    return "\n".join(lines), shares[0]
