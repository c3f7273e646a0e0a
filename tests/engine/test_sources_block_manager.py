"""The promises of scirs2-neural's `block_manager.rs`, test by test under their own names, with the
behaviour corrected where the source leaks, overwrites or leaves holes."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from pagedviz.engine import (
    BlockManager,
    BlockManagerConfig,
    KvPageConfig,
    KvPagePool,
    PageId,
    SeqId,
    SharedPrefixCache,
)
from pagedviz.engine.errors import (
    ConfigError,
    DoubleFree,
    MaxPagesExceeded,
    MaxSequencesExceeded,
    OutOfPages,
    PageOutOfBounds,
    PositionGap,
    SequenceExists,
    SequenceNotFound,
    SlotOutOfRange,
)


def make_manager(
    num_pages: int, block_size: int, config: BlockManagerConfig | None = None
) -> BlockManager:
    page_config = KvPageConfig(block_size=block_size, num_heads=2, head_dim=4, dtype_bytes=4)
    return BlockManager(KvPagePool(num_pages, page_config), config)


def kv(number: float) -> NDArray[np.float32]:
    return np.full((2, 4), number, dtype=np.float32)  # [num_heads, head_dim]


# ---- allocate / free a sequence -----------------------------------------------------------------


def test_allocate_and_free_sequence() -> None:
    manager = make_manager(8, 4)
    manager.allocate_sequence(SeqId(1))
    assert manager.active_sequences == 1
    assert manager.pool.free_count == 7
    manager.free_sequence(SeqId(1))
    assert manager.active_sequences == 0
    assert manager.pool.free_count == 8


def test_free_unknown_sequence_errors() -> None:
    manager = make_manager(4, 4)
    with pytest.raises(SequenceNotFound, match="seq:42") as caught:
        manager.free_sequence(SeqId(42))
    assert caught.value.seq_id == 42


# ---- extend a sequence -------------------------------------------------------------------------


def test_extend_sequence_adds_page() -> None:
    manager = make_manager(8, 4)
    manager.allocate_sequence(SeqId(1))
    assert len(manager.sequence_page_chain(SeqId(1))) == 1
    assert manager.extend_sequence(SeqId(1)) == PageId(1)
    assert len(manager.sequence_page_chain(SeqId(1))) == 2
    assert manager.pool.free_count == 6


def test_extend_unknown_sequence_errors() -> None:
    manager = make_manager(4, 4)
    with pytest.raises(SequenceNotFound, match="seq:99"):
        manager.extend_sequence(SeqId(99))


# ---- write_token_kv ----------------------------------------------------------------------------


def test_write_token_kv_in_first_page() -> None:
    """The source writes tokens 0 and 3 and leaves slots 1 and 2 as holes; here a jump is refused
    and all four tokens in order lie in the first page."""
    manager = make_manager(8, 4)
    manager.allocate_sequence(SeqId(1))
    manager.write_token_kv(SeqId(1), 0, kv(1.0), kv(2.0))
    with pytest.raises(PositionGap, match="token 3 cannot be written yet"):
        manager.write_token_kv(SeqId(1), 3, kv(3.0), kv(4.0))
    for position in (1, 2, 3):
        manager.write_token_kv(SeqId(1), position, kv(3.0), kv(4.0))
    assert len(manager.sequence_page_chain(SeqId(1))) == 1


def test_write_token_kv_auto_extends_page() -> None:
    manager = make_manager(8, 2)
    manager.allocate_sequence(SeqId(1))
    for position in range(4):
        manager.write_token_kv(SeqId(1), position, kv(position), kv(position + 0.1))
    assert len(manager.sequence_page_chain(SeqId(1))) == 2


def test_write_token_kv_values_correct() -> None:
    """The source writes token 2 into an empty page; here tokens 0 and 1 come first."""
    manager = make_manager(8, 4)
    manager.allocate_sequence(SeqId(5))
    for position in range(3):
        manager.write_token_kv(SeqId(5), position, kv(9.9 + position), kv(8.8 + position))
    page = manager.pool.get_page(manager.sequence_page_chain(SeqId(5))[0])
    key, value = page.read_kv(2)
    np.testing.assert_array_equal(key, kv(11.9))
    np.testing.assert_array_equal(value, kv(10.8))


# ---- SharedPrefixCache -------------------------------------------------------------------------


def test_prefix_cache_insert_and_lookup() -> None:
    """In the source any chain can be stored under any hash; here an entry is a page of a prefix, so
    the tokens come along and fill the pages."""
    cache = SharedPrefixCache(block_size=2)
    tokens = [1, 2, 3, 4, 5, 6]
    prefix_hash = SharedPrefixCache.compute_prefix_hash(tokens)
    assert cache.lookup(prefix_hash) is None
    cache.insert(tokens, [PageId(0), PageId(1), PageId(2)])
    assert cache.lookup(prefix_hash) == [0, 1, 2]
    assert cache.lookup(SharedPrefixCache.compute_prefix_hash(tokens[:4])) == [0, 1]


def test_prefix_cache_deterministic_hash() -> None:
    tokens = [100, 200, 300]
    first = SharedPrefixCache.compute_prefix_hash(tokens)
    assert first == SharedPrefixCache.compute_prefix_hash(tokens)


def test_prefix_cache_different_tokens_different_hash() -> None:
    assert SharedPrefixCache.compute_prefix_hash([1, 2, 3]) != (
        SharedPrefixCache.compute_prefix_hash([1, 2, 4])
    )


def test_prefix_cache_evict() -> None:
    cache = SharedPrefixCache(block_size=3)
    prefix_hash = SharedPrefixCache.compute_prefix_hash([7, 8, 9])
    cache.insert([7, 8, 9], [PageId(10)])
    assert len(cache) == 1
    assert cache.evict(prefix_hash) == [10]
    assert len(cache) == 0
    assert cache.lookup(prefix_hash) is None


def test_sequence_page_chain_not_found() -> None:
    manager = make_manager(4, 4)
    with pytest.raises(SequenceNotFound, match="seq:0"):
        manager.sequence_page_chain(SeqId(0))


def test_multiple_sequences_independent() -> None:
    manager = make_manager(16, 4)
    for number in (1, 2, 3):
        manager.allocate_sequence(SeqId(number))
    assert manager.active_sequences == 3
    assert manager.pool.free_count == 13
    manager.free_sequence(SeqId(2))
    assert manager.active_sequences == 2
    assert manager.pool.free_count == 14


# ---- where the source is wrong or silent --------------------------------------------------------


def test_max_sequences_is_a_limit() -> None:
    manager = make_manager(8, 4, BlockManagerConfig(max_sequences=2))
    manager.allocate_sequence(SeqId(1))
    manager.allocate_sequence(SeqId(2))
    with pytest.raises(MaxSequencesExceeded, match="2 sequences are registered"):
        manager.allocate_sequence(SeqId(3))
    assert manager.active_sequences == 2
    assert manager.pool.free_count == 6


def test_allocating_a_sequence_twice_leaks_no_page() -> None:
    manager = make_manager(8, 4)
    manager.allocate_sequence(SeqId(1))
    with pytest.raises(SequenceExists, match="seq:1"):
        manager.allocate_sequence(SeqId(1))
    assert manager.sequence_page_chain(SeqId(1)) == (0,)
    assert manager.pool.free_count == 7


def test_the_chain_and_the_table_are_one_thing() -> None:
    manager = make_manager(8, 4)
    manager.allocate_sequence(SeqId(1))
    table = manager.page_table(SeqId(1))
    manager.extend_sequence(SeqId(1))
    assert tuple(table) == manager.sequence_page_chain(SeqId(1)) == (0, 1)
    assert manager.page_table(SeqId(1)) is table


def test_freeing_one_owner_of_a_shared_page_leaves_it_to_the_other() -> None:
    pool = KvPagePool(8, KvPageConfig(block_size=2))
    cache = SharedPrefixCache(2)
    manager = BlockManager(pool, cache=cache)
    tokens = [1, 2, 3, 4, 5]
    for number in (1, 2):
        chain = cache.chain(tokens, None)
        assert chain is not None
        manager.register(SeqId(number), chain)
        manager.reserve(SeqId(number), 5, cache.walk(chain, 5))
        manager.hash_pages([(SeqId(number), 5)])
    assert manager.sequence_page_chain(SeqId(1)) == (0, 1, 2)
    assert manager.sequence_page_chain(SeqId(2)) == (0, 1, 3)
    assert pool.ref_counts[:4] == [2, 2, 1, 1]
    manager.free_sequence(SeqId(1))
    assert pool.ref_counts[:4] == [1, 1, 0, 1]
    assert list(pool.queue) == [2, 4, 5, 6, 7]
    manager.free_sequence(SeqId(2))
    assert list(pool.queue) == [3, 2, 4, 5, 6, 7, 1, 0]


def test_a_cached_page_that_is_handed_out_again_is_not_found_any_more() -> None:
    """The source keeps page ids in its cache without a reference: they go stale."""
    pool = KvPagePool(2, KvPageConfig(block_size=2))
    cache = SharedPrefixCache(2)
    manager = BlockManager(pool, cache=cache)
    chain = cache.chain([1, 2, 3, 4], None)
    manager.register(SeqId(1), chain)
    manager.reserve(SeqId(1), 4)
    manager.hash_pages([(SeqId(1), 4)])
    manager.free_sequence(SeqId(1))
    assert cache.match([1, 2, 3, 4, 5]).page_ids == (0, 1)
    assert pool.lru_candidates == [1, 0]
    manager.register(SeqId(2))
    manager.reserve(SeqId(2), 1)
    assert manager.sequence_page_chain(SeqId(2)) == (1,)
    assert cache.match([1, 2, 3, 4, 5]).page_ids == (0,)


def test_a_hit_that_waits_in_the_queue_is_a_page_the_call_needs() -> None:
    """Three hits and one new page: two pages that nobody owns are in the queue, and they are hits
    themselves."""
    pool = KvPagePool(3, KvPageConfig(block_size=2))
    cache = SharedPrefixCache(2)
    manager = BlockManager(pool, BlockManagerConfig(None, None), cache)
    tokens = [1, 2, 3, 4, 5, 6, 7]
    for number, count in ((1, 6), (2, 2)):
        chain = cache.chain(tokens[:count], None)
        assert chain is not None
        manager.register(SeqId(number), chain)
        manager.reserve(SeqId(number), count, cache.walk(chain, count + 1))
        manager.hash_pages([(SeqId(number), count)])
    manager.free_sequence(SeqId(1))
    assert (list(pool.queue), pool.ref_counts) == ([2, 1], [1, 0, 0])
    chain = cache.chain(tokens, None)
    assert chain is not None
    hits = cache.walk(chain, 7)
    assert [entry.oldest_page for entry in hits] == [0, 1, 2]
    manager.register(SeqId(3), chain)
    assert manager.pages_needed(SeqId(3), 7, hits) == 3
    with pytest.raises(OutOfPages, match="3 needed, 2 free"):
        manager.reserve(SeqId(3), 7, hits)
    assert (list(pool.queue), pool.ref_counts) == ([2, 1], [1, 0, 0])
    assert manager.sequence_page_chain(SeqId(3)) == ()
    assert manager.reserve(SeqId(3), 6, hits) == [0, 1, 2]
    assert (list(pool.queue), pool.ref_counts) == ([], [2, 1, 1])


def test_write_token_kv_that_fails_keeps_no_page() -> None:
    manager = make_manager(1, 2)
    manager.allocate_sequence(SeqId(1))
    for position in (0, 1):
        manager.write_token_kv(SeqId(1), position, kv(1), kv(1))
    with pytest.raises(OutOfPages, match="1 needed, 0 free"):
        manager.write_token_kv(SeqId(1), 2, kv(1), kv(1))
    manager = make_manager(4, 1)
    manager.allocate_sequence(SeqId(1))
    manager.write_token_kv(SeqId(1), 0, kv(1), kv(1))
    with pytest.raises(Exception, match="shape"):
        manager.write_token_kv(SeqId(1), 1, kv(1)[:1], kv(1))
    assert manager.sequence_page_chain(SeqId(1)) == (0,)
    assert manager.pool.free_count == 3


def test_a_gap_is_a_value_error_that_names_both_positions() -> None:
    manager = make_manager(8, 2)
    manager.allocate_sequence(SeqId(1))
    with pytest.raises(ValueError, match=r"token 5 .* nothing is there, the next is 0"):
        manager.write_token_kv(SeqId(1), 5, kv(1), kv(1))
    manager.write_token_kv(SeqId(1), 0, kv(1), kv(1))
    with pytest.raises(ValueError, match=r"token 5 .* tokens 0 to 0 are there, the next is 1"):
        manager.write_token_kv(SeqId(1), 5, kv(1), kv(1))
    assert manager.sequence_page_chain(SeqId(1)) == (0,)


def test_a_page_limit_per_sequence_holds_for_every_way_to_grow() -> None:
    manager = make_manager(8, 2, BlockManagerConfig(max_pages_per_seq=2))
    manager.allocate_sequence(SeqId(1))
    for position in range(4):
        manager.write_token_kv(SeqId(1), position, kv(1), kv(1))
    for grow in (
        lambda: manager.extend_sequence(SeqId(1)),
        lambda: manager.write_token_kv(SeqId(1), 4, kv(1), kv(1)),
        lambda: manager.reserve(SeqId(1), 5),
    ):
        with pytest.raises(MaxPagesExceeded, match="3 pages, the limit per sequence is 2"):
            grow()
    assert manager.sequence_page_chain(SeqId(1)) == (0, 1)


def test_a_token_can_be_written_again_in_each_layer_until_its_page_is_findable() -> None:
    pool = KvPagePool(4, KvPageConfig(block_size=2, num_heads=2, head_dim=4, num_layers=2))
    manager = BlockManager(pool)
    manager.allocate_sequence(SeqId(1))
    manager.write_token_kv(SeqId(1), 0, kv(1), kv(2), layer=0)
    manager.write_token_kv(SeqId(1), 0, kv(3), kv(4), layer=1)
    page = pool.get_page(0)
    np.testing.assert_array_equal(page.read_kv(0, layer=0)[0], kv(1))
    np.testing.assert_array_equal(page.read_kv(0, layer=1)[1], kv(4))
    assert len(page) == 1


# ---- the page pool -----------------------------------------------------------------------------


def test_pages_are_handed_out_in_the_order_0_1_2() -> None:
    pool = KvPagePool(3, KvPageConfig())
    assert [pool.alloc_page() for _ in range(3)] == [0, 1, 2]
    assert (pool.free_count, pool.total_count) == (0, 3)


def test_a_freed_page_without_a_hash_is_the_next_to_be_taken() -> None:
    pool = KvPagePool(4, KvPageConfig())
    for _ in range(3):
        pool.alloc_page()
    pool.free_page(1)
    assert list(pool.queue) == [1, 3]
    assert pool.alloc_page() == 1


def test_a_generation_rises_when_a_page_is_allocated_and_not_when_it_is_hit() -> None:
    pool = KvPagePool(2, KvPageConfig(block_size=2))
    cache = SharedPrefixCache(2)
    manager = BlockManager(pool, cache=cache)
    assert pool.generations == [0, 0]
    chain = cache.chain([1, 2, 3], None)
    assert chain is not None
    for number, generations in ((1, [1, 1]), (2, [1, 2])):
        manager.register(SeqId(number), chain)
        manager.reserve(SeqId(number), 3, cache.walk(chain, 3))
        manager.hash_pages([(SeqId(number), 3)])
        assert manager.sequence_page_chain(SeqId(number)) == (0, 1)
        assert pool.generations == generations
        assert manager.page_table(SeqId(number)).generations == generations
        manager.free_sequence(SeqId(number))


def test_memory_bytes_counts_keys_and_values_of_all_layers() -> None:
    pool = KvPagePool(10, KvPageConfig(16, num_heads=2, head_dim=4, dtype_bytes=2, num_layers=3))
    assert pool.memory_bytes == 10 * 2 * 3 * 16 * 2 * 4 * 2


def test_the_defaults_are_those_of_the_source() -> None:
    assert KvPageConfig() == KvPageConfig(16, 8, 64, 4, 1)
    assert BlockManagerConfig() == BlockManagerConfig(max_sequences=64, max_pages_per_seq=128)


def test_a_page_is_a_view_that_knows_how_full_it_is() -> None:
    pool = KvPagePool(1, KvPageConfig(block_size=2, num_heads=2, head_dim=4))
    page = pool.get_page(0)
    assert (len(page), page.capacity, page.is_empty, page.is_full) == (0, 2, True, False)
    page.write_kv(0, kv(1), kv(2))
    assert (len(page), page.is_empty, page.is_full) == (1, False, False)
    page.write_kv(1, kv(3), kv(4))
    assert (len(page), page.is_empty, page.is_full) == (2, False, True)
    np.testing.assert_array_equal(pool.keys[0, 0, 1], kv(3))
    with pytest.raises(SlotOutOfRange, match="slot 2"):
        page.write_kv(2, kv(1), kv(1))


def test_slots_that_hold_nothing_cannot_be_read() -> None:
    page = KvPagePool(1, KvPageConfig(block_size=4, num_heads=2, head_dim=4)).get_page(0)
    page.write_kv(0, kv(1), kv(2))
    for slot, layer in ((1, 0), (-1, 0), (0, 1), (4, 0)):
        with pytest.raises(SlotOutOfRange, match=f"slot {slot}, layer {layer} .* 1 of 4"):
            page.read_kv(slot, layer)


def test_a_page_out_of_bounds_and_a_double_free_are_told_with_their_numbers() -> None:
    pool = KvPagePool(3, KvPageConfig())
    for page_id in (3, -1):
        with pytest.raises(PageOutOfBounds, match=f"page {page_id} .* pages 0 to 2"):
            pool.get_page(page_id)
    with pytest.raises(DoubleFree, match="p1 has no owner"):
        pool.free_page(1)


@pytest.mark.parametrize(
    ("make", "numbers"),
    [
        (lambda: KvPagePool(0, KvPageConfig()), "num_pages must be at least 1, got 0"),
        (lambda: KvPageConfig(block_size=0), "block_size must be at least 1, got 0"),
        (lambda: KvPageConfig(num_heads=0), "num_heads must be at least 1, got 0"),
        (lambda: KvPageConfig(head_dim=True), "head_dim must be a whole number, got True"),
        (lambda: BlockManagerConfig(max_sequences=0), "max_sequences must be at least 1, got 0"),
        (lambda: SharedPrefixCache(2).insert([1, 2, 3], [PageId(0)]), "3 tokens do not fill 1"),
        (lambda: SharedPrefixCache(2).insert([], []), "0 tokens do not fill 0 pages"),
    ],
)
def test_impossible_settings_are_refused_with_the_number(make: object, numbers: str) -> None:
    assert callable(make)
    with pytest.raises(ConfigError, match=numbers):
        make()
