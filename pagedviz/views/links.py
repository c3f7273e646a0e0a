"""An ordered list of ids as the state hash sees it: a head, and for each id the next one.

Invariants: a change at one place names the fields next to it only; `len`, `in`, iteration and
truth are those of the list.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from pagedviz.trace.linked_queue import LinkedQueue

Value = int | str | None


class Change(NamedTuple):
    """The field `path` had the value `old` and has `new`; None = it is not there."""

    path: str
    old: Value
    new: Value


class Links:
    """name: `queue`, `waiting` or `running`. None stands for the place before the head and after
    the back."""

    def __init__(self, name: str, ids: Sequence[int]) -> None:
        self._name = name
        self._ids = LinkedQueue(ids)

    def __len__(self) -> int:
        return len(self._ids)

    def __contains__(self, id_: int) -> bool:
        return id_ in self._ids

    def __iter__(self) -> Iterator[int]:
        return iter(self._ids)

    @property
    def head(self) -> int | None:
        return self._ids.head

    def insert_before(self, id_: int, other: int | None) -> list[Change]:
        """Put `id_`, which is not in it, directly before `other`; None = at the back."""
        previous = self._ids.preceding(other)
        self._ids.insert_before(id_, other)
        changes = [Change(self._path(previous), other, id_)]
        if other is not None:
            changes.append(Change(self._path(id_), None, other))
        return changes

    def insert_after(self, id_: int, other: int | None) -> list[Change]:
        """Put `id_`, which is not in it, directly behind `other`; None = in front."""
        return self.insert_before(id_, self._ids.following(other))

    def remove(self, id_: int) -> list[Change]:
        """Take out an id that is in it."""
        previous, following = self._ids.preceding(id_), self._ids.following(id_)
        self._ids.remove(id_)
        changes = [Change(self._path(previous), id_, following)]
        if following is not None:
            changes.append(Change(self._path(id_), following, None))
        return changes

    def _path(self, id_: int | None) -> str:
        return f"{self._name}/head" if id_ is None else f"{self._name}/next/{id_:d}"
