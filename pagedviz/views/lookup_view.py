"""Every lookup of the prefix cache in a run, and one of them in full: tokens aligned, page by page,
up to where and why it ended.

Invariant: what is said was so at the moment of the lookup.
"""

from __future__ import annotations

from typing import NamedTuple

from pagedviz.engine.events import PrefixLookedUp
from pagedviz.engine.snapshot import Snapshot
from pagedviz.trace.prefixes import Prefix, prefixes
from pagedviz.trace.queries import remembered
from pagedviz.trace.trace import Moment, Trace
from pagedviz.views.lookups import lookup_sentence
from pagedviz.views.theme import places
from pagedviz.views.words import TokenText, visible

_ENDS = {
    "full_hit": "found all it may",
    "prompt_shorter_than_a_page": "shorter than a page",
    "diverged": "differs",
    "evicted": "evicted",
    "other_adapter": "other adapter",
    "never_seen": "never seen",
    "disabled": "cache is off",
}


class Lookup(NamedTuple):
    """One line of the list. place: number of the sequence; end: in two or three words."""

    moment: Moment
    seq_id: int
    place: int
    name: str
    num_found: int
    num_tokens: int
    end: str


class AlignedToken(NamedTuple):
    """cached: the text in the cache at this place, None where nothing is compared."""

    position: int
    prompt: str
    cached: str | None
    is_same: bool


class AlignedPage(NamedTuple):
    """A page of the prompt. label: the page that was found for it (verdict `found`) or, where the
    walk ended, the nearest in the cache. verdict: one short phrase."""

    logical_index: int
    label: str | None
    verdict: str
    tokens: tuple[AlignedToken, ...]


class LookupReport(NamedTuple):
    lookup: Lookup
    sentence: str
    pages: tuple[AlignedPage, ...]
    num_hidden: int


@remembered
def lookups(trace: Trace) -> tuple[Lookup, ...]:
    """In order. A sequence that keeps finding the same while it waits is looked up once here."""
    found = []
    place_of = places(trace.final)
    for step in range(trace.num_steps):
        for number, event in enumerate(trace.events(step), start=1):
            if isinstance(event, PrefixLookedUp):
                view = trace.at(step, number).sequence(event.seq_id)
                found.append(
                    Lookup(
                        Moment(step, number),
                        event.seq_id,
                        place_of[event.seq_id],
                        view.name,
                        event.num_tokens,
                        view.num_tokens,
                        _ENDS.get(event.end, event.end),
                    )
                )
    return tuple(found)


def lookup_report(
    trace: Trace, lookup: Lookup, token_text: TokenText, max_pages: int = 24
) -> LookupReport:
    """The lookup, explained; pages after the first `max_pages` behind its end are left out."""
    step, number = lookup.moment
    assert number is not None
    event = trace.events(step)[number - 1]
    assert isinstance(event, PrefixLookedUp)
    before = trace.at(step, number - 1)
    view = before.sequence(event.seq_id)
    size = before.block_size
    num_found = len(event.page_ids)
    # The last token is always computed: a hit has keys and values, but no logits.
    limit = (view.num_tokens - 1) // size
    nearest = _nearest(prefixes(trace), before, event) if event.end == "diverged" else None
    pages = []
    for index in range(-(-view.num_tokens // size)):
        prompt = view.token_ids[index * size : (index + 1) * size]
        cached: tuple[int | None, ...] | None = None
        label = None
        if index < num_found:
            page = before.pages[event.page_ids[index]]
            label, cached = page.label, page.token_ids
        elif index == num_found and nearest is not None:
            label, cached = nearest
        pages.append(
            AlignedPage(
                index,
                label,
                _verdict(event, index, num_found, limit, len(prompt) < size),
                _aligned(prompt, cached, index * size, token_text),
            )
        )
    shown = min(len(pages), num_found + max_pages)
    return LookupReport(
        lookup, lookup_sentence(event, before, token_text), tuple(pages[:shown]), len(pages) - shown
    )


def _verdict(
    event: PrefixLookedUp, index: int, num_found: int, limit: int, is_partial: bool
) -> str:
    if index < num_found:
        return "found"
    if event.end == "disabled":
        return "computed: the cache is off"
    if index >= limit:
        return (
            "computed: not a whole page"
            if is_partial
            else "computed: its last token has to give the next one"
        )
    if index > num_found:
        return "computed: nothing is looked up behind the end"
    match event.end:
        case "diverged":
            return f"computed: token {event.position} differs"
        case "evicted":
            when = "" if event.evicted_step is None else f" in step {event.evicted_step}"
            return f"computed: it was cached, and evicted{when}"
        case "other_adapter":
            return "computed: cached for another adapter only"
        case _:
            return "computed: nobody has computed it before"


def _nearest(
    known: dict[int, Prefix], before: Snapshot, event: PrefixLookedUp
) -> tuple[str, tuple[int | None, ...]] | None:
    """The findable page behind the last hit that has `cached_token` where the prompt differs."""
    parent = before.pages[event.page_ids[-1]].page_hash if event.page_ids else None
    offset = (event.position or 0) % before.block_size
    for page in before.pages:
        prefix = None if page.page_hash is None else known.get(page.page_hash)
        if (
            prefix is not None
            and prefix.parent == parent
            and len(page.token_ids) > offset
            and page.token_ids[offset] == event.cached_token
        ):
            return page.label, page.token_ids
    return None


def _aligned(
    prompt: tuple[int | None, ...],
    cached: tuple[int | None, ...] | None,
    first: int,
    token_text: TokenText,
) -> tuple[AlignedToken, ...]:
    def text(token_id: int | None) -> str:
        return "?" if token_id is None else visible(token_text(token_id))

    return tuple(
        AlignedToken(
            first + offset,
            text(token_id),
            None if cached is None else text(cached[offset]) if offset < len(cached) else "",
            cached is None or (offset < len(cached) and cached[offset] == token_id),
        )
        for offset, token_id in enumerate(prompt)
    )
