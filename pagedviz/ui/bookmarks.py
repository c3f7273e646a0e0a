"""Moments of a run that somebody gave a name, as they travel in an address and from the board.

Invariant: reading never fails; what is not a recorded moment with a name is left out.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

from pagedviz.trace.header import Bookmark
from pagedviz.trace.header_codec import MAX_BOOKMARK_NAME, MAX_BOOKMARKS
from pagedviz.trace.trace import Moment, Trace


def moment_of(trace: Trace, step: Any, event: Any) -> Moment | None:
    """The recorded moment that two values of unknown origin name, None if they name none."""
    if not _is_number(step) or not 0 <= step < trace.num_steps:
        return None
    if event is None:
        return Moment(step)
    if not _is_number(event) or not 0 <= event <= trace.num_events(step):
        return None
    return Moment(step, event)


def read_bookmarks(rows: Any, trace: Trace) -> tuple[Bookmark, ...]:
    """From rows (step, event, name) or mappings with these keys."""
    if not isinstance(rows, list):
        return ()
    found = []
    for row in rows[:MAX_BOOKMARKS]:
        fields = [row.get(key) for key in Bookmark._fields] if isinstance(row, Mapping) else row
        if not isinstance(fields, list) or len(fields) != len(Bookmark._fields):
            continue
        step, event, name = fields
        moment = moment_of(trace, step, event)
        if moment is not None and (name := _readable(name)):
            found.append(Bookmark(*moment, name))
    return tuple(found)


def bookmarks_text(bookmarks: Iterable[Bookmark]) -> str:
    """For an address."""
    return json.dumps(list(bookmarks), ensure_ascii=False, separators=(",", ":"))


def _readable(name: Any) -> str:
    """Without the half characters that JSON can hold and no file or address may."""
    if not isinstance(name, str):
        return ""
    return name.encode("utf-8", "ignore").decode("utf-8").strip()[:MAX_BOOKMARK_NAME].strip()


def _is_number(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)
