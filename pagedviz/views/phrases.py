"""Many sentences in little room: their words once, and for each the numbers and quotes in it.

    "seq:3 samples token 40"  ->  ("seq:", " samples token ", "") and (3, 40)

Invariant: `spoken(parts, values)` is the sentence again, character for character.
"""

from __future__ import annotations

import re

# Hashes first: a part of one would pass for a number.
_VARIABLE = re.compile("(\\b[0-9a-f]{16}\\b|\\d+|\u201c[^\u201d]*\u201d)")
_LONGEST_NUMBER = 9

Parts = tuple[str, ...]
Phrase = list[int | str]


class Phrases:
    """A growing table of parts, numbered in the order in which they were first said."""

    def __init__(self) -> None:
        self.table: dict[Parts, int] = {}

    def phrase(self, sentence: str) -> Phrase:
        """[number of its parts, value, value, ..]"""
        pieces = _VARIABLE.split(sentence)
        number = self.table.setdefault(tuple(pieces[::2]), len(self.table))
        return [number, *map(_value, pieces[1::2])]


def spoken(parts: Parts, values: Phrase) -> str:
    """The sentence of parts and the values between them."""
    text = parts[0]
    for value, part in zip(values, parts[1:], strict=True):
        text += f"{value}{part}"
    return text


def _value(text: str) -> int | str:
    is_number = len(text) <= _LONGEST_NUMBER and text.isascii() and text.isdecimal()
    return int(text) if is_number and (text == "0" or text[0] != "0") else text
