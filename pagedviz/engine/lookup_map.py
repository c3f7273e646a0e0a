"""LookupMap: what prefix lookups can find at the end of a step, and of which pages that differs.

Invariants: every entry is read at every step, with the pages that it finds; all that is kept is a
copy; a map in which nothing has changed is the one of before.
"""

from __future__ import annotations

from typing import NamedTuple

from pagedviz.engine.ids import PageId
from pagedviz.engine.prefix_cache import SharedPrefixCache
from pagedviz.engine.prefix_entry import Entry

Page = tuple[int | None, ...]


class Reading(NamedTuple):
    """By page that is listed as findable: pages, entries, and their hashes and contents. By entry
    that lookups find: keys, finders, the entries, and names, their own hashes. Lists, since two of
    them are compared in a tenth of the time that two dicts would take."""

    pages: list[PageId]
    entries: list[Entry]
    hashes: list[int]
    contents: list[Page]
    keys: list[int]
    finders: list[Entry]
    names: list[int]


class LookupMap:
    """hashes, contents: hash and tokens of each findable page. changed: pages that have become
    findable since the map before, or are no longer, or have another hash or other tokens."""

    __slots__ = ("_marks", "changed", "contents", "hashes", "read")

    def __init__(
        self, read: Reading, entry_of: dict[PageId, Entry], before: LookupMap | None
    ) -> None:
        self.read = read
        # Whoever puts another object in the place of equal tokens has changed something too.
        self._marks = {*zip(read.pages, read.hashes, map(id, read.contents), strict=True)}
        self.hashes: dict[int, int]
        self.contents: dict[int, Page]
        if before is None:
            self.hashes = dict(zip(read.pages, read.hashes, strict=True))
            self.contents = dict(zip(read.pages, read.contents, strict=True))
            self.changed: set[int] = {*read.pages}
            return
        self.changed = {page_id for page_id, _, _ in self._marks ^ before._marks}
        self.hashes, self.contents = before.hashes.copy(), before.contents.copy()
        for page_id in self.changed:
            if page_id in self.hashes:
                del self.hashes[page_id], self.contents[page_id]
        for page_id in entry_of.keys() & self.changed:
            entry = entry_of[page_id]
            self.hashes[page_id], self.contents[page_id] = entry.page_hash, entry.token_ids


def read_map(cache: SharedPrefixCache, before: LookupMap | None) -> LookupMap:
    """The map of a cache as it is now; `before` itself if it is still that."""
    entries, finders = [*cache.entry_of.values()], [*cache.entries.values()]
    # One loop for each attribute is faster than one for all.
    read = Reading(
        [*cache.entry_of],
        entries,
        [entry.page_hash for entry in entries],
        [entry.token_ids for entry in entries],
        [*cache.entries],
        finders,
        [entry.page_hash for entry in finders],
    )
    if before is not None and read == before.read:
        return before
    return LookupMap(read, cache.entry_of, before)
