"""Generate very short stories with questions, for training and judging the bundled model.

A story has a main character with a thing, its colour and a place, and often a friend, who may
have the same. Most answers say again what was asked for ("The kite was red."), because a model
this small finds a fact by its neighbours.

Invariants: a story is a function of its random state alone; within one story no name, colour,
object or place belongs to two characters, so every question has exactly one right answer; a
combination for which `is_held_out` is true never occurs in a training story.
"""

from __future__ import annotations

import random
import zlib
from collections.abc import Iterator
from dataclasses import dataclass

from story_words import (
    BOYS,
    CLOSINGS,
    COLOURS,
    EOS,
    FILLERS,
    GIRLS,
    OBJECTS,
    PLACES,
    PREAMBLE,
    SHORT_PREAMBLES,
)


@dataclass(frozen=True)
class Character:
    name: str
    sex: str
    colour: str
    thing: str
    place: str
    made_up: bool
    has_all: bool  # a friend may come without thing and place; the text then names neither

    @property
    def pronoun(self) -> str:
        return "She" if self.sex == "girl" else "He"

    @property
    def own(self) -> str:
        return "her" if self.sex == "girl" else "his"


@dataclass(frozen=True)
class Recipe:
    """What sort of stories. Shares are from 0 to 1.

    `held_out`: only combinations that training never sees. `full_friends`: the share of friends
    who have a thing, a colour and a place of their own, so that two sets of facts must be told
    apart. `short`: at most three fillers and no preamble, so that most of the text can be known.
    """

    held_out: bool = False
    made_up: float = 0.2
    friends: float = 0.65
    full_friends: float = 0.4
    short: bool = False


@dataclass(frozen=True)
class Question:
    """`kind` is name, made-up name, colour, place or object; `word` is what the answer must hold;
    `before` is the answer's text up to that word."""

    kind: str
    text: str
    before: str
    word: str


@dataclass(frozen=True)
class Case:
    """A question at its place in a story: `text[:prompt_end]` is the prompt, and the right word
    stands at `text[word_start:word_end]`. Offsets in characters."""

    kind: str
    word: str
    prompt_end: int
    word_start: int
    word_end: int


@dataclass(frozen=True)
class Story:
    text: str
    cases: list[Case]


def is_held_out(*words: str) -> bool:
    """One combination in eight is kept from the training stories (CRC-32, so it is stable)."""
    return zlib.crc32(" ".join(words).encode()) % 8 == 0


def made_up_name(rng: random.Random, held_out: bool, taken: set[str]) -> str:
    while True:
        parts = rng.randint(2, 3)
        name = "".join(rng.choice("bdfgklmnprstvz") + rng.choice("aeiou") for _ in range(parts))
        name = (name + rng.choice(["", "", "n", "x", "l", "r", "s"])).capitalize()
        if name not in taken and is_held_out(name) == held_out:
            return name


def article(word: str) -> str:
    return f"an {word}" if word[0] in "aeiou" else f"a {word}"


def draw_characters(rng: random.Random, recipe: Recipe) -> list[Character]:
    """A girl or a boy, perhaps with a friend of the other sex; they have nothing in common."""
    sexes = rng.sample(
        ["girl", "boy"], rng.choices([1, 2], [1 - recipe.friends, recipe.friends])[0]
    )
    cast: list[Character] = []
    for sex in sexes:
        made_up = rng.random() < recipe.made_up
        taken = {*GIRLS, *BOYS, *(c.name for c in cast)}
        listed = rng.choice(GIRLS if sex == "girl" else BOYS)
        name = made_up_name(rng, recipe.held_out, taken) if made_up else listed
        has_all = not cast or rng.random() < recipe.full_friends
        cast.append(_draw_belongings(rng, name, sex, made_up, has_all, cast, recipe.held_out))
    return cast


def _draw_belongings(
    rng: random.Random,
    name: str,
    sex: str,
    made_up: bool,
    has_all: bool,
    cast: list[Character],
    held_out: bool,
) -> Character:
    """What nobody else in `cast` has; tries until training and held-out stories stay apart."""
    while True:
        colour, thing, place = (rng.choice(words) for words in (COLOURS, OBJECTS, PLACES))
        if (
            is_held_out(name, thing, colour) == held_out
            and is_held_out(name, thing, place) == held_out
            and all(colour != c.colour and thing != c.thing and place != c.place for c in cast)
        ):
            return Character(name, sex, colour, thing, place, made_up, has_all)


def _introduce(rng: random.Random, cast: list[Character], i: int) -> str:
    """The sentence that names character `i`, a friend of the first."""
    c, leader = cast[i], cast[0]
    word = rng.choice(["named", "called"])
    if i == 0:
        return rng.choice(
            [
                f"Once upon a time there was a {c.sex} {word} {c.name}.",
                f"There was once a little {c.sex} {word} {c.name}.",
                f"{c.name} was a little {c.sex}.",
                f"This is the story of a {c.sex} {word} {c.name}.",
            ]
        )
    return rng.choice(
        [
            f"{leader.own.capitalize()} friend was a {c.sex} {word} {c.name}.",
            f"{leader.pronoun} had a friend, a {c.sex} {word} {c.name}.",
            f"{leader.name} had a friend, a {c.sex} {word} {c.name}.",
            f"{c.name} was a {c.sex} and a good friend.",
        ]
    )


def _give(rng: random.Random, c: Character) -> str:
    who = rng.choice([c.name, c.name, c.pronoun])
    return rng.choice(
        [
            f"{who} had {article(c.thing)}. The {c.thing} was {c.colour}.",
            f"{who} had {article(c.thing)}. The {c.thing} was {c.colour}.",
            f"{who} had {article(c.colour)} {c.thing}.",
            f"{who} got {article(c.colour)} {c.thing} from {c.own} mother.",
        ]
    )


def _go(rng: random.Random, c: Character) -> str:
    when = rng.choice(["", "One day ", "Then ", "In the morning "])
    more = rng.choice(["", "", f" with the {c.thing}"])
    return f"{when}{c.name} went to the {c.place}{more}."


def _again(rng: random.Random, c: Character) -> str:
    """A sentence in which known words come back, so that attention reaches for them."""
    if not c.has_all:
        return rng.choice([f"{c.name} smiled.", f'"What a day," said {c.name}.'])
    return rng.choice(
        [
            f"{c.name} looked at the {c.colour} {c.thing}.",
            f"{c.name} held the {c.thing}.",
            f"The {c.colour} {c.thing} was very nice.",
            f'"I like the {c.thing}," said {c.name}.',
            f"{c.name} smiled.",
            f"{c.name} liked the {c.place}.",
        ]
    )


def _questions(rng: random.Random, cast: list[Character], hidden: str | None) -> list[Question]:
    """Questions that the story answers, in random order; some of each kind, not all there are."""
    out = []
    for c in cast:
        kind = "made-up name" if c.made_up else "name"
        out.append(Question(kind, f"What was the name of the {c.sex}?", "It was", c.name))
        if not c.has_all:
            continue
        who = rng.choice([f"Who had the {c.thing}?", f"Who went to the {c.place}?"])
        out.append(Question(kind, who, "It was", c.name))
        colour = f"What colour was the {c.thing}?"
        out.append(Question("colour", colour, f"The {c.thing} was", c.colour))
        out.append(Question("place", f"Where did {c.name} go?", f"{c.name} went to the", c.place))
        if rng.random() < 0.4:
            what = f"What did {c.name} have?"
            out.append(Question("object", what, f"{c.name} had {article(c.colour)}", c.thing))
    if hidden is not None:
        c = cast[0]
        where = f"Where was the {c.thing} found?"
        out.append(Question("place", where, f"The {c.thing} was found near the", hidden))
    rng.shuffle(out)
    return out


def _body(rng: random.Random, cast: list[Character], hidden: str | None, fillers: int) -> str:
    """The story's sentences: facts first, then a middle of fillers and recurring words."""
    parts = []
    for i, c in enumerate(cast):
        parts += [_introduce(rng, cast, i), *([_give(rng, c)] if c.has_all else [])]
    facts = [_go(rng, c) for c in cast if c.has_all]
    if hidden is not None:
        facts.append(f"The {cast[0].thing} was found near the {hidden}.")
    recurring = [_again(rng, rng.choice(cast)) for _ in range(rng.randint(0, 3))]
    chosen = dict.fromkeys(rng.choices(FILLERS, k=fillers))  # ordered, no sentence twice
    middle = [text.format(p=rng.choice(cast).pronoun) for text in chosen]
    if rng.random() < 0.5:
        middle += recurring
        rng.shuffle(middle)
        parts += facts + middle
    else:  # facts scattered, in order, over the middle
        places = sorted(rng.sample(range(len(middle) + len(facts)), len(facts)))
        for place, fact in zip(places, facts, strict=True):
            middle.insert(place, fact)
        parts += middle + recurring
    if rng.random() < 0.6:
        parts.append(rng.choice(CLOSINGS))
    return " ".join(parts)


def _preamble(rng: random.Random) -> str:
    draw = rng.random()
    if draw < 0.35:
        return PREAMBLE
    return rng.choice(SHORT_PREAMBLES) if draw < 0.5 else ""


def _request(rng: random.Random, c: Character) -> str:
    extra = rng.choice(["", f" and {article(c.colour)} {c.thing}", f" and {article(c.thing)}"])
    return f"Q: Tell me a story about {c.name}{extra}.\nA:"


def _filler_count(rng: random.Random) -> int:
    """Mostly short middles; one in five is long enough for contexts of 200 to 500 tokens."""
    return rng.randint(0, 8) if rng.random() < 0.8 else rng.randint(9, 46)


def make_story(rng: random.Random, recipe: Recipe) -> Story:
    """One story with its questions, in one of three shapes: questions inside the prose, lines of
    `Q:` and `A:` after it, or a chat in which the story itself is the first answer."""
    cast = draw_characters(rng, recipe)
    free = [p for p in PLACES if p not in {c.place for c in cast}]
    hidden = rng.choice(free) if rng.random() < 0.3 else None
    body = _body(rng, cast, hidden, rng.randint(0, 3) if recipe.short else _filler_count(rng))
    questions = _questions(rng, cast, hidden)[: rng.randint(2, 7)]
    shape = rng.choices(["prose", "lines", "chat"], [45, 30, 25])[0]
    text = "" if recipe.short else _preamble(rng)
    if shape == "chat":
        text += ("\n" if text else "") + _request(rng, cast[0]) + f" {body}{EOS}"
    else:
        text += (" " if text else "") + body
    cases = []
    for i, q in enumerate(questions):
        if shape == "prose":
            text += f" {q.text}"
        else:
            # Most answers end a turn. Some do not, so a typed history without marks works too.
            if i > 0 and rng.random() < 0.8:
                text += EOS
            text += f"\nQ: {q.text}\nA:"
        prompt_end = len(text)
        text += f" {q.before} "
        cases.append(Case(q.kind, q.word, prompt_end, len(text), len(text) + len(q.word)))
        text += f"{q.word}."
    return Story(text + EOS, cases)


def make_stories(count: int, seed: int, recipe: Recipe) -> Iterator[Story]:
    rng = random.Random(seed)
    for _ in range(count):
        yield make_story(rng, recipe)
