"""Marks that every part of the board uses: names in a sentence, letters, "now"."""

from __future__ import annotations

import re
from collections.abc import Iterable
from html import escape

from pagedviz.views.theme import letter

_NAMES = re.compile(r"\bseq:(\d+)|\bp\d+(?:\.\d+)?\b")


def decorate(text: str, places: dict[int, int], num_hues: int) -> str:
    """A sentence with sequences in their colour, their letter in front, and pages in bold."""

    def mark(found: re.Match[str]) -> str:
        if found[1] is None:
            return f"<b>{found[0]}</b>"
        place = places.get(int(found[1]))
        if place is None:
            return f"<b>{found[0]}</b>"
        return f'<b class="who h{place % num_hues}">{letter(place)} {found[0]}</b>'

    # Quoted token texts are left alone: a prompt may talk about seq:1 too.
    parts = re.split("(\u201c[^\u201d]*\u201d)", text)
    return "".join(
        escape(part) if part.startswith("\u201c") else _NAMES.sub(mark, escape(part))
        for part in parts
    )


def badges(places: Iterable[int], num_hues: int) -> str:
    """The letters of sequences in their colours, or "none"."""
    drawn = [f'<b class="badge h{place % num_hues}">{letter(place)}</b>' for place in places]
    return "".join(drawn) or "none"


def now(is_now: bool) -> str:
    """A class for what the event just past has touched."""
    return " now" if is_now else ""
