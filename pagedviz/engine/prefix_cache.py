"""SharedPrefixCache: finds pages by the prefix whose K/V they hold, and says why a walk ended.

    root(adapter) -- [tttt] -- [tttt] p4, p9    an entry is one page of one prefix:
                         `-- [tttx] p7          (parent entry, its tokens); adapter at the root

Invariants: an entry is found by its hash but believed only if its parent is the entry the walk
came from and its tokens are the prompt's, so a collision is a miss, never a wrong page. Pages with
equal content share an entry; the oldest is handed out. An entry lives while it has pages or
children: a child may outlive its parent's page, and finds its parent again once that is recomputed.
The cache takes no reference; the block manager does, when an allocation succeeds.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from pagedviz.engine.errors import ConfigError
from pagedviz.engine.ids import PageId
from pagedviz.engine.prefix_entry import Entry, nearest_continuation
from pagedviz.engine.prefix_hash import PrefixChain, prefix_hash_seed, roll_hash

# Prefixes remembered after eviction, only to explain a miss.
MAX_EVICTED_REMEMBERED = 4096


class LookupEnd(NamedTuple):
    """Why a lookup stopped. reason: full_hit, prompt_shorter_than_a_page, diverged (position,
    cached_token, prompt_token), evicted (position, step), other_adapter, never_seen, disabled."""

    reason: str
    position: int | None = None
    cached_token: int | None = None
    prompt_token: int | None = None
    step: int | None = None


class PrefixMatch(NamedTuple):
    """Pages that hold the first `num_tokens` tokens of a prompt, and why there are no more."""

    page_ids: tuple[PageId, ...]
    num_tokens: int
    end: LookupEnd


class SharedPrefixCache:
    def __init__(self, block_size: int) -> None:
        self.block_size = block_size
        self.step = 0
        """The step under way; evictions are remembered under it."""
        self._entries: dict[int, Entry] = {}
        self._roots: dict[str | None, Entry] = {}
        self.entry_of: dict[PageId, Entry] = {}
        """Every page that a lookup can find."""
        self._evicted: dict[int, int] = {}

    @property
    def entries(self) -> Mapping[int, Entry]:
        """What a lookup sees, by hash; an entry without pages is there for its children."""
        return self._entries

    @property
    def roots(self) -> tuple[Entry, ...]:
        """The empty prefixes, one for each adapter seen; all other entries hang below them."""
        return tuple(self._roots.values())

    @staticmethod
    def compute_prefix_hash(tokens: Sequence[int], adapter: str | None = None) -> int:
        """FNV-1a 64 of a whole prefix; see prefix_hash."""
        return roll_hash(prefix_hash_seed(adapter), tokens)

    def __len__(self) -> int:
        """Prefixes that a lookup can find."""
        return sum(1 for entry in self._entries.values() if entry.page_ids)

    def __contains__(self, page_id: object) -> bool:
        """Whether a lookup can find this page."""
        return page_id in self.entry_of

    def chain(self, token_ids: Sequence[int], adapter: str | None) -> PrefixChain | None:
        """The hash chain of a new sequence, whose list of tokens it watches."""
        chain = PrefixChain(token_ids, self.block_size, adapter)
        chain.extend()
        return chain

    # ---- finding -------------------------------------------------------------------------

    def lookup(self, prefix_hash: int) -> list[PageId] | None:
        """The page chain of the prefix with this hash, or None if any page of it is gone."""
        entry: Entry | None = self._entries.get(prefix_hash)
        page_ids: list[PageId] = []
        while entry is not None and entry.parent is not None:
            if not entry.page_ids:
                return None
            page_ids.append(entry.oldest_page)
            entry = entry.parent
        return page_ids[::-1] or None

    def match(self, token_ids: Sequence[int], adapter: str | None = None) -> PrefixMatch:
        """Longest cached prefix of a prompt; changes nothing."""
        chain = PrefixChain(token_ids, self.block_size, adapter)
        chain.extend()
        entries = self.walk(chain, len(token_ids))
        page_ids = tuple(entry.oldest_page for entry in entries)
        return PrefixMatch(
            page_ids, len(page_ids) * self.block_size, self.explain(chain, len(token_ids), entries)
        )

    def walk(self, chain: PrefixChain, num_tokens: int) -> list[Entry]:
        """The cached entries at the start of a chain that is hashed already; changes nothing.

        At most (num_tokens - 1) // block_size: at least one token must be computed, since a hit
        has K/V but no logits.
        """
        entries = self._entries
        parent = self._roots.get(chain.adapter)
        found: list[Entry] = []
        limit = (num_tokens - 1) // self.block_size
        for page_hash, token_ids in zip(chain.hashes[:limit], chain.pages, strict=False):
            entry = entries.get(page_hash)
            if entry is None or not entry.page_ids:
                break
            if entry.parent is not parent or entry.token_ids != token_ids:
                break  # a hash collision
            found.append(entry)
            parent = entry
        return found

    def explain(self, chain: PrefixChain, num_tokens: int, found: list[Entry]) -> LookupEnd:
        """Why a walk over `chain` ended after the entries `found`."""
        limit = (num_tokens - 1) // self.block_size
        num_pages = len(found)
        if num_pages >= limit:
            return LookupEnd("full_hit" if limit else "prompt_shorter_than_a_page")
        position = num_pages * self.block_size
        page_hash, wanted = chain.hashes[num_pages], chain.pages[num_pages]
        if page_hash in self._evicted:
            return LookupEnd("evicted", position=position, step=self._evicted[page_hash])
        if not found and self._is_cached_elsewhere(chain.adapter, wanted):
            return LookupEnd("other_adapter", position=position)
        parent = found[-1] if found else self._roots.get(chain.adapter)
        common, nearest = nearest_continuation(parent, wanted)
        if nearest is None or not (common or found):
            return LookupEnd("never_seen", position=position)
        return LookupEnd("diverged", position + common, nearest[common], wanted[common])

    def _is_cached_elsewhere(self, adapter: str | None, first_page: tuple[int, ...]) -> bool:
        return any(
            child.page_ids and child.token_ids == first_page
            for other, root in self._roots.items()
            if other != adapter
            for child in root.children
        )

    # ---- keeping -------------------------------------------------------------------------

    def insert(
        self, token_ids: Sequence[int], page_ids: Sequence[PageId], adapter: str | None = None
    ) -> None:
        """Make `page_ids` findable as the pages of `token_ids`, which they must fill exactly."""
        if len(token_ids) != len(page_ids) * self.block_size or not page_ids:
            raise ConfigError(
                f"{len(token_ids)} tokens do not fill {len(page_ids)} pages of {self.block_size} "
                "slots; only full pages can be cached"
            )
        chain = PrefixChain(token_ids, self.block_size, adapter)
        chain.extend()
        entries: list[Entry] = []
        for page_id in page_ids:
            self.add_page(chain, entries, page_id)

    def add_page(self, chain: PrefixChain, entries: list[Entry], page_id: PageId) -> int | None:
        """Make a page findable behind `entries`, the cached pages before it; returns its hash.

        None, and nothing is cached, when another prefix has that hash already. The pages after it
        are then not cached either: nothing could walk to them.
        """
        index = len(entries)
        page_hash, token_ids = chain.hashes[index], chain.pages[index]
        parent = self._attached(entries[-1]) if entries else self._root(chain.adapter)
        if parent is None:
            return None
        if entries:
            entries[-1] = parent
        entry = self._entries.get(page_hash)
        if entry is None:
            entry = self._entries[page_hash] = Entry(page_hash, parent, token_ids)
            parent.children[entry] = None
        elif entry.parent is not parent or entry.token_ids != token_ids:
            return None
        entry.page_ids[page_id] = None
        self.entry_of[page_id] = entry
        if self._evicted:
            self._evicted.pop(page_hash, None)
        entries.append(entry)
        return page_hash

    def _attached(self, entry: Entry) -> Entry | None:
        """The entry in the map to hang the next one below; None after a hash collision."""
        return entry  # it is there as long as somebody holds its page

    def superseded(self, page_id: PageId) -> list[PageId]:
        """Pages that are to be forgotten because `page_id` was added: none, the oldest of several
        equal ones stays the one that is found."""
        return []

    def hash_of(self, page_id: PageId) -> int | None:
        entry = self.entry_of.get(page_id)
        return None if entry is None else entry.page_hash

    def tokens_of(self, page_id: PageId) -> tuple[int, ...]:
        """Tokens of a findable page; empty for any other."""
        entry = self.entry_of.get(page_id)
        return () if entry is None else entry.token_ids

    def forget_page(self, page_id: PageId) -> int | None:
        """Nothing finds this page any more; returns the hash it had."""
        entry = self.entry_of.pop(page_id, None)
        if entry is None:
            return None
        page_hash = entry.page_hash
        del entry.page_ids[page_id]
        if not entry.page_ids:
            self._remember_evicted(page_hash)
            self._prune(entry)
        return page_hash

    def evict(self, prefix_hash: int) -> list[PageId] | None:
        """Forget a prefix; returns the chain a lookup would have found."""
        page_ids = self.lookup(prefix_hash)
        entry = self._entries.get(prefix_hash)
        if entry is None or not entry.page_ids:
            return None
        for page_id in list(entry.page_ids):
            self.forget_page(page_id)
        return page_ids

    def _root(self, adapter: str | None) -> Entry:
        root = self._roots.get(adapter)
        if root is None:
            root = self._roots[adapter] = Entry(prefix_hash_seed(adapter), None, ())
        return root

    def _prune(self, entry: Entry) -> None:
        while entry.parent is not None and not entry.page_ids and not entry.children:
            del self._entries[entry.page_hash]
            del entry.parent.children[entry]
            entry = entry.parent

    def _remember_evicted(self, page_hash: int) -> None:
        self._evicted.pop(page_hash, None)
        self._evicted[page_hash] = self.step
        if len(self._evicted) > MAX_EVICTED_REMEMBERED:
            del self._evicted[next(iter(self._evicted))]


class NoPrefixCache(SharedPrefixCache):
    """Prefix caching switched off: nothing is hashed, nothing is found."""

    def chain(self, token_ids: Sequence[int], adapter: str | None) -> PrefixChain | None:
        return None

    def match(self, token_ids: Sequence[int], adapter: str | None = None) -> PrefixMatch:
        return PrefixMatch((), 0, LookupEnd("disabled"))
