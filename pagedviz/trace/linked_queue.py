"""An ordered set of ids as one doubly linked list, so that an event at any place costs the same.

head <-> 4 <-> 5 <-> 6 <-> 3 <-> 2 <-> back        every id is in it at most once
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator


class LinkedQueue:
    """Removal and insertion anywhere in O(1).

    The links are two dicts; the key None stands for the place before the head and after the back.
    """

    __slots__ = ("_next", "_previous")

    def __init__(self, ids: Iterable[int] = ()) -> None:
        """ValueError if an id is there twice."""
        # Built whole, not by insertions: every seek in a trace starts here.
        places: list[int | None] = [None, *ids]
        shifted = [*places[1:], None]
        self._next = dict(zip(places, shifted, strict=True))
        self._previous = dict(zip(shifted, places, strict=True))
        if len(self._next) != len(places):
            raise ValueError("an id is in the queue twice")

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

    def following(self, id_: int | None) -> int | None:
        """The id behind `id_`; None takes and gives the place before the head and after the back.
        KeyError if it is not in the queue."""
        return self._next[id_]

    def preceding(self, id_: int | None) -> int | None:
        """The id before `id_`, as `following`. KeyError if it is not in the queue."""
        return self._previous[id_]

    def append(self, id_: int) -> None:
        """ValueError if it is there."""
        self.insert_before(id_, None)

    def insert_before(self, id_: int, other: int | None) -> None:
        """Put `id_` directly before `other`; None = at the back. ValueError if it is there."""
        if id_ in self._next:
            raise ValueError(f"{int(id_)} is in the queue already")
        previous = self._previous[other]
        self._next[previous] = id_
        self._previous[id_] = previous
        self._next[id_] = other
        self._previous[other] = id_

    def insert_after(self, id_: int, other: int | None) -> None:
        """Put `id_` directly behind `other`; None = in front. ValueError if it is there."""
        self.insert_before(id_, self._next[other])

    def remove(self, id_: int) -> None:
        """KeyError if it is not in the queue."""
        following = self._next.pop(id_)
        previous = self._previous.pop(id_)
        self._next[previous] = following
        self._previous[following] = previous
