"""An ordered list of ids as the state hash sees it: a head, and for each id the next one.

Invariants: a change at one place names the fields next to it only; `len`, `in`, iteration and
truth are those of the list.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

Value = int | str | None


class Change(NamedTuple):
    """The field `path` had the value `old` and has `new`; None = it is not there."""

    path: str
    old: Value
    new: Value


class Links:
    """name: `queue`, `waiting` or `running`. The key None is the place before the head and after
    the back."""

    def __init__(self, name: str, ids: Sequence[int]) -> None:
        self._name = name
        places: list[int | None] = [None, *ids]
        shifted = [*places[1:], None]
        self._next = dict(zip(places, shifted, strict=True))
        self._previous = dict(zip(shifted, places, strict=True))

    def __len__(self) -> int:
        return len(self._next) - 1

    def __contains__(self, id_: int) -> bool:
        return id_ in self._next

    def __iter__(self) -> Iterator[int]:
        id_ = self._next[None]
        while id_ is not None:
            yield id_
            id_ = self._next[id_]

    @property
    def head(self) -> int | None:
        return self._next[None]

    def insert_before(self, id_: int, other: int | None) -> list[Change]:
        """Put `id_`, which is not in it, directly before `other`; None = at the back."""
        previous = self._previous[other]
        self._next[previous] = id_
        self._previous[id_] = previous
        self._next[id_] = other
        self._previous[other] = id_
        changes = [Change(self._path(previous), other, id_)]
        if other is not None:
            changes.append(Change(self._path(id_), None, other))
        return changes

    def insert_after(self, id_: int, other: int | None) -> list[Change]:
        """Put `id_`, which is not in it, directly behind `other`; None = in front."""
        return self.insert_before(id_, self._next[other])

    def remove(self, id_: int) -> list[Change]:
        """Take out an id that is in it."""
        following = self._next.pop(id_)
        previous = self._previous.pop(id_)
        self._next[previous] = following
        self._previous[following] = previous
        changes = [Change(self._path(previous), id_, following)]
        if following is not None:
            changes.append(Change(self._path(id_), following, None))
        return changes

    def _path(self, id_: int | None) -> str:
        return f"{self._name}/head" if id_ is None else f"{self._name}/next/{id_:d}"
