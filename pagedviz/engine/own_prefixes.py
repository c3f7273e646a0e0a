"""OwnPrefixes: the hashes that pages should have, rolled from the tokens themselves, and whether
the pages do have them.

Invariants: nothing here is read from a cache or a chain; what is remembered about a sequence is
compared with its tokens before it is used again, so that each page behind a prefix is hashed once;
what is remembered about a page stands only while table, hash and tokens are those that were
compared.
"""

from __future__ import annotations

from collections.abc import Iterable

from pagedviz.engine.ids import AdapterKey
from pagedviz.engine.live_state import LiveState, LookupMap, Page
from pagedviz.engine.prefix_hash import prefix_hash_seed, roll_hash
from pagedviz.engine.sequence import Sequence


class OwnChain:
    """Hash and tokens of each full page of one sequence's tokens."""

    __slots__ = ("adapter_id", "hashes", "pages", "token_ids")

    def __init__(self, adapter_id: AdapterKey | None) -> None:
        self.adapter_id = adapter_id
        self.token_ids: list[int] = []
        """Those that are hashed."""
        self.hashes: list[int] = []
        self.pages: list[Page] = []


class OwnPrefixes:
    def __init__(self, block_size: int) -> None:
        self._size = block_size
        self._chains: dict[int, OwnChain] = {}
        self._pages_of: dict[int, tuple[Page, ...]] = {}
        # From a prefix and the page behind it: the prefix with that page.
        self._rolled: dict[tuple[int, Page], int] = {}
        # What was compared last and found right: hash and tokens of pages, and who held which.
        self._map: LookupMap | None = None
        self._held: dict[int, tuple[OwnChain, list[int]]] = {}

    def chain(self, sequence: Sequence) -> OwnChain:
        """The chain of a sequence's tokens as they are now."""
        token_ids = sequence.token_ids
        chain = self._chains.get(sequence.number)
        num_hashed = 0 if chain is None else len(chain.token_ids)
        if (
            chain is None
            or chain.token_ids != token_ids[:num_hashed]
            or chain.adapter_id != sequence.adapter_id
        ):
            chain, num_hashed = OwnChain(sequence.adapter_id), 0
            self._chains[sequence.number] = chain
        if len(token_ids) - num_hashed >= self._size:
            self._extend(chain, token_ids)
        return chain

    def _extend(self, chain: OwnChain, token_ids: list[int]) -> None:
        size, first = self._size, len(chain.token_ids)
        adapter = None if chain.adapter_id is None else chain.adapter_id.name
        state = chain.hashes[-1] if chain.hashes else prefix_hash_seed(adapter)
        for start in range(first, len(token_ids) - size + 1, size):
            tokens = token_ids[start : start + size]
            page = tuple(tokens)
            rolled = self._rolled.get((state, page))
            if rolled is None:
                rolled = self._rolled[state, page] = roll_hash(state, tokens)
                known = self._pages_of.get(rolled, ())
                if page not in known:
                    self._pages_of[rolled] = (*known, page)
            state = rolled
            chain.hashes.append(state)
            chain.pages.append(page)
            chain.token_ids += tokens

    def forget(self, sequence: Sequence) -> None:
        """A sequence has ended: its chain, brought up to date once more, is not needed. The
        prefixes stay known: they may be cached for as long as the engine runs."""
        self.chain(sequence)
        del self._chains[sequence.number]
        self._held.pop(sequence.number, None)

    def is_submitted(self, page_hash: int, token_ids: Page) -> bool:
        """Whether a prefix with this hash that ends in these tokens belongs to any sequence."""
        return token_ids in self._pages_of.get(page_hash, ())

    def hold(self, state: LiveState, counts: list[int], fills: list[int]) -> bool:
        """Rule 5: findable pages are full, and hash and tokens are those of every owner's own
        prefix, or, without an owner, of some prefix that was submitted. counts, fills:
        [num_pages], owners and written slots."""
        hashes, contents = state.hashes, state.contents
        if list(map(fills.__getitem__, hashes)).count(self._size) < len(hashes):
            return False
        changed = self._changed(state.map)
        held = self._held
        for sequence, page_ids in zip(state.sequences, state.tables, strict=True):
            if not page_ids:
                continue
            chain, known = self.chain(sequence), held.get(sequence.number)
            num_known = 0
            if known is not None and known[0] is chain:
                if known[1] is page_ids and (not changed or changed.isdisjoint(page_ids)):
                    continue
                if known[1] == page_ids[: len(known[1])]:
                    num_known = len(known[1])
            new = [i for i, page_id in enumerate(page_ids) if i >= num_known or page_id in changed]
            if not _hold(chain, page_ids, new, hashes, contents):
                held.pop(sequence.number, None)
                return False
            held[sequence.number] = chain, page_ids
        for page_id in changed:
            if not counts[page_id] and not self.is_submitted(hashes[page_id], contents[page_id]):
                return False
        self._map = state.map
        return True

    def _changed(self, new: LookupMap) -> set[int]:
        """Pages whose hash or tokens are not those that were compared last."""
        old = self._map
        if old is new:
            return set()
        if old is None:
            return {*new.pages}
        size = len(old.pages)
        if (
            new.pages[:size] == old.pages
            and new.hashes[:size] == old.hashes
            and new.contents[:size] == old.contents
        ):
            return {*new.pages[size:]}  # new ones come last
        before = dict(zip(old.pages, zip(old.hashes, old.contents, strict=True), strict=True))
        now = zip(new.hashes, new.contents, strict=True)
        return {p for p, pair in zip(new.pages, now, strict=True) if before.get(p) != pair}


def _hold(
    chain: OwnChain,
    page_ids: list[int],
    indices: Iterable[int],
    hashes: dict[int, int],
    contents: dict[int, Page],
) -> bool:
    """Whether the pages at these places of a table, if findable, are those of its chain."""
    for index in indices:
        page_id = page_ids[index]
        if page_id in hashes and not (
            index < len(chain.hashes)
            and hashes[page_id] == chain.hashes[index]
            and contents[page_id] == chain.pages[index]
        ):
            return False
    return True
