"""FNV-1a 64 over token ids, and the rolling page hashes of one sequence.

    h <- (h xor byte) * PRIME  mod 2**64, over each token's 4 little-endian bytes
    (Fowler, Noll, Vo; RFC 9923). An adapter's UTF-8 name and one zero byte go first.

The hash of a page covers the whole prefix up to its end, so it is rolled on from the page before,
never recomputed from the start.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Sequence
from functools import cache
from itertools import chain as joined

import numpy as np
from numpy.typing import NDArray

FNV_OFFSET = 14_695_981_039_346_656_037
FNV_PRIME = 1_099_511_628_211
MASK_64 = (1 << 64) - 1
MAX_TOKEN_ID = (1 << 32) - 1

_PRIME_3 = pow(FNV_PRIME, 3, 1 << 64)
# Low byte of (x * PRIME) for every low byte x: 0xb3 is the prime's own low byte.
_NEXT_LOW = bytes(x * 0xB3 & 0xFF for x in range(256))


def prefix_hash_seed(adapter: str | None) -> int:
    """Hash of the empty prefix under an adapter."""
    state = FNV_OFFSET
    if adapter is not None:
        for byte in (*adapter.encode(), 0):
            state = (state ^ byte) * FNV_PRIME & MASK_64
    return state


def roll_hash(state: int, token_ids: Iterable[int]) -> int:
    """Hash of a prefix that has hash `state`, followed by `token_ids` (each below 2**32)."""
    for token_id in token_ids:
        if token_id < 65_536:  # bytes 2 and 3 are zero: xor does nothing, two primes remain
            state = ((state ^ token_id & 255) * FNV_PRIME ^ token_id >> 8) * _PRIME_3 & MASK_64
        else:
            for shift in (0, 8, 16, 24):
                state = (state ^ token_id >> shift & 255) * FNV_PRIME & MASK_64
    return state


@cache
def _powers(num_bytes: int) -> NDArray[np.uint64]:
    """[num_bytes]: PRIME**num_bytes, ..., PRIME**1 mod 2**64."""
    powers = [pow(FNV_PRIME, num_bytes - i, 1 << 64) for i in range(num_bytes)]
    return np.array(powers, dtype=np.uint64)


def roll_page_hashes(state: int, token_ids: Sequence[int], block_size: int) -> list[int]:
    """Hashes after each page of `token_ids`, whose length is a multiple of `block_size`.

    Xor with a byte b only touches the low byte l of the state, so it adds d = (l xor b) - l:

        h_n = h_0 * P**n + sum over i of d_i * P**(n - i)

    The low bytes follow a chain of their own, which is cheap; the sum is one product a page.
    """
    data = np.frombuffer(array("I", token_ids), dtype=np.uint8)  # [num_pages * block_size * 4]
    low = state & 0xFF
    lows = bytes([low, *[low := _NEXT_LOW[low ^ byte] for byte in data.tobytes()]])
    before = np.frombuffer(lows, dtype=np.uint8)[:-1]  # low byte of the state before each byte
    delta = (before ^ data).astype(np.int64) - before
    powers = _powers(4 * block_size)
    sums = delta.view(np.uint64).reshape(-1, len(powers)) @ powers  # [num_pages], mod 2**64
    shift = int(powers[0])
    hashes = []
    for page_sum in sums.tolist():
        state = (state * shift + page_sum) & MASK_64
        hashes.append(state)
    return hashes


class PrefixChain:
    """The full pages of one sequence's known tokens, with their hashes. It belongs to the request,
    so it outlives a preemption.

    token_ids: the sequence's own list, which only grows. hashes[i] covers tokens
    0 .. (i + 1) * block_size - 1; pages[i] holds the tokens of page i. state: the newest hash.
    """

    __slots__ = ("adapter", "block_size", "hashes", "pages", "state", "token_ids")

    def __init__(
        self, token_ids: Sequence[int], block_size: int, adapter: str | None = None
    ) -> None:
        self.token_ids = token_ids
        self.block_size = block_size
        self.adapter = adapter
        self.hashes: list[int] = []
        self.pages: list[tuple[int, ...]] = []
        self.state = prefix_hash_seed(adapter)

    def fork(self, token_ids: Sequence[int]) -> PrefixChain:
        """The chain of a sequence that starts with the same tokens and goes its own way."""
        child = PrefixChain(token_ids, self.block_size, self.adapter)
        child.hashes, child.pages = self.hashes.copy(), self.pages.copy()
        child.state = self.state
        return child

    def extend(self) -> None:
        """Hash the pages that the sequence has filled since the last call."""
        size = self.block_size
        start = len(self.hashes) * size
        stop = len(self.token_ids) // size * size
        if stop - start == size:
            self._append(
                self.token_ids[start:stop], roll_hash(self.state, self.token_ids[start:stop])
            )
        elif stop > start:
            fresh = self.token_ids[start:stop]
            hashes = roll_page_hashes(self.state, fresh, size)
            for index, page_hash in enumerate(hashes):
                self._append(fresh[index * size : (index + 1) * size], page_hash)

    def _append(self, page: Sequence[int], page_hash: int) -> None:
        self.pages.append(tuple(page))
        self.hashes.append(page_hash)
        self.state = page_hash


# Below this many chains the loop over tokens is faster than the array operations.
_MIN_TOGETHER = 24


def extend_together(chains: Sequence[PrefixChain]) -> None:
    """`extend` for many chains; those that filled one page each are rolled on side by side."""
    ready = [c for c in chains if len(c.token_ids) // c.block_size == len(c.hashes) + 1]
    if len(ready) < _MIN_TOGETHER:
        for chain in chains:
            chain.extend()
        return
    size = ready[0].block_size
    pages = []
    for chain in ready:
        start = len(chain.hashes) * size
        pages.append(tuple(chain.token_ids[start : start + size]))
    states = np.array([c.state for c in ready], dtype=np.uint64)  # [S]
    flat = array("I", joined.from_iterable(pages))
    data = np.frombuffer(flat, dtype=np.uint8).reshape(len(ready), -1)  # [S, size * 4]
    prime = np.uint64(FNV_PRIME)
    for column in data.T.astype(np.uint64):  # [S]
        states ^= column
        states *= prime
    for chain, page, page_hash in zip(ready, pages, states.tolist(), strict=True):
        chain.pages.append(page)
        chain.hashes.append(page_hash)
        chain.state = page_hash
    if len(ready) < len(chains):
        for chain in chains:
            chain.extend()
