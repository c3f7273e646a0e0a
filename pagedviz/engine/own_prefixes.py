"""OwnPrefixes: the hashes that pages should have, rolled from the tokens themselves, and whether
the pages do have them.

Invariants: nothing here is read from a cache or a chain; what is remembered about a sequence is
compared with its tokens before it is used again, so that each page behind a prefix is hashed once;
what is remembered about a page stands only while table, hash and tokens are those that were
compared.
"""

from __future__ import annotations

from pagedviz.engine.ids import AdapterKey
from pagedviz.engine.live_state import LiveState
from pagedviz.engine.lookup_map import LookupMap, Page
from pagedviz.engine.prefix_hash import prefix_hash_seed, roll_hash
from pagedviz.engine.sequence import Sequence


class OwnChain:
    """A sequence's tokens, and hash and tokens of each full page of them. held: the table of which
    all findable pages were compared with these and found right."""

    __slots__ = ("adapter_id", "hashes", "held", "pages", "token_ids")

    def __init__(self, adapter_id: AdapterKey | None) -> None:
        self.adapter_id = adapter_id
        self.token_ids: list[int] = []
        self.hashes: list[int] = []
        self.pages: list[Page] = []
        self.held: list[int] = []


class OwnPrefixes:
    def __init__(self, block_size: int) -> None:
        self._size = block_size
        self._chains: dict[int, OwnChain] = {}
        self._pages_of: dict[int, tuple[Page, ...]] = {}
        # From a prefix and the page behind it: the prefix with that page.
        self._rolled: dict[tuple[int, Page], int] = {}
        # The map that was compared last and found right.
        self._map: LookupMap | None = None

    def chain(self, sequence: Sequence) -> OwnChain:
        """The chain of a sequence's tokens as they are now."""
        token_ids, adapter_id = sequence.token_ids, sequence.adapter_id
        chain = self._chains.get(sequence.number)
        if chain is None:
            chain = self._chains[sequence.number] = OwnChain(adapter_id)
        known = chain.token_ids
        known += token_ids[len(known) :]
        if known != token_ids or chain.adapter_id != adapter_id:
            chain = self._chains[sequence.number] = OwnChain(adapter_id)
            chain.token_ids += token_ids
        if len(token_ids) >= (len(chain.hashes) + 1) * self._size:
            self._extend(chain)
        return chain

    def _extend(self, chain: OwnChain) -> None:
        size, token_ids = self._size, chain.token_ids
        adapter = None if chain.adapter_id is None else chain.adapter_id.name
        state = chain.hashes[-1] if chain.hashes else prefix_hash_seed(adapter)
        for start in range(len(chain.hashes) * size, len(token_ids) - size + 1, size):
            page = tuple(token_ids[start : start + size])
            rolled = self._rolled.get((state, page))
            if rolled is None:
                rolled = self._rolled[state, page] = roll_hash(state, page)
                known = self._pages_of.get(rolled, ())
                if page not in known:
                    self._pages_of[rolled] = (*known, page)
            state = rolled
            chain.hashes.append(state)
            chain.pages.append(page)

    def forget(self, sequence: Sequence) -> None:
        """A sequence has ended: its chain, brought up to date once more, is not needed. The
        prefixes stay known: they may be cached for as long as the engine runs."""
        self.chain(sequence)
        del self._chains[sequence.number]

    def is_submitted(self, page_hash: int, token_ids: Page) -> bool:
        """Whether a prefix with this hash that ends in these tokens belongs to any sequence."""
        return token_ids in self._pages_of.get(page_hash, ())

    def hold(self, state: LiveState, counts: list[int], fills: list[int]) -> bool:
        """Rule 5: findable pages are full, and hash and tokens are those of every owner's own
        prefix, or, without an owner, of some prefix that was submitted. counts, fills:
        [num_pages], owners and written slots."""
        hashes, contents = state.hashes, state.contents
        is_same = state.has_same_tables and state.has_same_map  # then no page has been emptied
        if not is_same and any([fills[page_id] < self._size for page_id in hashes]):  # noqa: C419
            return False
        # Pages of which hash or tokens are not those that were compared last.
        changed = state.changed if self._map is state.map_before else {*hashes}
        for sequence, page_ids in zip(state.sequences, state.tables, strict=True):
            if not page_ids:
                continue
            chain = self.chain(sequence)
            if chain.held is page_ids and (not changed or changed.isdisjoint(page_ids)):
                continue
            num_known = len(chain.held) if page_ids[: len(chain.held)] == chain.held else 0
            chain.held = []
            for index, page_id in enumerate(page_ids):
                if page_id in hashes and (index >= num_known or page_id in changed):
                    if index >= len(chain.hashes):
                        return False
                    page = hashes[page_id], contents[page_id]
                    if page != (chain.hashes[index], chain.pages[index]):
                        return False
            chain.held = page_ids
        for page_id in changed:
            if (
                page_id in hashes
                and not counts[page_id]
                and not self.is_submitted(hashes[page_id], contents[page_id])
            ):
                return False
        self._map = state.map
        return True
