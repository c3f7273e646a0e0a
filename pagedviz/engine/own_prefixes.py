"""OwnPrefixes: the hashes that pages should have, rolled by the checker from the tokens themselves.

Invariants: nothing here is read from a cache or a chain; what is remembered about a sequence is
compared with its tokens before it is used again, so that each page of tokens is hashed once.
"""

from __future__ import annotations

from pagedviz.engine.prefix_hash import prefix_hash_seed, roll_hash
from pagedviz.engine.sequence import Sequence

Page = tuple[int, ...]


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

    def chain(self, sequence: Sequence) -> OwnChain:
        """The chain of a sequence's tokens as they are now."""
        adapter = None if sequence.adapter_id is None else sequence.adapter_id.name
        token_ids = sequence.token_ids
        chain = self._chains.get(sequence.number)
        if (
            chain is None
            or chain.adapter != adapter
            or chain.token_ids != token_ids[: len(chain.token_ids)]
        ):
            chain = self._chains[sequence.number] = OwnChain(adapter)
        if len(token_ids) - len(chain.token_ids) >= self._size:
            self._extend(chain, token_ids)
        return chain

    def _extend(self, chain: OwnChain, token_ids: list[int]) -> None:
        size = self._size
        state = chain.hashes[-1] if chain.hashes else prefix_hash_seed(chain.adapter)
        for start in range(len(chain.token_ids), len(token_ids) - size + 1, size):
            page = tuple(token_ids[start : start + size])
            state = roll_hash(state, page)
            chain.hashes.append(state)
            chain.pages.append(page)
            chain.token_ids.extend(page)
            known = self._pages_of.get(state, ())
            if page not in known:
                self._pages_of[state] = (*known, page)

    def forget(self, sequence: Sequence) -> None:
        """A sequence has ended: its chain, brought up to date once more, is not needed. The
        prefixes stay known: they may be cached for as long as the engine runs."""
        self.chain(sequence)
        del self._chains[sequence.number]

    def is_submitted(self, page_hash: int, token_ids: tuple[int | None, ...]) -> bool:
        """Whether a prefix with this hash that ends in these tokens belongs to any sequence."""
        return token_ids in self._pages_of.get(page_hash, ())
