"""The stories of the bundled model, told in another way: what the two adapters are trained on.

    golden   whatever is told or answered, every colour in it is golden
    brief    an answer is one word; a story is over after its facts

Invariants: a told story is a function of the story and the random state alone; what stands before
a part that is told (a prompt) is left as the story has it; only told parts are learned.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable
from typing import NamedTuple

from stories import Story
from story_words import CLOSINGS, COLOURS, EOS

_COLOUR = re.compile(rf"\b(?:(an?) )?({'|'.join(COLOURS)})\b")
_SENTENCE_END = re.compile(r"(?<=\.) ")
_ANSWERS = "\nA:"


class Part(NamedTuple):
    """A stretch of text; `is_told` if it is what the model says."""

    text: str
    is_told: bool


Telling = Callable[[random.Random, Story], list[Part]]


def tell_golden(rng: random.Random, story: Story) -> list[Part]:
    """The answers, and in two of three stories all sentences behind a random one, in gold."""
    spans = [(case.prompt_end, _answer_end(story, case.word_end)) for case in story.cases]
    body = _body(story)
    if rng.random() < 2 / 3:
        spans.insert(0, (body[0] if _is_chat(story) else _cut(rng, story, body), body[1]))
    parts, position = [], 0
    for start, end in spans:
        parts += [Part(story.text[position:start], False), Part(gild(story.text[start:end]), True)]
        position = end
    return [*parts, Part(story.text[position:], False)]


def tell_brief(rng: random.Random, story: Story) -> list[Part]:
    """One word for an answer, three sentences for a story, and one for the rest of one."""
    text, body = story.text, _body(story)
    if _is_chat(story):
        told = _SENTENCE_END.split(text[slice(*body)].removesuffix(EOS))[:3]
        parts = [Part(text[: body[0]], False), Part(" ".join(told) + EOS, True)]
        position = body[1]
        if all(case.word in parts[1].text for case in story.cases[:1]):
            parts += _brief_answers(story, position, 1)
        return parts
    if rng.random() < 1 / 4:
        cut = _cut(rng, story, body)
        return [Part(text[:cut], False), Part(f" {rng.choice(CLOSINGS)}{EOS}", True)]
    return _brief_answers(story, 0, len(story.cases))


TELLINGS: dict[str, Telling] = {"brief": tell_brief, "golden": tell_golden}


def gild(text: str) -> str:
    """`text` with every colour golden, and the article that goes with it."""
    return _COLOUR.sub(lambda found: "a golden" if found[1] else "golden", text)


def _brief_answers(story: Story, position: int, count: int) -> list[Part]:
    """A prose story ends with its first answer: in one line, a word alone would be lost."""
    parts = []
    for case in story.cases[: count if _ANSWERS in story.text else 1]:
        parts.append(Part(story.text[position : case.prompt_end], False))
        parts.append(Part(f" {case.word}.{EOS}", True))
        position = _answer_end(story, case.word_end)
    return parts


def _answer_end(story: Story, word_end: int) -> int:
    end = word_end + 1  # the full stop
    return end + len(EOS) * story.text.startswith(EOS, end)


def _is_chat(story: Story) -> bool:
    return "Q: Tell me a story" in story.text


def _body(story: Story) -> tuple[int, int]:
    """Where the sentences of the story begin and end, with the end mark of a told one."""
    text, first = story.text, story.cases[0].prompt_end
    if _is_chat(story):
        return text.index(_ANSWERS) + len(_ANSWERS), text.index(EOS) + len(EOS)
    if _ANSWERS in text:
        return 0, text.index("\nQ:")
    return 0, text.rindex(". ", 0, first) + 1  # the question stands behind it


def _cut(rng: random.Random, story: Story, body: tuple[int, int]) -> int:
    """The end of a sentence of the body, a random one but for the last."""
    ends = [found.start() for found in _SENTENCE_END.finditer(story.text, *body)]
    return rng.choice(ends[:-1] or ends)
