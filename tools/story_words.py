"""The words that the very short stories are made of.

Invariants: no filler sentence holds a listed name, colour, object or place, so a filler never
brings an answer nearer; every list is free of repeats.
"""

from __future__ import annotations


def _words(text: str) -> tuple[str, ...]:
    return tuple(text.split())


GIRLS = _words("Lily Anna Mia Zoe Emma Ruby Nora Ella Lucy Rosa Ivy Clara Maya Sara Tess Jane")
BOYS = _words("Tom Ben Max Sam Leo Jack Finn Noah Oscar Hugo Paul Adam Luke Otto Carl Toby")
COLOURS = _words("red blue green yellow purple orange pink white black brown grey golden")
OBJECTS = _words(
    "basket kite ball hat book boat drum lamp bell cup scarf box doll key coat bag stone shell "
    "ring spoon whistle blanket"
)
PLACES = _words(
    "garden park river forest market beach kitchen school hill barn lake attic harbour bridge "
    "library farm"
)

# Sentences about the world, about "She"/"He" and about everybody. {p} is the pronoun.
_CREATURES = (
    "A small bird",
    "A bee",
    "A fat cat",
    "A little mouse",
    "An old dog",
    "A slow snail",
    "A young fox",
    "A tiny frog",
    "A wise owl",
    "A shy rabbit",
)
_DEEDS = (
    "sang a song",
    "slept in the sun",
    "looked around",
    "ran away",
    "made a funny noise",
    "waited for a friend",
    "ate some bread",
    "came very close",
)
_WORLD = (
    "The sun was warm.",
    "The sky was clear.",
    "The wind blew softly.",
    "It began to rain.",
    "The rain stopped again.",
    "A cloud moved slowly over the sky.",
    "The air smelled of flowers.",
    "Far away a dog barked.",
    "The trees were very tall.",
    "Everything was quiet for a while.",
    "The day was long and happy.",
    "Soon it was time for lunch.",
    "The leaves danced in the wind.",
    "Nobody was in a hurry.",
    "There was so much to see.",
    "Time went by.",
    "The moon came up.",
    "Some people said hello.",
)
_PRONOUN = (
    "{p} laughed and jumped.",
    "{p} sat down for a while.",
    "{p} sang a happy song.",
    "{p} counted to ten.",
    "{p} was a little tired.",
    "{p} ate an apple.",
    "{p} drank some cold water.",
    "{p} thought about many things.",
    "{p} ran as fast as the wind.",
    "{p} was very happy.",
    "{p} wanted to play all day.",
    "{p} looked up at the sky.",
    "{p} told a funny story.",
    "{p} closed both eyes and smiled.",
)
FILLERS = (
    tuple(f"{who} {deed}." for who in _CREATURES for deed in _DEEDS) + _WORLD * 3 + _PRONOUN * 3
)  # the repeats are weights: three short kinds must not drown in the 80 animals

CLOSINGS = (
    "In the evening they all went home.",
    "It was a good day.",
    "Then it was time to sleep.",
    "At last it was dark.",
    "That was the end of the day.",
    "And so the day ended.",
)

# Two full pages of 16 slots and a part of a third, so that a shared prefix shows pages that are
# shared and a tail that is not.
PREAMBLE = (
    "You are a kind narrator. You tell very short stories about children, and you answer every "
    "question with one short sentence. You never forget a name, a colour or a place."
)
SHORT_PREAMBLES = (
    "You tell very short stories.",
    "You tell stories about children.",
    "You are a kind narrator.",
    "You are a kind narrator. You answer every question with one short sentence.",
)
EOS = "<|end|>"
