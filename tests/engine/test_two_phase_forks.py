"""Forks, samples and equal pages under the profile that prefills and decodes in turn."""

from __future__ import annotations

from pagedviz.engine import EngineConfig, SeqId
from pagedviz.engine.block_manager import BlockManager
from pagedviz.engine.engine import Engine
from pagedviz.engine.last_writer_cache import LastWriterCache
from pagedviz.engine.pages import KvPageConfig, KvPagePool
from pagedviz.engine.prefix_cache import SharedPrefixCache
from pagedviz.engine.prefix_hash import PrefixChain


def two_phase(**changes: int) -> Engine:
    settings = {"num_pages": 12, "block_size": 2, "max_running": 2, **changes}
    return Engine(EngineConfig(profile="nano_vllm", **settings))


def test_samples_run_even_if_more_are_running_than_take_part_in_a_step() -> None:
    engine = two_phase()
    for name in ("A", "B"):
        engine.submit([1], max_new_tokens=6, forced_ids=[2] * 6, name=name)
    engine.step()
    engine.submit(
        [3, 3, 3], max_new_tokens=2, forced_ids=[4, 5], num_samples=2, forced_forks=([6, 7],)
    )
    engine.step()
    running = [(s.id, s.num_computed, s.is_running) for s in engine.scheduler.running]
    assert running[2:] == [(SeqId(2), 3, True), (SeqId(3), 3, True)]
    while engine.has_unfinished:
        engine.step()
    assert [s.generated_ids for s in engine.sequences][2:] == [[4, 5], [6, 7]]
    assert engine.block_manager.pool.free_count == 12


def test_a_fork_of_a_half_computed_prompt_waits_for_pages_of_its_own() -> None:
    engine = two_phase(max_tokens_per_step=3)
    parent = engine.submit([1, 1, 2, 2, 3], max_new_tokens=2, forced_ids=[7, 8])
    engine.step()
    child = engine.fork(parent, forced_ids=[9, 9])
    assert engine.scheduler.waiting[0].id == child
    while engine.has_unfinished:
        engine.step()
    assert [s.generated_ids for s in engine.sequences] == [[7, 8], [9, 9]]
    assert engine.block_manager.pool.free_count == 12


def grown(cache: SharedPrefixCache, token_ids: list[int]) -> PrefixChain:
    chain = cache.chain(token_ids, None)
    assert chain is not None
    return chain


def test_a_page_is_found_behind_a_prefix_that_was_superseded_evicted_and_computed_again() -> None:
    pool, cache = KvPagePool(6, KvPageConfig(block_size=2)), LastWriterCache(2)
    p0, p1, p2, p3, *_ = pool.page_ids
    tokens = [1, 1, 2, 2, 3]
    mine, others = [], []
    cache.add_page(grown(cache, tokens), mine, p0)
    cache.add_page(grown(cache, tokens), others, p1)
    for older in cache.superseded(p1):
        cache.forget_page(older)
    cache.forget_page(p1)
    # Nothing is left of the first page; whoever holds p0 goes on and fills a second one.
    assert len(cache) == 0
    cache.add_page(grown(cache, tokens), mine, p2)
    assert cache.match(tokens).page_ids == ()
    cache.add_page(grown(cache, tokens), [], p3)
    assert cache.match(tokens).page_ids == (p3, p2)
    for page_id in (p2, p3):
        cache.forget_page(page_id)
    assert len(cache) == 0 and not any(root.children for root in cache.roots)


def test_a_page_of_a_prefix_that_came_back_meanwhile_is_found_behind_it() -> None:
    pool, cache = KvPagePool(6, KvPageConfig(block_size=2)), LastWriterCache(2)
    p0, p1, p2, *_ = pool.page_ids
    tokens = [1, 1, 2, 2, 3]
    mine: list = []
    cache.add_page(grown(cache, tokens), mine, p0)
    cache.forget_page(p0)
    cache.add_page(grown(cache, tokens), [], p1)
    cache.add_page(grown(cache, tokens), mine, p2)
    assert cache.match(tokens).page_ids == (p1, p2)


def test_pages_of_tokens_that_are_not_known_get_no_hash() -> None:
    manager = BlockManager(KvPagePool(4, KvPageConfig(block_size=2)), None, SharedPrefixCache(2))
    chain = manager.cache.chain([1, 1, 2], None)
    manager.register(SeqId(0), chain)
    pages = manager.reserve(SeqId(0), 6)
    manager.hash_pages([(SeqId(0), 6)])
    assert [page_id in manager.cache for page_id in pages] == [True, False, False]
