"""Small pieces of text that several views need: token texts, counts, ranges, page names."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from pagedviz.engine.ids import page_label
from pagedviz.engine.snapshot import Snapshot

TokenText = Callable[[int], str]
"""Token id -> what it stands for, leading space included."""

EXCERPT = 28


def numbered(token_id: int) -> str:
    """The TokenText of a run without a vocabulary: `#17`."""
    return f"#{token_id}"


def visible(text: str) -> str:
    """A token's text with line breaks and tabs made visible; a lone space becomes an open box."""
    if text and not text.strip(" "):
        return "\u2423" * len(text)
    return text.replace("\n", "\u23ce").replace("\r", "\u240d").replace("\t", "\u21e5")


def token(token_id: int | None, token_text: TokenText) -> str:
    """One token in quotes; `an unknown token` where a foreign trace does not tell."""
    if token_id is None:
        return "an unknown token"
    return f"\u201c{visible(token_text(token_id)).strip(' ')}\u201d"


def excerpt(
    token_ids: Iterable[int | None], token_text: TokenText, limit: int = EXCERPT
) -> str | None:
    """The start of a text in quotes, cut at `limit` characters; None if no token is known."""
    text = ""
    for token_id in token_ids:
        if token_id is None:
            break
        text += visible(token_text(token_id))
        if len(text) > limit:
            return f"\u201c{text[:limit].strip()}\u2026\u201d"
    return f"\u201c{text.strip()}\u201d" if text.strip() else None


def count(number: int, noun: str, plural: str | None = None) -> str:
    """`1 page`, `3 pages`, `no page`."""
    if number == 0:
        return f"no {noun}"
    return f"{number} {noun if number == 1 else plural or noun + 's'}"


def sequence_name(seq_id: int, name: str) -> str:
    """`seq:0 lily`, or `seq:0` if nobody named it."""
    return name if name == f"seq:{seq_id}" else f"seq:{seq_id} {name}"


def positions(start: int, num_tokens: int) -> str:
    """`token 7` or `tokens 7 to 9`; positions count from 0."""
    if num_tokens == 1:
        return f"token {start}"
    return f"tokens {start} to {start + num_tokens - 1}"


def page_name(snapshot: Snapshot, page_id: int) -> str:
    """`p12.3`, as the page is called at that moment."""
    return page_label(page_id, snapshot.pages[page_id].generation)


def joined(items: Iterable[str]) -> str:
    """`a`, `a and b`, `a, b and c`."""
    *first, last = items
    return f"{', '.join(first)} and {last}" if first else last
