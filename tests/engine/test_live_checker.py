"""The live check finds in an engine's own structures what the slow rules find in its snapshots."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest

from pagedviz.engine import AdapterKey, Engine, EngineConfig, FinishReason, PageId, SeqId
from pagedviz.engine.errors import IllegalTransition
from pagedviz.engine.events import (
    Emitted,
    Event,
    InvariantViolated,
    SequenceScheduled,
    SlotsWritten,
    as_event,
)
from pagedviz.engine.invariants import Violation, check_step
from pagedviz.engine.live_checker import FULL_UP_TO, LiveChecker
from pagedviz.engine.live_findings import MAX_MESSAGE
from pagedviz.engine.live_state import Audited
from pagedviz.engine.prefix_entry import Entry
from pagedviz.engine.profiles import PROFILES
from pagedviz.engine.scheduler import Scheduler
from pagedviz.engine.sequence import Sequence
from pagedviz.trace.engine_copy import copy_engine
from tests.engine.kit import ChainModel, CheckedEngine, places, table

A, B = 0, 1
PREFIX = [1, 2, 3, 4, 1, 2, 3, 0]


def make_lab(model: ChainModel | None = None) -> CheckedEngine:
    """After step 1: A holds p0 p1 p2, B shares p0 p1 and holds p3, p4 to p7 are free.

    Both have computed 10 tokens; the tails p2 and p3 have 2 of 4 slots filled.
    """
    lab = CheckedEngine(EngineConfig(num_pages=8, block_size=4), model)
    lab.submit([*PREFIX, 2], [0, 1, 2, 3])
    lab.submit([*PREFIX, 3], [1, 2, 3, 0])
    lab.step()
    lab.step()
    assert table(lab.after, A) == [0, 1, 2]
    assert table(lab.after, B) == [0, 1, 3]
    return lab


def make_hit_lab(model: ChainModel | None = None) -> CheckedEngine:
    """A has finished and left p0 and p1 cached; in the last step B hit p0 and added p2 after it."""
    lab = CheckedEngine(EngineConfig(num_pages=8, block_size=4), model)
    lab.submit([*PREFIX, 2])
    lab.step()
    lab.submit([1, 2, 3, 4, 0], [1, 2])
    lab.step()
    assert table(lab.after, B) == [0, 2]
    assert lab.after.cached_page_ids == (0, 1)
    return lab


def look(lab: CheckedEngine) -> list[Violation]:
    engine = lab.engine
    return lab.checker.check(
        Audited(
            engine.num_steps,
            engine.block_manager,
            engine.sequences,
            engine.scheduler,
            host_pool=engine.host_pool,
        )
    )


def look_slowly(lab: CheckedEngine) -> set[tuple[int, int | None, int | None]]:
    """What the slow rules find: with the fills that the engine tells, and with those that its
    events have added up to."""
    after = lab.engine.snapshot()
    pages = tuple(
        page._replace(fill=told.fill)
        for page, told in zip(after.pages, lab.after.pages, strict=True)
    )
    slow = check_step(lab.after, [], after)
    return places(slow) | places(check_step(lab.after, [], after._replace(pages=pages)))


# ---- corruptions: what is damaged, and the rules that it breaks ---------------------------------

Damage = Callable[[Engine], None]


def set_queue(engine: Engine, page_ids: list[int]) -> None:
    engine.block_manager.pool.queue = [PageId(p) for p in page_ids]  # type: ignore[assignment]


def queue_page_twice(engine: Engine) -> None:
    set_queue(engine, [4, 5, 6, 7, 5])


def lose_page_from_queue(engine: Engine) -> None:
    del engine.block_manager.pool.queue[PageId(6)]


def queue_page_that_does_not_exist(engine: Engine) -> None:
    engine.block_manager.pool.queue[PageId(8)] = None


def count_too_little(engine: Engine) -> None:
    engine.block_manager.pool.ref_counts[0] = 1


def count_too_much(engine: Engine) -> None:
    engine.block_manager.pool.ref_counts[0] = 3


def leak_page(engine: Engine) -> None:
    pool = engine.block_manager.pool
    pool.ref_counts[5] = pool.generations[5] = 1
    del pool.queue[PageId(5)]


def hold_page_twice(engine: Engine) -> None:
    engine.block_manager.page_table(SeqId(A)).page_ids[2] = PageId(1)
    engine.block_manager.pool.ref_counts[1] = 3


def hand_out_again(engine: Engine) -> None:
    engine.block_manager.pool.generations[3] = 2


def free_under_its_owner(engine: Engine) -> None:
    engine.block_manager.pool.ref_counts[3] = 0
    set_queue(engine, [3, 4, 5, 6, 7])


def point_outside(engine: Engine) -> None:
    engine.block_manager.page_table(SeqId(B)).page_ids[2] = PageId(8)
    free_under_its_owner(engine)


def forget_generation(engine: Engine) -> None:
    engine.block_manager.page_table(SeqId(B)).generations.pop()


def hold_page_too_many(engine: Engine) -> None:
    engine.block_manager.page_table(SeqId(B)).append(PageId(4), 1)
    pool = engine.block_manager.pool
    pool.ref_counts[4] = pool.generations[4] = 1
    del pool.queue[PageId(4)]


def hold_page_too_few(engine: Engine) -> None:
    table = engine.block_manager.page_table(SeqId(B))
    table.page_ids.pop()
    table.generations.pop()
    engine.block_manager.pool.fills[3] = 0
    free_under_its_owner(engine)


def compute_what_is_not_written(engine: Engine) -> None:
    engine.sequences.get(SeqId(B)).num_computed = 11


def change_cached_tokens(engine: Engine) -> None:
    engine.block_manager.cache.entry_of[PageId(1)].token_ids = (1, 2, 4, 0)


def change_cached_hash(engine: Engine) -> None:
    engine.block_manager.cache.entry_of[PageId(1)].page_hash = 12_345


def shorten_cached_tokens(engine: Engine) -> None:
    engine.block_manager.cache.entry_of[PageId(1)].token_ids = (1, 2, 3)


def change_adapter(engine: Engine) -> None:
    engine.sequences.get(SeqId(B)).adapter_id = AdapterKey("sql")


def change_own_token(engine: Engine) -> None:
    engine.sequences.get(SeqId(B)).token_ids[5] = 4


def wipe_hash(engine: Engine) -> None:
    engine.block_manager.cache.forget_page(PageId(0))


def share_tail(engine: Engine) -> None:
    pool, table = engine.block_manager.pool, engine.block_manager.page_table(SeqId(B))
    table.page_ids[2] = PageId(2)
    pool.ref_counts[2], pool.ref_counts[3], pool.fills[3] = 2, 0, 0
    set_queue(engine, [3, 4, 5, 6, 7])


def finish_without_release(engine: Engine) -> None:
    sequence = engine.sequences.get(SeqId(B))
    sequence.finish(FinishReason.ABORTED)
    engine.scheduler.running.remove(sequence)


def forget_who_runs(engine: Engine) -> None:
    engine.scheduler.running.pop()


def run_twice(engine: Engine) -> None:
    engine.scheduler.running.append(engine.scheduler.running[0])


def let_who_runs_wait_too(engine: Engine) -> None:
    engine.scheduler.waiting.append(engine.scheduler.running[0])


DAMAGES: list[tuple[Damage, set[int]]] = [
    (queue_page_twice, {1}),
    (lose_page_from_queue, {1}),
    (queue_page_that_does_not_exist, {1}),
    (count_too_little, {2}),
    (count_too_much, {2}),
    (leak_page, {2}),
    (hold_page_twice, {2, 4, 5}),
    (hand_out_again, {3}),
    (free_under_its_owner, {2, 3}),
    (point_outside, {3}),
    (forget_generation, {3}),
    (hold_page_too_many, {4}),
    (hold_page_too_few, {4}),
    (compute_what_is_not_written, {4}),
    (change_cached_tokens, {5, 9}),
    (change_cached_hash, {5, 9}),
    (shorten_cached_tokens, {5, 9}),
    (change_adapter, {5}),
    (change_own_token, {5}),
    (forget_who_runs, {7}),
    (run_twice, {7}),
    (let_who_runs_wait_too, {7}),
    (wipe_hash, {9}),
    (share_tail, {11}),
    (finish_without_release, {12}),
]


@pytest.mark.parametrize("has_model", [False, True])
@pytest.mark.parametrize(
    ("damage", "rules"), DAMAGES, ids=lambda value: getattr(value, "__name__", "")
)
def test_a_damaged_structure_is_named_as_the_slow_rules_name_it(
    damage: Damage, rules: set[int], has_model: bool
) -> None:
    lab = make_lab(ChainModel() if has_model else None)
    damage(lab.engine)
    found = look(lab)
    assert rules <= {violation.rule for violation in found}
    # That the lookup map has p1 under another hash than its own is more than a snapshot shows.
    more = {(5, 1, None)} if damage is change_cached_hash else set()
    assert places(found) == look_slowly(lab) | more


def make_swap_lab() -> CheckedEngine:
    """B was swapped out: it holds host pages, others are free."""
    config = EngineConfig(num_pages=6, block_size=4, preemption="swap", host_pages=8)
    lab = CheckedEngine(config, ChainModel())
    lab.submit([*PREFIX, 2], [0, 1, 2, 3] * 3)
    lab.submit([3, 1, 2, 1, 1, 3, 2, 2, 1], [1, 2, 3, 0] * 3)
    while not lab.engine.sequences.get(SeqId(B)).host_page_ids:
        lab.step()
    assert not look(lab)
    return lab


def lose_free_host_page(engine: Engine) -> None:
    engine.host_pool._free.pop()


def free_held_host_page(engine: Engine) -> None:
    engine.host_pool.release(engine.sequences.get(SeqId(B)).host_page_ids[:1])


def hold_host_page_twice(engine: Engine) -> None:
    host_page_ids = engine.sequences.get(SeqId(B)).host_page_ids
    host_page_ids[0] = host_page_ids[1]


@pytest.mark.parametrize("damage", [lose_free_host_page, free_held_host_page, hold_host_page_twice])
def test_a_host_page_in_no_place_or_in_two_is_named(damage: Damage) -> None:
    lab = make_swap_lab()
    damage(lab.engine)
    found = look(lab)
    assert found and {violation.rule for violation in found} == {1}
    assert all("host page" in violation.message for violation in found)


@pytest.mark.parametrize("fill", [1, 3, 5])
def test_a_fill_that_the_owners_did_not_compute_is_named(fill: int) -> None:
    lab = make_lab(ChainModel())
    lab.engine.block_manager.pool.fills[3] = fill
    assert places(look(lab)) == {(4, 3, None)}


def test_a_free_page_that_is_not_empty_is_named() -> None:
    lab = make_lab(ChainModel())
    lab.engine.block_manager.pool.fills[6] = 1
    assert places(look(lab)) == {(4, 6, None)}


def test_a_cached_page_whose_content_nobody_submitted_is_named() -> None:
    for has_model in (False, True):
        lab = make_hit_lab(ChainModel() if has_model else None)
        lab.engine.block_manager.cache.entry_of[PageId(1)].token_ids = (1, 2, 3, 3)
        found = look(lab)
        assert {(5, 1, None), (9, 1, None)} == places(found)
        assert look_slowly(lab) == places(found)


def test_a_lookup_map_that_finds_a_page_under_anothers_prefix_is_named() -> None:
    """No snapshot shows the map itself: only a later hit would."""
    lab = make_hit_lab()
    lab.engine.block_manager.cache.entry_of[PageId(1)].page_ids[PageId(5)] = None
    (found,) = look(lab)
    assert (found.rule, found.page_id) == (5, 5)
    assert "the page is listed under nothing" in found.message


@pytest.mark.parametrize("step_before", [False, True])
def test_an_entry_that_finds_the_page_of_the_next_one_is_named(step_before: bool) -> None:
    """Entry after entry, the map still lists the same pages in the same order."""
    lab = make_hit_lab()
    if step_before:
        lab.step()
    entry_of = lab.engine.block_manager.cache.entry_of
    parent, child = entry_of[PageId(0)], entry_of[PageId(1)]
    parent.page_ids[PageId(1)] = None
    child.page_ids.clear()
    assert {(5, 1, None)} == places(look(lab))


def test_an_entry_that_is_found_in_place_of_the_listed_one_is_named() -> None:
    lab = make_hit_lab()
    cache = lab.engine.block_manager.cache
    listed = cache.entry_of[PageId(1)]
    copied = Entry(listed.page_hash, listed.parent, listed.token_ids)
    copied.page_ids[PageId(1)] = None
    cache._entries[listed.page_hash] = copied
    assert (5, 1, None) in places(look(lab))


def test_a_page_that_two_entries_find_is_named() -> None:
    lab = make_hit_lab()
    entry_of = lab.engine.block_manager.cache.entry_of
    entry_of[PageId(0)].page_ids[PageId(1)] = None
    [found] = look(lab)
    assert (found.rule, found.page_id) == (5, 1)


def test_forks_of_an_aborted_request_that_go_on_are_named() -> None:
    lab = CheckedEngine(EngineConfig(num_pages=8, block_size=4))
    parent = lab.engine.submit([1, 2, 3], max_new_tokens=9, forced_ids=[1] * 9)
    lab.step()
    child = lab.engine.fork(parent, forced_ids=[2] * 8)
    lab.step()
    sequence = lab.engine.sequences.get(parent)
    lab.engine.scheduler.discard(sequence)
    sequence.finish(FinishReason.ABORTED)
    lab.engine.block_manager.release(parent)
    assert (12, table(lab.engine.snapshot(), child)[0], child) in places(look(lab))


# ---- events that tell of what must not happen ---------------------------------------------------


class EditingChecker(LiveChecker):
    """Hears other events than those that were emitted."""

    edit: Callable[[list[Event]], list[Event]] | None = None

    def check(self, engine: Audited) -> list[Violation]:
        if self.edit is not None:
            self._events[:] = self.edit([as_event(emitted) for emitted in self._events])
        return super().check(engine)


@pytest.mark.parametrize(
    ("scheduled", "written", "rule"),
    [
        (SequenceScheduled(B, 9, 0), None, 10),
        (SequenceScheduled(B, 9, 2), SlotsWritten(B, 9, 2), 10),
        (SequenceScheduled(B, 8, 1), SlotsWritten(B, 8, 1), 10),
        (SequenceScheduled(B, 9, 1), SlotsWritten(B, 9, 2), 11),
        (SequenceScheduled(B, 9, 1), SlotsWritten(B, 10, 1), 11),
        (SequenceScheduled(B, 7, 2), SlotsWritten(B, 7, 2), 6),
    ],
)
def test_events_that_break_a_rule_are_named_as_the_slow_rules_name_them(
    scheduled: SequenceScheduled, written: SlotsWritten | None, rule: int
) -> None:
    def edit(events: list[Event]) -> list[Event]:
        edited: list[Event] = []
        for event in events:
            if isinstance(event, SequenceScheduled) and event.seq_id == B:
                edited.append(scheduled)
            elif isinstance(event, SlotsWritten) and event.seq_id == B:
                edited += [] if written is None else [written]
            else:
                edited.append(event)
        return edited

    checker = EditingChecker()
    told: list[Emitted] = []
    engine = Engine(EngineConfig(num_pages=8, block_size=4), None, told.append, checker)
    for last in (2, 3):
        engine.submit([*PREFIX, last], max_new_tokens=4, forced_ids=[0, 1, 2, 3])
    engine.step()
    before = engine.snapshot()
    told.clear()
    checker.edit = edit
    engine.step()
    events = [as_event(e) for e in told if not isinstance(e, InvariantViolated)]
    slow = check_step(before, edit(events), engine.snapshot())
    assert rule in {violation.rule for violation in checker.violations}
    # Fills that these events do not add up to are named too.
    assert places(slow) <= places(checker.violations)
    assert {v.rule for v in checker.violations} - {v.rule for v in slow} <= {4, 5}


# ---- random damage ------------------------------------------------------------------------------


def damage_something(rng: random.Random, engine: Engine) -> None:
    pool, manager = engine.block_manager.pool, engine.block_manager
    tables = [manager.page_table(s.id) for s in engine.sequences]
    held = [table for table in tables if table.page_ids]
    page_id = rng.randrange(pool.total_count)
    what = rng.randrange(8)
    if what == 0:
        pool.ref_counts[page_id] += rng.choice((-1, 1))
    elif what == 1:
        pool.generations[page_id] += 1
    elif what == 2 and pool.queue:
        pool.queue.popitem(last=rng.random() < 0.5)
    elif what == 3:
        pool.queue[PageId(page_id)] = None
    elif what == 4 and held:
        rng.choice(held).page_ids[-1] = PageId(page_id)
    elif what == 5 and held:
        rng.choice(held).append(PageId(page_id), pool.generations[page_id])
    elif what == 6 and manager.cache.entry_of:
        entry = rng.choice(list(manager.cache.entry_of.values()))
        entry.token_ids = (*entry.token_ids[:-1], rng.randrange(5))
    elif what == 7 and held:
        sequence = rng.choice([s for s in engine.sequences if s.is_active])
        sequence.token_ids[rng.randrange(len(sequence.token_ids))] = rng.randrange(5)


@pytest.mark.parametrize("seed", range(60))
def test_random_damage_is_named_as_the_slow_rules_name_it(seed: int) -> None:
    rng = random.Random(seed)
    config = EngineConfig(
        num_pages=10,
        block_size=rng.choice((2, 3, 4)),
        full_prompt_gate=False,
        max_tokens_per_step=12,
        prefix_caching=rng.random() < 0.8,
    )
    lab = CheckedEngine(config)
    for _ in range(4):
        prompt = [0, 1, 2, 0][: rng.randrange(5)] + [rng.randrange(4) for _ in range(3)]
        lab.submit(prompt, [rng.randrange(4) for _ in range(rng.randrange(3, 12))])
        lab.step()
    if lab.engine.scheduler.running and rng.random() < 0.5:
        lab.engine.fork(lab.engine.scheduler.running[0].id, forced_ids=[1] * 20)
        lab.step()
    for _ in range(rng.randrange(1, 4)):
        damage_something(rng, lab.engine)
    # Without a step, those that wait have not been asked.
    assert {p for p in places(look(lab)) if p[0] != 7} == {p for p in look_slowly(lab) if p[0] != 7}


# ---- telling ------------------------------------------------------------------------------------


def test_a_violation_is_told_once_after_the_steps_other_events_and_the_engine_goes_on() -> None:
    told: list[Emitted] = []
    engine = Engine(EngineConfig(num_pages=4, block_size=4), None, told.append, LiveChecker())
    engine.submit([1, 2, 3], max_new_tokens=6, forced_ids=[1] * 6)
    engine.step()
    leaked = engine.block_manager.pool.alloc_page()
    told.clear()
    engine.step()
    assert isinstance(told[-1], InvariantViolated)
    assert (told[-1].rule, told[-1].page_id, told[-1].seq_id) == (2, leaked, None)
    assert told[-1].message == "p1 has ref_count 1, 0 page tables hold it"
    while engine.has_unfinished:
        engine.step()
    assert [type(event) for event in told].count(InvariantViolated) == 1
    assert [(v.rule, v.page_id) for v in engine.checker.violations] == [(2, leaked)]  # type: ignore[attr-defined]


def test_an_engine_without_a_checker_tells_nothing() -> None:
    told: list[Emitted] = []
    engine = Engine(EngineConfig(num_pages=4, block_size=4), None, told.append)
    engine.submit([1, 2, 3], max_new_tokens=6, forced_ids=[1] * 6)
    engine.step()
    engine.block_manager.pool.alloc_page()
    engine.step()
    assert not any(isinstance(event, InvariantViolated) for event in told)


def test_a_checker_works_without_a_listener() -> None:
    checker = LiveChecker()
    engine = Engine(EngineConfig(num_pages=4, block_size=4), checker=checker)
    engine.submit([1, 2, 3], max_new_tokens=6, forced_ids=[1] * 6)
    engine.step()
    assert checker.violations == []
    engine.block_manager.pool.alloc_page()
    engine.step()
    assert [violation.rule for violation in checker.violations] == [2]


def test_a_copy_of_an_engine_is_checked_by_itself() -> None:
    told: list[Emitted] = []
    copy_told: list[Emitted] = []
    emit, copy_emit = told.append, copy_told.append
    engine = Engine(EngineConfig(num_pages=4, block_size=4), None, emit, LiveChecker())
    engine.submit([1, 2, 3], max_new_tokens=6, forced_ids=[1] * 6)
    engine.step()
    copied = copy_engine(engine, emit, copy_emit)
    told.clear()
    copied.block_manager.pool.alloc_page()
    copied.step()
    assert told == [] and isinstance(copy_told[-1], InvariantViolated)
    engine.step()
    assert copy_told[:-1] == told and told


def test_more_arrivals_keep_a_stall_from_being_the_end() -> None:
    for more_arrivals in (False, True):
        checker = LiveChecker()
        checker.more_arrivals = more_arrivals
        config = EngineConfig(num_pages=2, block_size=4, reject_impossible=False)
        engine = Engine(config, checker=checker)
        engine.submit([1] * 12, max_new_tokens=1, forced_ids=[1])
        engine.step()
        assert [v.rule for v in checker.violations] == ([] if more_arrivals else [7])


def test_a_long_message_is_cut() -> None:
    told: list[Emitted] = []
    config = EngineConfig(num_pages=4, block_size=512, max_tokens_per_step=2000)
    engine = Engine(config, None, told.append, LiveChecker())
    engine.submit([1] * 513, max_new_tokens=1, forced_ids=[1])
    engine.step()
    engine.block_manager.cache.entry_of[PageId(0)].token_ids = (2,) * 512
    engine.step()
    violated = [event for event in told if isinstance(event, InvariantViolated)]
    assert {event.rule for event in violated} == {5, 9}
    assert max(len(event.message) for event in violated) == MAX_MESSAGE


# ---- steps that raise ---------------------------------------------------------------------------


class Overplanning(Scheduler):
    """Plans one token more than is known of a new sequence, while it is told to."""

    is_wrong = True

    def _count_wanted(self, sequence: Sequence, start: int, budget: int) -> int:
        return super()._count_wanted(sequence, start, budget) + self.is_wrong


def test_what_a_step_has_broken_before_it_raises_is_told_and_the_error_goes_on() -> None:
    told: list[Emitted] = []
    profile = PROFILES["vllm"]._replace(scheduler=Overplanning)
    config, checker = EngineConfig(num_pages=8, block_size=4), LiveChecker()
    engine = Engine(config, None, told.append, checker, profile=profile)
    engine.submit([1, 2, 3, 4, 5], max_new_tokens=3, forced_ids=[1] * 3)
    with pytest.raises(IllegalTransition, match="cannot advance by 6 tokens"):
        engine.step()
    assert isinstance(told[-1], InvariantViolated)
    assert (told[-1].rule, told[-1].seq_id) == (10, A)
    assert told[-1].message == (
        "seq:0 is scheduled for 6 tokens after 0 computed ones, 5 are known"
    )
    assert [violation.rule for violation in checker.violations] == [10]
    assert checker.last_cost_us is not None


def test_after_a_step_that_raised_the_next_one_is_checked_without_a_start() -> None:
    told: list[Emitted] = []
    checker = LiveChecker()
    profile = PROFILES["vllm"]._replace(scheduler=Overplanning)
    engine = Engine(
        EngineConfig(num_pages=8, block_size=4), None, told.append, checker, profile=profile
    )
    assert isinstance(engine.scheduler, Overplanning)
    engine.scheduler.is_wrong = False
    engine.submit([1, 2, 3, 4, 5], max_new_tokens=9, forced_ids=[1] * 9)
    engine.step()
    engine.scheduler.is_wrong = True
    engine.submit([3, 2, 3, 4, 5], max_new_tokens=3, forced_ids=[1] * 3)
    with pytest.raises(IllegalTransition):
        engine.step()
    assert [(v.rule, v.seq_id) for v in checker.violations] == [(10, B)]
    engine.scheduler.is_wrong = False
    engine.abort(SeqId(B))
    engine.step()
    assert checker.violations == []
    engine.block_manager.pool.ref_counts[7] = 1
    engine.step()
    assert (2, 7) in {(v.rule, v.page_id) for v in checker.violations}


def test_a_paused_checker_says_nothing_about_a_step_that_raises() -> None:
    told: list[Emitted] = []
    checker = LiveChecker()
    profile = PROFILES["vllm"]._replace(scheduler=Overplanning)
    engine = Engine(EngineConfig(num_pages=8), None, told.append, checker, profile=profile)
    checker.pause()
    engine.submit([1, 2, 3], max_new_tokens=3, forced_ids=[1] * 3)
    with pytest.raises(IllegalTransition):
        engine.step()
    assert checker.violations == [] and checker.last_cost_us is None


# ---- what attention reads -----------------------------------------------------------------------


class Overreading(ChainModel):
    """Tells that it has read a slot more than was asked of it."""

    def forward(self, *arguments: Any, reads: list[int] | None = None, **options: Any) -> Any:
        logits = super().forward(*arguments, reads=reads, **options)
        if reads is not None:
            reads[-1] += 1
        return logits


def test_a_read_behind_the_scheduled_tokens_is_named_with_the_page_it_hits() -> None:
    told: list[Emitted] = []
    engine = Engine(
        EngineConfig(num_pages=8, block_size=4), Overreading(), told.append, LiveChecker()
    )
    engine.submit([1, 2, 3, 1, 2], max_new_tokens=1)
    engine.step()
    violated = [event for event in told if isinstance(event, InvariantViolated)]
    assert [(event.rule, event.page_id, event.seq_id) for event in violated] == [
        (11, None, A),
        (11, 1, A),
    ]
    assert [event.message for event in violated] == [
        "attention of seq:0 reads 6 slots, 5 are computed or scheduled",
        "attention of seq:0 reads 2 slots of its page 1 (p1), 1 are written",
    ]


# ---- pausing ------------------------------------------------------------------------------------


def test_a_paused_checker_finds_nothing_and_afterwards_checks_the_state_again() -> None:
    lab = make_lab()
    assert lab.checker.last_cost_us is not None and lab.checker.last_cost_us > 0
    num_checked, total_us = lab.checker.num_checked, lab.checker.total_cost_us
    assert num_checked == lab.engine.num_steps and total_us >= lab.checker.last_cost_us
    lab.checker.pause()
    assert lab.checker.is_paused
    lab.engine.step()
    assert lab.checker.last_cost_us is None
    assert (lab.checker.num_checked, lab.checker.total_cost_us) == (num_checked, total_us)
    lab.engine.block_manager.pool.ref_counts[6] = 1
    lab.engine.step()
    assert lab.checker.violations == []
    lab.checker.resume()
    lab.engine.submit([*PREFIX, 1], max_new_tokens=2, forced_ids=[1, 1])
    lab.engine.step()
    assert {(v.rule, v.page_id) for v in lab.checker.violations} == {(1, 6), (2, 6)}
    lab.engine.block_manager.pool.ref_counts[6] = 0
    lab.engine.step()
    assert lab.checker.violations == []


# ---- big pools ----------------------------------------------------------------------------------


def test_the_coverage_is_said() -> None:
    coverage = {}
    for num_pages in (64, FULL_UP_TO, 4 * FULL_UP_TO):
        checker = LiveChecker()
        engine = Engine(EngineConfig(num_pages=num_pages, block_size=4), checker=checker)
        engine.submit([1, 2, 3], max_new_tokens=3, forced_ids=[1, 2, 3])
        engine.step()
        coverage[num_pages] = checker.coverage
    assert coverage == {64: "full", 1000: "full", 4000: "1 of 4 steps"}


def test_in_a_big_pool_damage_is_found_after_a_few_steps() -> None:
    checker = LiveChecker()
    engine = Engine(EngineConfig(num_pages=4 * FULL_UP_TO, block_size=4), checker=checker)
    for number in range(6):
        engine.submit([number, 2, 3], max_new_tokens=20, forced_ids=[1] * 20)
    for _ in range(9):
        engine.step()
        assert checker.violations == []
    engine.block_manager.pool.ref_counts[3999] = 1
    found = []
    for _ in range(4):
        engine.step()
        found.append([violation.rule for violation in checker.violations])
    assert [1, 2] in found
