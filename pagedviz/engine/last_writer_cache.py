"""LastWriterCache: of pages with equal content only the newest is found, as in a map from hash to
page.

Invariant: an entry has one page at most; whoever still holds a page that was superseded may hang
further pages below it, for which its entry returns to the map.
"""

from __future__ import annotations

from pagedviz.engine.ids import PageId
from pagedviz.engine.prefix_cache import SharedPrefixCache
from pagedviz.engine.prefix_entry import Entry


class LastWriterCache(SharedPrefixCache):
    def _attached(self, entry: Entry) -> Entry | None:
        # Its page may have been superseded by one that was evicted since: then the entry, and
        # perhaps those above it, have left the map while their owner still runs.
        detached: list[Entry] = []
        while entry.parent is not None and self._entries.get(entry.page_hash) is not entry:
            detached.append(entry)
            entry = entry.parent
        for lost in reversed(detached):
            known = self._entries.setdefault(lost.page_hash, lost)
            if known is lost:
                lost.parent = entry
                entry.children[lost] = None
            elif known.parent is not entry or known.token_ids != lost.token_ids:
                return None
            entry = known
        return entry

    def superseded(self, page_id: PageId) -> list[PageId]:
        pages = list(self.entry_of[page_id].page_ids)
        return pages[:-1]
