"""The free queue: one doubly linked list of page ids, so that a page leaves its middle in O(1).

    head <-> 4 <-> 5 <-> 6 <-> 3 <-> 2 <-> back        every page is in it at most once

The head is taken next. Pages without a hash join at the front, cached ones at the back, so content
that might still be asked for is overwritten last.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Generic, TypeVar

IdT = TypeVar("IdT", bound=int)


class LinkedQueue(Generic[IdT]):
    """Ordered set of page ids with O(1) removal and insertion anywhere.

    The links are two dicts; the key None stands for the place before the head and after the back.
    """

    __slots__ = ("_next", "_previous")

    def __init__(self, ids: Iterable[IdT] = ()) -> None:
        self._next: dict[IdT | None, IdT | None] = {None: None}
        self._previous: dict[IdT | None, IdT | None] = {None: None}
        for page_id in ids:
            self.append(page_id)

    def __len__(self) -> int:
        return len(self._next) - 1

    def __contains__(self, page_id: object) -> bool:
        return page_id is not None and page_id in self._next

    def __iter__(self) -> Iterator[IdT]:
        page_id = self._next[None]
        while page_id is not None:
            yield page_id
            page_id = self._next[page_id]

    @property
    def head(self) -> IdT | None:
        return self._next[None]

    def append(self, page_id: IdT) -> None:
        self.insert_before(page_id, None)

    def insert_before(self, page_id: IdT, other: IdT | None) -> None:
        """Put `page_id` directly before `other`; None = at the back. ValueError if it is there."""
        if page_id in self._next:
            raise ValueError(f"page {int(page_id)} is in the queue already")
        previous = self._previous[other]
        self._next[previous] = page_id
        self._previous[page_id] = previous
        self._next[page_id] = other
        self._previous[other] = page_id

    def remove(self, page_id: IdT) -> None:
        """KeyError if it is not in the queue."""
        following = self._next.pop(page_id)
        previous = self._previous.pop(page_id)
        self._next[previous] = following
        self._previous[following] = previous

    def popleft(self) -> IdT:
        """Take the head. IndexError if the queue is empty."""
        page_id = self._next[None]
        if page_id is None:
            raise IndexError("the free queue is empty")
        following = self._next.pop(page_id)
        del self._previous[page_id]
        self._next[None] = following
        self._previous[following] = None
        return page_id
