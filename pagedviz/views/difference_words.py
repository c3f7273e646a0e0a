"""What differs between two runs in one step, in one plain sentence without its step.

Invariant: the sentence names the weightiest difference of its kind (a preemption before an
admission, before a finish, before a count of tokens) and says how many more there are.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

from pagedviz.engine.events import InvariantViolated
from pagedviz.trace.run_facts import Admission, Decisions, Preemption
from pagedviz.views.words import TokenText, count, joined, token

Called = Callable[[str], str]
"""Name of a request -> what it is called in a sentence."""

_MOST_PAGES = 6
_V = TypeVar("_V")
_REASONS = {
    "eos": "at the end mark",
    "stop": "at a stop token",
    "max_length": "at its full length",
    "aborted": "by an abort",
    "preempted": "for want of pages",
    "pruned": "as its beam falls out",
}


def decision_words(left: Decisions, right: Decisions, called: Called) -> str:
    """Of two different decisions."""
    found = [
        *_each(left.preempted, right.preempted, lambda n, a, b: _preempted(n, a, b, called)),
        *_each(left.admitted, right.admitted, lambda n, a, b: _admitted(called(n), a, b)),
        *_each(left.finished, right.finished, lambda n, a, b: _finished(called(n), a, b)),
        *_each(left.arrived, right.arrived, lambda n, a, b: _arrived(called(n), a)),
        *_each(left.scheduled, right.scheduled, lambda n, a, b: _scheduled(called(n), a, b)),
    ]
    more = len(found) - 1
    also = f"; {count(more, 'more decision')} {'differs' if more == 1 else 'differ'}"
    return found[0] + (also if more else "")


def _each(
    left: Mapping[str, _V],
    right: Mapping[str, _V],
    words: Callable[[str, _V | None, _V | None], str],
) -> list[str]:
    names = dict.fromkeys((*left, *right))
    return [words(n, left.get(n), right.get(n)) for n in names if left.get(n) != right.get(n)]


def _side(left: object) -> str:
    """The only run that has it."""
    return "right" if left is None else "left"


def _preempted(name: str, a: Preemption | None, b: Preemption | None, called: Called) -> str:
    if a is not None and b is not None:
        return (
            f"{called(name)} is preempted in both, and {_cost(name, a, called)} in the left run, "
            f"{_cost(name, b, called)} in the right"
        )
    (only,) = (x for x in (a, b) if x is not None)
    return f"only the {_side(a)} run preempts: {called(name)} {_cost(name, only, called)}"


def _cost(name: str, event: Preemption, called: Called) -> str:
    parts = []
    if event.num_lost or not event.num_kept:
        parts.append(f"lost {count(event.num_lost, 'computed token')}")
    if event.num_kept:
        parts.append(f"left {count(event.num_kept, 'token')} on the host")
    whom = "for want of a page of its own" if event.by == name else f"for {called(event.by)}"
    return f"{joined(parts)} {whom}"


def _arrived(who: str, a: bool | None) -> str:
    return f"only in the {_side(a)} run {who} arrives"


def _admitted(who: str, a: Admission | None, b: Admission | None) -> str:
    if a is not None and b is not None:
        if a.num_restored == b.num_restored == 0:
            other = str(b.num_cached) if b.num_cached else "none"
            return f"{who} is admitted with {_ready(a)} in the left run, {other} in the right"
        return f"{who} is admitted with {_ready(a)} in the left run, with {_ready(b)} in the right"
    (only,) = (x for x in (a, b) if x is not None)
    return f"only the {_side(a)} run admits {who}, with {_ready(only)}"


def _ready(event: Admission) -> str:
    found = f"{count(event.num_cached, 'token')} from the prefix cache"
    restored = f" and {event.num_restored} from the host" if event.num_restored else ""
    return found + restored


def _finished(who: str, a: str | None, b: str | None) -> str:
    if a is not None and b is not None:
        return f"{who} finishes in both, {_why(a)} in the left run, {_why(b)} in the right"
    (only,) = (x for x in (a, b) if x is not None)
    return f"only in the {_side(a)} run {who} finishes, {_why(only)}"


def _why(reason: str) -> str:
    return _REASONS.get(reason, reason)


def _scheduled(who: str, a: int | None, b: int | None) -> str:
    return f"{who} computes {count(a or 0, 'token')} in the left run, {b or 'none'} in the right"


def page_words(left: Sequence[int], right: Sequence[int], sizes: tuple[int, int]) -> str:
    """left, right: active pages, cached pages, empty slots, host pages. sizes: slots of a page."""
    is_same_size = sizes[0] == sizes[1]
    has_host = bool(left[3] or right[3])
    parts = [
        _counts(row, "" if is_same_size else f" of {size} slots", has_host)
        for row, size in zip((left, right), sizes, strict=True)
    ]
    return f"{parts[0]} in the left run, {parts[1]} in the right"


def _counts(row: Sequence[int], of: str, has_host: bool) -> str:
    active, cached, empty, host = row
    on_host = f" and {count(host, 'host page')}" if has_host else ""
    return (
        f"{active} active and {cached} cached pages{of} with {count(empty, 'empty slot')}{on_host}"
    )


def table_words(who: str, left: Sequence[int], right: Sequence[int]) -> str:
    """As many pages in both runs, but others."""
    held = f"{_pages(left)} in the left run, {_pages(right)} in the right"
    return f"as many pages, but {who} holds {held}"


def _pages(page_ids: Sequence[int]) -> str:
    if not page_ids:
        return "none"
    shown = [f"p{page_id}" for page_id in page_ids[:_MOST_PAGES]]
    return ", ".join(shown) + ("\u2026" if len(page_ids) > _MOST_PAGES else "")


def token_words(
    who: str, place: int, left: int | None, right: int | None, token_text: TokenText
) -> str:
    """Two tokens at one place (from 0) of the answers."""
    return (
        f"token {place} of the answer of {who} is {token(left, token_text)} in the left run, "
        f"{token(right, token_text)} in the right"
    )


def rule_words(left: Sequence[InvariantViolated], right: Sequence[InvariantViolated]) -> str:
    """Rules found broken in the step, which are not the same on both sides."""
    sides = ("left", left), ("right", right)
    broken = [(side, events) for side, events in sides if events]
    if len(broken) == 1:
        side, events = broken[0]
        first, *others = events
        also = f"; {count(len(others), 'more breach', 'more breaches')}" if others else ""
        return f"rule {first.rule} is broken in the {side} run only: {first.message}{also}"
    parts = [f"{_rule_list(events)} in the {side} run" for side, events in broken]
    return f"broken are {', '.join(parts)}"


def _rule_list(events: Sequence[InvariantViolated]) -> str:
    rules = list(dict.fromkeys(event.rule for event in events))
    return f"rule{'s' * (len(rules) > 1)} {joined([str(rule) for rule in rules])}"


def ending_words(who: str, side: str, num_tokens: int, reason: str) -> str:
    """An answer that ended after `num_tokens` tokens in one run and goes on in the other."""
    return (
        f"the answer of {who} ends after {count(num_tokens, 'token')} in the {side} run, "
        f"{_why(reason)}, and goes on in the other"
    )
