"""A prefix lookup finds exactly what is there, never a wrong page, and says why it ended."""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator, Sequence

import pytest

from pagedviz.engine import EngineConfig, PageId, SharedPrefixCache, prefix_hash, state_rules
from pagedviz.engine.events import PageEvicted, PageHashed, PageShared, PrefixLookedUp
from pagedviz.engine.prefix_cache import LookupEnd, NoPrefixCache
from tests.engine.kit import ChainModel, CheckedEngine, of_type, table

P = [PageId(number) for number in range(12)]


def make_cache(*prefixes: tuple[Sequence[int], Sequence[PageId]]) -> SharedPrefixCache:
    cache = SharedPrefixCache(block_size=2)
    for tokens, page_ids in prefixes:
        cache.insert(tokens, page_ids)
    return cache


# ---- how much is found -------------------------------------------------------------------------


def test_a_full_hit_leaves_the_last_page_to_be_recomputed() -> None:
    cache = make_cache(([1, 2, 3, 4], P[:2]))
    match = cache.match([1, 2, 3, 4])
    # A hit has K/V but no logits, and hits end at page ends.
    assert (match.page_ids, match.num_tokens, match.end.reason) == ((0,), 2, "full_hit")
    assert cache.match([1, 2, 3, 4, 5]).page_ids == (0, 1)


def test_a_hit_ends_at_the_first_page_that_is_not_there() -> None:
    cache = make_cache(([1, 2, 3, 4, 5, 6], P[:3]))
    cache.forget_page(P[1])
    assert cache.match([1, 2, 3, 4, 5, 6, 7]).page_ids == (0,)


def test_of_pages_with_equal_content_the_oldest_is_found_and_then_the_next() -> None:
    cache = make_cache(([1, 2], [P[5]]), ([1, 2], [P[3]]), ([1, 2], [P[9]]))
    assert len(cache) == 1
    assert cache.match([1, 2, 3]).page_ids == (5,)
    cache.forget_page(P[5])
    assert cache.match([1, 2, 3]).page_ids == (3,)
    cache.forget_page(P[3])
    cache.forget_page(P[9])
    assert cache.match([1, 2, 3]).page_ids == ()
    assert len(cache) == 0


def test_a_lookup_changes_nothing() -> None:
    cache = make_cache(([1, 2, 3, 4], P[:2]), ([1, 2, 5, 6], [P[0], P[3]]))
    cache.forget_page(P[3])
    for _ in range(2):
        assert cache.match([1, 2, 5, 6, 7]).end == LookupEnd("evicted", position=2, step=0)
        assert cache.match([1, 2, 3, 4, 7]).page_ids == (0, 1)
        assert len(cache) == 2


def test_the_same_page_under_another_parent_is_another_entry() -> None:
    cache = make_cache(([1, 1, 7, 7], P[:2]), ([2, 2, 7, 7], P[2:4]))
    assert cache.match([1, 1, 7, 7, 0]).page_ids == (0, 1)
    assert cache.match([2, 2, 7, 7, 0]).page_ids == (2, 3)
    assert cache.match([7, 7, 0]).page_ids == ()


def test_a_child_is_found_again_once_its_parent_is_recomputed() -> None:
    cache = make_cache(([1, 2, 3, 4, 5, 6], P[:3]))
    cache.forget_page(P[0])
    assert cache.match([1, 2, 3, 4, 5, 6, 7]).page_ids == ()
    assert cache.lookup(SharedPrefixCache.compute_prefix_hash([1, 2, 3, 4])) is None
    cache.insert([1, 2], [P[8]])
    assert cache.match([1, 2, 3, 4, 5, 6, 7]).page_ids == (8, 1, 2)
    assert cache.lookup(SharedPrefixCache.compute_prefix_hash([1, 2, 3, 4])) == [8, 1]


def test_entries_without_pages_and_children_are_given_up() -> None:
    cache = make_cache(([1, 2, 3, 4, 5, 6], P[:3]))
    for page_id in (P[0], P[1]):
        cache.forget_page(page_id)
    assert len(cache) == 1
    cache.forget_page(P[2])
    assert len(cache) == 0
    assert not any(page_id in cache for page_id in P)
    # Nothing of it is left to be walked through.
    cache.insert([1, 2], [P[0]])
    assert cache.match([1, 2, 3, 4, 5]).page_ids == (0,)


def test_evicting_a_prefix_takes_all_its_pages_and_leaves_its_children() -> None:
    cache = make_cache(([1, 2, 3, 4], P[:2]), ([1, 2], [P[4]]))
    assert cache.evict(SharedPrefixCache.compute_prefix_hash([1, 2])) == [0]
    assert P[0] not in cache and P[4] not in cache and P[1] in cache
    assert cache.evict(SharedPrefixCache.compute_prefix_hash([1, 2])) is None
    assert cache.evict(12345) is None


# ---- why a lookup ended ------------------------------------------------------------------------


def end(cache: SharedPrefixCache, tokens: Sequence[int], adapter: str | None = None) -> LookupEnd:
    return cache.match(tokens, adapter).end


def test_end_full_hit() -> None:
    assert end(make_cache(([1, 2], P[:1])), [1, 2, 3]) == LookupEnd("full_hit")


def test_end_prompt_shorter_than_a_page() -> None:
    cache = make_cache(([1, 2], P[:1]))
    # Two tokens fill a page, but one of them must be computed.
    for tokens in ([1], [1, 2]):
        assert end(cache, tokens) == LookupEnd("prompt_shorter_than_a_page")


def test_end_diverged_names_the_first_different_token() -> None:
    cache = make_cache(([1, 2, 3, 4], P[:2]))
    assert end(cache, [1, 2, 3, 9, 0]) == LookupEnd("diverged", 3, cached_token=4, prompt_token=9)
    assert end(cache, [1, 2, 8, 4, 0]) == LookupEnd("diverged", 2, cached_token=3, prompt_token=8)
    assert end(cache, [1, 7, 3, 4, 0]) == LookupEnd("diverged", 1, cached_token=2, prompt_token=7)


def test_end_diverged_compares_with_the_nearest_of_several_continuations() -> None:
    cache = make_cache(([1, 2, 3, 4], P[:2]), ([1, 2, 5, 6], [P[0], P[2]]))
    assert end(cache, [1, 2, 5, 9, 0]) == LookupEnd("diverged", 3, cached_token=6, prompt_token=9)


def test_end_evicted_names_the_step() -> None:
    cache = make_cache(([1, 2, 3, 4], P[:2]))
    cache.step = 7
    cache.forget_page(P[1])
    assert end(cache, [1, 2, 3, 4, 5]) == LookupEnd("evicted", position=2, step=7)
    cache.insert([1, 2, 3, 4], [P[0], P[6]])
    assert end(cache, [1, 2, 3, 4, 5]) == LookupEnd("full_hit")


def test_end_other_adapter() -> None:
    cache = make_cache(([1, 2], P[:1]))
    cache.insert([1, 2], [P[1]], adapter="sql")
    assert cache.match([1, 2, 3], "sql").page_ids == (1,)
    assert end(cache, [1, 2, 3], "chat") == LookupEnd("other_adapter", position=0)
    cache.forget_page(P[0])
    cache.forget_page(P[1])
    assert end(cache, [1, 2, 3], "chat") == LookupEnd("never_seen", position=0)


def test_end_never_seen() -> None:
    assert end(make_cache(), [1, 2, 3]) == LookupEnd("never_seen", position=0)
    cache = make_cache(([1, 2], P[:1]))
    # No token in common: it is not a variant of what is there.
    assert end(cache, [5, 6, 7]) == LookupEnd("never_seen", position=0)
    # What is there ends before this prompt does.
    assert end(cache, [1, 2, 3, 4, 5]) == LookupEnd("never_seen", position=2)


def test_end_disabled() -> None:
    cache = NoPrefixCache(2)
    assert cache.chain([1, 2, 3], None) is None
    assert cache.match([1, 2, 3]) == ((), 0, LookupEnd("disabled"))


def test_the_engine_says_the_same_in_an_event() -> None:
    lab = CheckedEngine(EngineConfig(num_pages=3, block_size=2))

    def lookup(prompt: list[int], adapter: str | None = None) -> PrefixLookedUp:
        lab.submit(prompt, [0], adapter=adapter)
        lab.step()
        (event,) = of_type(lab.all_events[-1], PrefixLookedUp)
        assert isinstance(event, PrefixLookedUp)
        return event

    assert lookup([1]) == PrefixLookedUp(0, 0, "prompt_shorter_than_a_page")
    assert lookup([1, 2, 3, 4]) == PrefixLookedUp(1, 0, "never_seen", position=0)
    assert lookup([1, 2, 3, 5, 6], "a") == PrefixLookedUp(2, 0, "other_adapter", position=0)
    # The three pages of seq:2 evicted both of seq:1 in step 2.
    assert lookup([1, 2, 3, 4]) == PrefixLookedUp(3, 0, "evicted", position=0, evicted_step=2)
    assert lookup([1, 2, 3, 9, 8]) == PrefixLookedUp(
        4, 2, "diverged", table_of(lab, 4), position=3, cached_token=4, prompt_token=9
    )


def table_of(lab: CheckedEngine, seq_id: int) -> tuple[int, ...]:
    """The pages that a sequence of the last step hit."""
    shared = of_type(lab.all_events[-1], PageShared)
    return tuple(e.page_id for e in shared if isinstance(e, PageShared) and e.seq_id == seq_id)


def test_the_engine_says_that_caching_is_off() -> None:
    lab = CheckedEngine(EngineConfig(num_pages=3, block_size=2, prefix_caching=False))
    lab.submit([1, 2, 3])
    lab.step()
    assert of_type(lab.all_events[-1], PrefixLookedUp) == [PrefixLookedUp(0, 0, "disabled")]
    assert of_type(lab.all_events[-1], PageHashed) == []


# ---- pages in the engine -----------------------------------------------------------------------


def test_no_deduplication_a_recomputed_page_is_a_second_copy_and_the_oldest_is_hit() -> None:
    """Prompts of exactly two pages: the second is computed anew each time, into a page that is
    hashed as well."""
    lab = CheckedEngine(EngineConfig(num_pages=8, block_size=2))
    tables = []
    for _ in range(3):
        seq_id = lab.submit([1, 2, 3, 4], [9])
        lab.step()
        tables.append([e.page_id for e in lab.all_events[-1] if isinstance(e, PageHashed)])
        assert lab.after.sequence(seq_id).num_cached == (0 if seq_id == 0 else 2)
    assert tables == [[0, 1], [2], [3]]
    assert lab.after.cached_page_ids == (0, 1, 2, 3)
    assert {lab.after.pages[page_id].page_hash for page_id in (1, 2, 3)} == {
        SharedPrefixCache.compute_prefix_hash([1, 2, 3, 4])
    }
    longer = lab.submit([1, 2, 3, 4, 5], [9, 9])
    lab.step()
    assert table(lab.after, longer) == [0, 1, 4]


def test_generated_tokens_are_cached_too_but_not_the_last_one() -> None:
    """3 prompt and 3 output tokens leave two cached pages of two slots, not three: the last sampled
    token is never computed."""
    lab = CheckedEngine(EngineConfig(num_pages=8, block_size=2))
    lab.submit([1, 2, 3], [4, 5, 6])
    lab.finish()
    assert [lab.after.pages[i].token_ids for i in lab.after.cached_page_ids] == [(1, 2), (3, 4)]


def test_an_evicted_page_is_told_before_it_is_handed_out() -> None:
    lab = CheckedEngine(EngineConfig(num_pages=1, block_size=2))
    lab.submit([1, 2])
    lab.step()
    lab.submit([3, 4])
    lab.step()
    names = [type(event).__name__ for event in lab.all_events[-1]]
    assert names.index("PageEvicted") + 1 == names.index("PageAllocated")
    (evicted,) = of_type(lab.all_events[-1], PageEvicted)
    assert evicted == PageEvicted(0, SharedPrefixCache.compute_prefix_hash([1, 2]))
    assert lab.after.pages[0].generation == 2


# ---- hash collisions ---------------------------------------------------------------------------


@pytest.fixture
def narrow_hash(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """FNV-1a cut to 3 bits: nearly every prefix collides with another."""
    wide = prefix_hash.roll_hash

    def roll(state: int, token_ids: Iterable[int]) -> int:
        return wide(state, token_ids) & 7

    def roll_pages(state: int, token_ids: Sequence[int], block_size: int) -> list[int]:
        starts = range(0, len(token_ids), block_size)
        return [state := roll(state, token_ids[i : i + block_size]) for i in starts]

    state_rules.page_prefixes.cache_clear()
    state_rules._roll.cache_clear()
    for module in (prefix_hash, state_rules):
        monkeypatch.setattr(module, "roll_hash", roll)
    monkeypatch.setattr(prefix_hash, "roll_page_hashes", roll_pages)
    yield
    state_rules.page_prefixes.cache_clear()
    state_rules._roll.cache_clear()


@pytest.mark.usefixtures("narrow_hash")
def test_a_colliding_prefix_is_a_miss_and_is_not_cached() -> None:
    cache = SharedPrefixCache(2)
    cache.insert([0, 0], [P[0]])
    same_hash = [
        [a, b]
        for a in range(5)
        for b in range(5)
        if (a or b) and cache.match([a, b, 9]).page_ids == () and collides(cache, [a, b])
    ]
    assert same_hash
    for tokens in same_hash:
        assert cache.match([*tokens, 9]).page_ids == ()
        cache.insert(tokens, [P[1]])
        assert P[1] not in cache
    assert cache.match([0, 0, 9]).page_ids == (0,)


def collides(cache: SharedPrefixCache, tokens: list[int]) -> bool:
    """Whether a prefix has the hash of one that is cached."""
    chain = cache.chain(tokens, None)
    assert chain is not None
    return cache.lookup(chain.hashes[-1]) is not None


@pytest.mark.usefixtures("narrow_hash")
def test_with_colliding_hashes_every_token_is_still_right_and_no_rule_broken() -> None:
    num_hits = num_refused = 0
    model = ChainModel()
    for seed in range(12):
        rng = random.Random(seed)
        config = EngineConfig(num_pages=rng.randint(10, 20), block_size=rng.randint(1, 3))
        lab = CheckedEngine(config, model)
        expected = {}
        for _ in range(30):
            prompt = [rng.randrange(2) for _ in range(rng.randint(1, 8))]
            seq_id = lab.engine.submit(prompt, max_new_tokens=3)
            expected[seq_id] = tuple(model.continuation(prompt, 3))
            for _ in range(rng.randrange(3)):
                lab.step()
                num_hits += len(of_type(lab.all_events[-1], PageShared))
                # Full, owned, and yet not findable: another prefix had the hash already.
                full = [p for p in lab.after.pages if p.fill == lab.after.block_size]
                num_refused += sum(page.page_hash is None for page in full)
        lab.finish()
        for seq_id, generated in expected.items():
            assert lab.after.sequence(seq_id).generated_ids == generated
    assert num_hits > 100
    assert num_refused > 100
