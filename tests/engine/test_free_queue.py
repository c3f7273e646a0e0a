"""The free queue keeps its order whatever leaves its middle, and pages join it in their places."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pagedviz.engine import EngineConfig, KvPageConfig, KvPagePool
from pagedviz.engine.errors import DoubleFree, OutOfPages
from tests.engine.kit import CheckedEngine


@given(st.lists(st.tuples(st.sampled_from(("alloc", "free")), st.integers(0, 5))))
def test_the_queue_of_a_pool_behaves_like_a_plain_list(calls: list[tuple[str, int]]) -> None:
    """Odd pages count as findable: they join at the back, even ones in front."""
    pool, plain = KvPagePool(6, KvPageConfig()), list(range(6))
    pool.is_findable = lambda page_id: page_id % 2 == 1
    for call, page_id in calls:
        if call == "alloc" and plain:
            assert pool.queue_head == plain[0]
            assert pool.alloc_page() == plain.pop(0)
        elif call == "free" and page_id not in plain:
            pool.free_page(page_id)
            plain.insert(len(plain) if page_id % 2 else 0, page_id)
        assert list(pool.queue) == plain
        assert pool.free_count == len(plain)
        assert pool.lru_candidates == [page_id for page_id in plain if page_id % 2]
        assert pool.ref_counts == [int(page_id not in plain) for page_id in range(6)]


def test_an_empty_pool_says_so_and_a_free_page_is_not_freed_again() -> None:
    pool = KvPagePool(1, KvPageConfig())
    pool.alloc_page()
    with pytest.raises(OutOfPages, match="1 needed, 0 free"):
        pool.alloc_page()
    pool.free_page(0)
    with pytest.raises(DoubleFree, match="p0"):
        pool.free_page(0)
    assert list(pool.queue) == [0]


def test_a_partial_tail_goes_to_the_front_and_full_pages_to_the_back_tail_first() -> None:
    """vLLM's own example: pages 0, 1, 2 full and 3 partial, freed while 4 to 7 are free."""
    lab = CheckedEngine(EngineConfig(num_pages=8, block_size=2))
    lab.submit([1, 2, 3, 4, 5, 6, 7], [8])
    lab.step()
    assert lab.after.free_queue == (3, 4, 5, 6, 7, 2, 1, 0)
    assert lab.after.cached_page_ids == (0, 1, 2)


def test_without_caching_all_pages_go_to_the_front_head_first() -> None:
    lab = CheckedEngine(EngineConfig(num_pages=8, block_size=2, prefix_caching=False))
    lab.submit([1, 2, 3, 4, 5, 6, 7], [8])
    lab.step()
    assert lab.after.free_queue == (3, 2, 1, 0, 4, 5, 6, 7)


def test_sequences_that_finish_together_release_one_after_the_other() -> None:
    lab = CheckedEngine(EngineConfig(num_pages=8, block_size=2))
    lab.submit([1, 2, 3], [0])  # p0 full, p1 partial
    lab.submit([4, 5, 6], [0])  # p2 full, p3 partial
    lab.step()
    assert lab.after.free_queue == (3, 1, 4, 5, 6, 7, 0, 2)


def test_released_into_an_empty_queue_the_tail_still_comes_first() -> None:
    lab = CheckedEngine(EngineConfig(num_pages=3, block_size=2))
    lab.submit([1, 2, 3, 4, 5], [0])
    lab.step()
    assert lab.after.free_queue == (2, 1, 0)


def test_a_hit_takes_its_page_out_of_the_middle_of_the_queue() -> None:
    lab = CheckedEngine(EngineConfig(num_pages=6, block_size=2))
    lab.submit([1, 2, 3, 4, 5], [0])
    lab.step()
    assert lab.after.free_queue == (2, 3, 4, 5, 1, 0)
    lab.submit([1, 2, 9], [0, 0])
    lab.step()
    assert lab.after.free_queue == (3, 4, 5, 1)


def test_a_cached_page_is_evicted_when_it_reaches_the_head_and_is_taken_not_before() -> None:
    lab = CheckedEngine(EngineConfig(num_pages=2, block_size=2))
    lab.submit([1, 2, 3, 4], [0])
    lab.step()
    assert (lab.after.free_queue, lab.after.cached_page_ids) == ((1, 0), (0, 1))
    lab.submit([5], [0])
    lab.step()
    assert (lab.after.free_queue, lab.after.cached_page_ids) == ((1, 0), (0,))
