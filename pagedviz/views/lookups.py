"""Why a prefix lookup found what it found: the answer to "why did this prompt miss?".

Invariant: everything said is in the event and in the state before it.
"""

from __future__ import annotations

from pagedviz.engine.events import PrefixLookedUp
from pagedviz.engine.snapshot import Snapshot
from pagedviz.views.words import TokenText, count, joined, page_name, token


def lookup_sentence(event: PrefixLookedUp, before: Snapshot, token_text: TokenText) -> str:
    """What the prefix cache gave a waiting sequence, and where and why that ended."""
    seq = f"seq:{event.seq_id:d}"
    known = before.sequence(event.seq_id).num_tokens
    why = _why(event, before, token_text)
    if event.end == "disabled":
        return f"{seq} gets nothing from the prefix cache: {why}"
    if not event.num_tokens:
        return f"{seq} misses: none of its {known} tokens are in the prefix cache; {why}"
    names = joined(page_name(before, page_id) for page_id in event.page_ids[:3])
    if len(event.page_ids) > 3:
        names = f"{count(len(event.page_ids), 'page')} from {page_name(before, event.page_ids[0])}"
    return f"{seq} hits: its first {event.num_tokens} of {known} tokens are in {names}; {why}"


def _why(event: PrefixLookedUp, before: Snapshot, token_text: TokenText) -> str:
    size = before.block_size
    match event.end:
        case "full_hit":
            return "the rest is always computed, because its last token has to give the next one"
        case "prompt_shorter_than_a_page":
            return f"only whole pages of {size} with a token after them can be found"
        case "diverged":
            return (
                f"token {event.position} differs: {token(event.prompt_token, token_text)} here, "
                f"{token(event.cached_token, token_text)} in the cache"
            )
        case "evicted":
            when = "" if event.evicted_step is None else f" in step {event.evicted_step}"
            return f"the page from token {event.position} on was there, but was evicted{when}"
        case "other_adapter":
            return "the text is there, but computed with another adapter"
        case "never_seen":
            return (
                "nobody has computed what comes next"
                if event.num_tokens
                else "no other prompt has started like this"
            )
        case "disabled":
            return "prefix caching is off in this run"
        case other:
            return other
