"""OwnPrefixes: the hashes that pages should have, rolled from the tokens themselves, and whether
the pages do have them.

Invariants: nothing here is read from a cache or a chain; what is remembered about a sequence is
compared with its tokens before it is used again, so that each page of tokens is hashed once; what
is remembered about a page stands only while table, hash and tokens are those that were compared.
"""

from __future__ import annotations

from collections.abc import Iterable

from pagedviz.engine.live_state import LiveState, Page
from pagedviz.engine.prefix_hash import prefix_hash_seed, roll_hash
from pagedviz.engine.sequence import Sequence


class OwnChain:
    """Hash and tokens of each full page of one sequence's tokens."""

    __slots__ = ("adapter", "hashes", "pages", "token_ids")

    def __init__(self, adapter: str | None) -> None:
        self.adapter = adapter
        self.token_ids: list[int] = []
        """Those that are hashed."""
        self.hashes: list[int] = []
        self.pages: list[Page] = []


class OwnPrefixes:
    def __init__(self, block_size: int) -> None:
        self._size = block_size
        self._chains: dict[int, OwnChain] = {}
        self._pages_of: dict[int, tuple[Page, ...]] = {}
        # What was compared last and found right: hash and tokens of pages, and who held which.
        self._hashes: dict[int, int] = {}
        self._contents: dict[int, Page] = {}
        self._held: dict[int, tuple[OwnChain, list[int]]] = {}

    def chain(self, sequence: Sequence) -> OwnChain:
        """The chain of a sequence's tokens as they are now."""
        adapter = None if sequence.adapter_id is None else sequence.adapter_id.name
        token_ids = sequence.token_ids
        chain = self._chains.get(sequence.number)
        num_hashed = 0 if chain is None else len(chain.token_ids)
        if chain is None or chain.adapter != adapter or chain.token_ids != token_ids[:num_hashed]:
            chain, num_hashed = OwnChain(adapter), 0
            self._chains[sequence.number] = chain
        if len(token_ids) - num_hashed >= self._size:
            self._extend(chain, token_ids)
        return chain

    def _extend(self, chain: OwnChain, token_ids: list[int]) -> None:
        size = self._size
        state = chain.hashes[-1] if chain.hashes else prefix_hash_seed(chain.adapter)
        for start in range(len(chain.token_ids), len(token_ids) - size + 1, size):
            tokens = token_ids[start : start + size]
            page = tuple(tokens)
            state = roll_hash(state, tokens)
            chain.hashes.append(state)
            chain.pages.append(page)
            chain.token_ids.extend(tokens)
            known = self._pages_of.get(state, ())
            if page not in known:
                self._pages_of[state] = (*known, page)

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
        changed: list[int] = []
        if hashes is not self._hashes and (hashes != self._hashes or contents != self._contents):
            old_hash, old_content = self._hashes.get, self._contents.get
            changed = [p for p, page_hash in hashes.items() if old_hash(p) != page_hash]
            changed += [p for p, content in contents.items() if old_content(p) != content]
        held, is_unchanged = self._held, set(changed).isdisjoint
        for sequence, page_ids in zip(state.sequences, state.tables, strict=True):
            if not page_ids:
                continue
            chain = self.chain(sequence)
            known = held.get(sequence.number)
            num_known = 0
            if known is not None and known[0] is chain:
                if known[1] is page_ids and is_unchanged(page_ids):
                    continue
                if known[1] == page_ids[: len(known[1])]:
                    num_known = len(known[1])
            new = [page_ids.index(page_id) for page_id in changed if page_id in page_ids]
            new += range(num_known, len(page_ids))
            if not _hold(chain, page_ids, new, hashes, contents):
                held.pop(sequence.number, None)
                return False
            held[sequence.number] = chain, page_ids
        for page_id in changed:
            if not counts[page_id] and not self.is_submitted(hashes[page_id], contents[page_id]):
                return False
        self._hashes, self._contents = hashes, contents
        return True


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
