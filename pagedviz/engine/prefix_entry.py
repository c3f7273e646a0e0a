"""Entry: one page of one prefix in the prefix cache.

Invariants: its parent is the prefix before it, the root of its adapter has none; parent and child
know each other for as long as the child is in the cache.
"""

from __future__ import annotations

from pagedviz.engine.ids import PageId


class Entry:
    """One page of one prefix, and the pages that hold its K/V, oldest first."""

    __slots__ = ("children", "page_hash", "page_ids", "parent", "token_ids")

    def __init__(self, page_hash: int, parent: Entry | None, token_ids: tuple[int, ...]) -> None:
        self.page_hash = page_hash
        self.parent = parent
        self.token_ids = token_ids
        self.page_ids: dict[PageId, None] = {}
        self.children: dict[Entry, None] = {}

    @property
    def oldest_page(self) -> PageId:
        return next(iter(self.page_ids))


def nearest_continuation(
    parent: Entry | None, wanted: tuple[int, ...]
) -> tuple[int, tuple[int, ...] | None]:
    """The cached continuation of `parent` that shares most leading tokens with `wanted`."""
    best, nearest = 0, None
    for child in parent.children if parent is not None else ():
        if not child.page_ids:
            continue
        common = next(
            (i for i, (a, b) in enumerate(zip(child.token_ids, wanted, strict=True)) if a != b),
            len(wanted),
        )
        # An equal page can only be here after a hash collision further up; nothing diverges then.
        if common < len(wanted) and (nearest is None or common > best):
            best, nearest = common, child.token_ids
    return best, nearest
