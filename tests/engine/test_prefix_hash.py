"""The prefix hash is FNV-1a 64, however it is rolled on."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pagedviz.engine.prefix_cache import SharedPrefixCache
from pagedviz.engine.prefix_hash import (
    FNV_OFFSET,
    FNV_PRIME,
    MAX_TOKEN_ID,
    PrefixChain,
    extend_together,
    prefix_hash_seed,
    roll_hash,
    roll_page_hashes,
)

TOKEN_IDS = st.integers(0, 255) | st.integers(0, 65_535) | st.integers(0, MAX_TOKEN_ID)


def plain_hash(token_ids: list[int], adapter: str | None = None) -> int:
    """FNV-1a 64 as its definition reads."""
    data = b"" if adapter is None else adapter.encode() + b"\0"
    data += b"".join(token_id.to_bytes(4, "little") for token_id in token_ids)
    state = FNV_OFFSET
    for byte in data:
        state = (state ^ byte) * FNV_PRIME % 2**64
    return state


def test_compute_prefix_hash_equals_the_reference_vectors(oracle_dir: Path) -> None:
    vectors = json.loads((oracle_dir / "fnv1a.json").read_text(encoding="utf-8"))
    assert len(vectors) >= 15
    assert sum("adapter" in vector for vector in vectors) >= 3
    for vector in vectors:
        ours = SharedPrefixCache.compute_prefix_hash(vector["tokens"], vector.get("adapter"))
        assert ours == vector["hash"], vector


def test_known_vectors_hold_without_the_reference_file() -> None:
    assert SharedPrefixCache.compute_prefix_hash([]) == 14_695_981_039_346_656_037
    assert SharedPrefixCache.compute_prefix_hash([1, 2, 3]) == 18_239_313_798_490_686_357
    assert SharedPrefixCache.compute_prefix_hash([MAX_TOKEN_ID]) == 11_047_178_588_169_845_073
    assert (
        SharedPrefixCache.compute_prefix_hash([1, 2, 3, 4], "französisch")
        == 2_578_526_496_040_862_595
    )


def test_an_empty_adapter_name_is_not_the_base_model() -> None:
    assert prefix_hash_seed("") != prefix_hash_seed(None)


@given(st.lists(TOKEN_IDS, max_size=40), st.none() | st.text(max_size=5))
def test_rolling_token_by_token_is_the_hash_of_the_whole(
    token_ids: list[int], adapter: str | None
) -> None:
    state = prefix_hash_seed(adapter)
    for token_id in token_ids:
        state = roll_hash(state, [token_id])
    assert state == plain_hash(token_ids, adapter)
    assert state == SharedPrefixCache.compute_prefix_hash(token_ids, adapter)


@pytest.mark.parametrize("block_size", range(1, 18))
def test_page_hashes_are_the_hashes_at_page_ends(block_size: int) -> None:
    rng = random.Random(block_size)
    for num_pages in (1, 2, 3, 9):
        for limit in (256, 65_536, MAX_TOKEN_ID + 1):
            state = rng.randrange(2**64)
            token_ids = [rng.randrange(limit) for _ in range(num_pages * block_size)]
            expected, rolled = [], state
            for start in range(0, len(token_ids), block_size):
                rolled = roll_hash(rolled, token_ids[start : start + block_size])
                expected.append(rolled)
            assert roll_page_hashes(state, token_ids, block_size) == expected


@pytest.mark.parametrize("block_size", range(1, 18))
def test_a_chain_that_grows_in_any_pieces_hashes_whole_prefixes(block_size: int) -> None:
    rng = random.Random(100 + block_size)
    for adapter in (None, "sql"):
        token_ids: list[int] = []
        chain = PrefixChain(token_ids, block_size, adapter)
        while len(token_ids) < 6 * block_size:
            token_ids += [rng.randrange(MAX_TOKEN_ID + 1) for _ in range(rng.randint(1, 20))]
            chain.extend()
            full = len(token_ids) // block_size
            ends = [(index + 1) * block_size for index in range(full)]
            assert chain.hashes == [plain_hash(token_ids[:end], adapter) for end in ends]
            assert chain.pages == [tuple(token_ids[end - block_size : end]) for end in ends]


@pytest.mark.parametrize("num_chains", [1, 23, 24, 60])
@pytest.mark.parametrize("block_size", [1, 3, 16])
def test_chains_extended_together_are_those_extended_alone(
    num_chains: int, block_size: int
) -> None:
    rng = random.Random(num_chains * 100 + block_size)
    together, alone = [], []
    for index in range(num_chains):
        # Some have filled one page, some none, some several.
        pages = (1, 1, 1, 0, 2)[index % 5] if num_chains > 24 else 1
        token_ids = [rng.randrange(MAX_TOKEN_ID + 1) for _ in range(block_size)]
        adapter = rng.choice((None, "a"))
        pair = [PrefixChain(token_ids, block_size, adapter) for _ in range(2)]
        for chain in pair:
            chain.extend()
        token_ids += [rng.randrange(MAX_TOKEN_ID + 1) for _ in range(pages * block_size)]
        together.append(pair[0])
        alone.append(pair[1])
    extend_together(together)
    for chain, other in zip(together, alone, strict=True):
        other.extend()
        assert chain.hashes == other.hashes
        assert chain.pages == other.pages
        # Neither forgets where it stands.
        chain.token_ids += [7] * block_size  # type: ignore[operator]
        chain.extend()
        assert chain.hashes[-1] == plain_hash(list(chain.token_ids), chain.adapter)


def test_extending_no_chains_is_nothing() -> None:
    extend_together([])
