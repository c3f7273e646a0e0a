"""A moment of a run as the parameters of an address, and back.

    ?scenario=thrash&step=14&event=3&state=1a2b3c4d&block_size=8
    &requests={"lily":{"max_new_tokens":9}}&bookmarks=[[14,3,"the first preemption"]]

Invariants: settings are in the address only where they differ from the scenario; reading never
fails, whatever does not make sense becomes a sentence in `problems` and is left out; `state` is the
hash that the moment had where the address was made, to be compared with what is computed here.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pagedviz.scenarios.scenario import ENGINE_KEYS
from pagedviz.trace.trace import Moment
from pagedviz.ui.bookmarks import Bookmark, bookmarks_text

MAX_PARAMETER_CHARS = 20_000
_SHOWN_CHARS = 40
_STATE = re.compile("[0-9a-f]{8}")


@dataclass(frozen=True, slots=True)
class Link:
    """overrides: as apply_settings takes them. step, event: None where the address says nothing.
    bookmarks: any JSON value, as read_bookmarks takes it. what_if: as parse_changes takes it.
    state: as format_state_hash writes it."""

    scenario: str | None = None
    overrides: Mapping[str, Any] = field(default_factory=dict)
    step: int | None = None
    event: int | None = None
    bookmarks: Any = None
    problems: tuple[str, ...] = ()
    what_if: Any = field(default_factory=list)
    state: str | None = None


def make_link(
    scenario: str,
    overrides: Mapping[str, Any],
    moment: Moment,
    bookmarks: Sequence[Bookmark] = (),
    what_if: Sequence[Any] = (),
    state: str | None = None,
) -> dict[str, str]:
    """Parameters for an address, in a fixed order. state: as format_state_hash writes it."""
    link = {"scenario": scenario, "step": str(moment.step)}
    if moment.event is not None:
        link["event"] = str(moment.event)
    if state is not None:
        link["state"] = state.replace(" ", "")
    for key, value in {**overrides, **({"what_if": what_if} if what_if else {})}.items():
        link[key] = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    if bookmarks:
        link["bookmarks"] = bookmarks_text(bookmarks)
    return link


def read_link(parameters: Mapping[str, str]) -> Link:
    """What an address asks for."""
    problems: list[str] = []
    overrides: dict[str, Any] = {}
    for key in (*ENGINE_KEYS, "requests", "what_if", "bookmarks"):
        text = parameters.get(key)
        if text is None:
            continue
        if len(text) > MAX_PARAMETER_CHARS:
            problems.append(
                f"{key} in the address has {len(text)} characters, the most read is "
                f"{MAX_PARAMETER_CHARS}"
            )
            continue
        try:
            overrides[key] = json.loads(text)
        except (ValueError, RecursionError):
            problems.append(f"{key} in the address cannot be read: {_short(text)}")
    bookmarks = overrides.pop("bookmarks", None)
    return Link(
        scenario=parameters.get("scenario") or None,
        what_if=overrides.pop("what_if", []),
        overrides=overrides,
        step=_number("step", parameters, problems),
        event=_number("event", parameters, problems),
        bookmarks=bookmarks,
        state=_state(parameters, problems),
        problems=tuple(problems),
    )


def _state(parameters: Mapping[str, str], problems: list[str]) -> str | None:
    """Typed in from a screen it may have the space that is read out, and capitals."""
    text = parameters.get("state")
    if text is None or text == "":
        return None
    digits = text.replace(" ", "").lower()
    if _STATE.fullmatch(digits):
        return f"{digits[:4]} {digits[4:]}"
    problems.append(f"state in the address must be 8 hexadecimal digits, got {_short(text)}")
    return None


def other_state(moment: Moment, expected: str, found: str) -> str:
    """The sentence for a moment that is not the one the address was made at.

    One hash tells that the runs have parted, not where: the state of every later step differs too.
    """
    return (
        f"This machine computed a different token at step {moment.step} or before, unless the "
        "address was edited or comes from another version of pagedviz: it was made at state "
        f"{expected}, here the state is {found}"
    )


def _number(key: str, parameters: Mapping[str, str], problems: list[str]) -> int | None:
    text = parameters.get(key)
    if text is None or text == "":
        return None
    if len(text) <= 9 and text.isascii() and text.isdecimal():
        return int(text)
    problems.append(f"{key} in the address must be a whole number, got {_short(text)}")
    return None


def _short(text: str) -> str:
    more = "\u2026" if len(text) > _SHOWN_CHARS else ""
    return f"\u201c{text[:_SHOWN_CHARS]}{more}\u201d"
