"""Each rule names the one corruption it forbids, with both numbers, and is silent otherwise."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

import pytest

from pagedviz.engine import EngineConfig, Snapshot
from pagedviz.engine.events import (
    Event,
    PageEvicted,
    PageHashed,
    PrefixLookedUp,
    SequenceScheduled,
    SequenceSubmitted,
    SlotsWritten,
    TokenSampled,
)
from pagedviz.engine.invariants import (
    RULES,
    Violation,
    check_snapshot,
    check_step,
)
from pagedviz.engine.prefix_cache import SharedPrefixCache
from pagedviz.trace.reducer import Reducer
from tests.engine.kit import CheckedEngine, table

A, B, C = 0, 1, 2
PREFIX = [1, 2, 3, 4, 5, 6, 7, 8]


@pytest.fixture(scope="module")
def lab() -> CheckedEngine:
    """After step 1: A holds p0 p1 p2, B shares p0 p1 and holds p3, p4 to p7 are free.

    Both have computed 10 tokens and know 11; the tails p2 and p3 have 2 of 4 slots filled.
    """
    lab = CheckedEngine(EngineConfig(num_pages=8, block_size=4))
    lab.submit([*PREFIX, 9], [30, 31, 32, 33])
    lab.submit([*PREFIX, 20], [40, 41, 42, 43])
    lab.step()
    lab.step()
    assert table(lab.after, A) == [0, 1, 2]
    assert table(lab.after, B) == [0, 1, 3]
    assert [page.fill for page in lab.after.pages] == [4, 4, 2, 2, 0, 0, 0, 0]
    return lab


@pytest.fixture(scope="module")
def hit_lab() -> CheckedEngine:
    """A has finished and left p0 and p1 cached; in the last step C hit p0 and added p3 after it."""
    lab = CheckedEngine(EngineConfig(num_pages=8, block_size=4))
    lab.submit([*PREFIX, 9])
    lab.step()
    lab.submit([1, 2, 3, 4, 50], [60, 61])
    lab.step()
    assert table(lab.after, 1) == [0, 2]
    assert lab.after.cached_page_ids == (0, 1)
    return lab


def rules_of(violations: Iterable[Violation]) -> set[int]:
    return {violation.rule for violation in violations}


def only(violations: list[Violation]) -> Violation:
    """The one violation there is, which must name two numbers."""
    assert len(violations) == 1, "\n".join(map(str, violations))
    assert len(re.findall(r"\d+", violations[0].message)) >= 2, violations[0].message
    assert violations[0].name == RULES[violations[0].rule].name
    return violations[0]


def with_page(snapshot: Snapshot, page_id: int, **changes: Any) -> Snapshot:
    pages = list(snapshot.pages)
    pages[page_id] = pages[page_id]._replace(**changes)
    return snapshot._replace(pages=tuple(pages))


def with_sequence(snapshot: Snapshot, seq_id: int, **changes: Any) -> Snapshot:
    return snapshot._replace(
        sequences=tuple(
            view._replace(**changes) if view.seq_id == seq_id else view
            for view in snapshot.sequences
        )
    )


def without(queue: tuple[int, ...], page_id: int) -> tuple[int, ...]:
    return tuple(other for other in queue if other != page_id)


def replaced(events: Iterable[Event], **by_name: list[Event]) -> list[Event]:
    """The events with those of B replaced, by the name of their type."""
    result: list[Event] = []
    for event in events:
        name = type(event).__name__
        if name in by_name and getattr(event, "seq_id", None) == B:
            result += by_name[name]
        else:
            result.append(event)
    return result


def test_the_table_has_rules_1_to_7_and_9_to_12_each_with_a_sentence() -> None:
    assert list(RULES) == [1, 2, 3, 4, 5, 6, 7, 9, 10, 11, 12]
    assert len({rule.name for rule in RULES.values()}) == len(RULES)
    assert all(rule.sentence[0].isupper() and rule.sentence[-1] == "." for rule in RULES.values())


def test_a_healthy_state_and_step_break_nothing(lab: CheckedEngine, hit_lab: CheckedEngine) -> None:
    for healthy in (lab, hit_lab):
        assert check_snapshot(healthy.after) == []
        assert check_step(healthy.before, healthy.all_events[-1], healthy.after) == []


def test_a_violation_prints_its_rule_and_its_sentence() -> None:
    violation = Violation(2, RULES[2].name, "p3 has ref_count 2, 1 page tables hold it", 3)
    assert str(violation) == "rule 2 (ref counts): p3 has ref_count 2, 1 page tables hold it"


# ---- rule 1 ----------------------------------------------------------------------------------


def test_rule_1_names_a_page_that_is_queued_twice(lab: CheckedEngine) -> None:
    violation = only(check_snapshot(lab.after._replace(free_queue=(4, 5, 6, 7, 5))))
    assert (violation.rule, violation.page_id) == (1, 5)


def test_rule_1_names_a_page_that_nobody_owns_and_no_queue_holds(lab: CheckedEngine) -> None:
    violation = only(check_snapshot(lab.after._replace(free_queue=(4, 5, 7))))
    assert (violation.rule, violation.page_id) == (1, 6)


def test_rule_1_names_a_queued_page_that_the_pool_does_not_have(lab: CheckedEngine) -> None:
    violation = only(check_snapshot(lab.after._replace(free_queue=(4, 5, 6, 7, 8))))
    assert (violation.rule, violation.page_id) == (1, 8)


# ---- rule 2 ----------------------------------------------------------------------------------


def test_rule_2_names_a_ref_count_that_differs_from_the_tables(lab: CheckedEngine) -> None:
    for ref_count in (1, 3):
        violation = only(check_snapshot(with_page(lab.after, 0, ref_count=ref_count)))
        assert (violation.rule, violation.page_id) == (2, 0)
        assert f"ref_count {ref_count}, 2 page tables" in violation.message


def test_rule_2_names_a_page_kept_by_a_count_without_an_owner(lab: CheckedEngine) -> None:
    leaked = with_page(lab.after, 5, ref_count=1, generation=1)
    leaked = leaked._replace(free_queue=without(leaked.free_queue, 5))
    violation = only(check_snapshot(leaked))
    assert (violation.rule, violation.page_id) == (2, 5)


def test_rule_2_counts_a_table_that_holds_a_page_twice_once(lab: CheckedEngine) -> None:
    doubled = with_sequence(lab.after, A, page_ids=(0, 1, 1))
    assert 2 not in rules_of(check_snapshot(with_page(doubled, 2, ref_count=0)))
    assert 2 in rules_of(check_snapshot(with_page(doubled, 1, ref_count=3)))


# ---- rule 3 ----------------------------------------------------------------------------------


def test_rule_3_names_a_table_whose_page_was_handed_out_again(lab: CheckedEngine) -> None:
    violation = only(check_snapshot(with_page(lab.after, 3, generation=2)))
    assert (violation.rule, violation.page_id, violation.seq_id) == (3, 3, B)
    assert "p3.1" in violation.message and "p3.2" in violation.message


def test_rule_3_names_a_table_that_points_at_a_free_page(lab: CheckedEngine) -> None:
    freed = with_page(lab.after, 3, ref_count=0, fill=0)._replace(free_queue=(3, 4, 5, 6, 7))
    violations = check_snapshot(freed)
    # The page is also counted wrong and emptied under its owner.
    assert rules_of(violations) == {2, 3, 4}
    assert [(v.page_id, v.seq_id) for v in violations if v.rule == 3] == [(3, B)]


def test_rule_3_names_a_table_that_points_at_a_cached_page(hit_lab: CheckedEngine) -> None:
    after = with_sequence(hit_lab.after, 1, page_ids=(1, 2), generations=(1, 1))
    after = with_page(with_page(after, 0, ref_count=0), 1, ref_count=1)
    assert 3 in rules_of(check_snapshot(after))


def test_rule_3_names_a_table_with_a_page_that_does_not_exist(lab: CheckedEngine) -> None:
    lost = with_sequence(lab.after, B, page_ids=(0, 1, 8))
    lost = with_page(lost, 3, ref_count=0, fill=0)._replace(free_queue=(3, 4, 5, 6, 7))
    violation = only(check_snapshot(lost))
    assert (violation.rule, violation.page_id, violation.seq_id) == (3, 8, B)


def test_rule_3_names_a_table_with_a_generation_missing(lab: CheckedEngine) -> None:
    violation = only(check_snapshot(with_sequence(lab.after, B, generations=(1, 1))))
    assert (violation.rule, violation.seq_id) == (3, B)


# ---- rule 4 ----------------------------------------------------------------------------------


def test_rule_4_names_a_table_with_a_page_too_many(lab: CheckedEngine) -> None:
    held = with_page(lab.after, 4, ref_count=1, generation=1)
    held = with_sequence(held, B, page_ids=(0, 1, 3, 4), generations=(1, 1, 1, 1))
    violation = only(check_snapshot(held._replace(free_queue=(5, 6, 7))))
    assert (violation.rule, violation.seq_id) == (4, B)
    assert "holds 4 pages, its 10" in violation.message


def test_rule_4_names_a_table_with_a_page_too_few(lab: CheckedEngine) -> None:
    short = with_sequence(lab.after, B, page_ids=(0, 1), generations=(1, 1))
    short = with_page(short, 3, ref_count=0, fill=0)._replace(free_queue=(3, 4, 5, 6, 7))
    violation = only(check_snapshot(short))
    assert (violation.rule, violation.seq_id) == (4, B)


@pytest.mark.parametrize("fill", [1, 3, 5])
def test_rule_4_names_a_fill_that_differs_from_what_is_computed(
    lab: CheckedEngine, fill: int
) -> None:
    violation = only(check_snapshot(with_page(lab.after, 3, fill=fill)))
    assert (violation.rule, violation.page_id) == (4, 3)


def test_rule_4_names_a_free_page_that_is_not_empty(lab: CheckedEngine) -> None:
    violation = only(check_snapshot(with_page(lab.after, 6, fill=1)))
    assert (violation.rule, violation.page_id) == (4, 6)


# ---- rule 5 ----------------------------------------------------------------------------------


def test_rule_5_names_an_owner_whose_tokens_are_not_the_pages(lab: CheckedEngine) -> None:
    violations = check_snapshot(with_page(lab.after, 1, token_ids=(5, 6, 99, 8)))
    assert rules_of(violations) == {5}
    assert [(v.page_id, v.seq_id) for v in violations] == [(1, A), (1, B)]
    assert "slot 2 of p1 holds token 99, token 6 of seq:0 is 7" in violations[0].message


def test_rule_5_names_a_hash_of_another_prefix_with_the_same_page(lab: CheckedEngine) -> None:
    other = SharedPrefixCache.compute_prefix_hash([9, 9, 9, 9, 5, 6, 7, 8])
    violations = check_snapshot(with_page(lab.after, 1, page_hash=other))
    assert rules_of(violations) == {5}
    assert f"{other:016x}" in violations[0].message


def test_rule_5_names_a_page_of_another_adapter(lab: CheckedEngine) -> None:
    violations = check_snapshot(with_sequence(lab.after, B, adapter="sql"))
    assert rules_of(violations) == {5}
    assert [(v.page_id, v.seq_id) for v in violations] == [(0, B), (1, B)]


def test_rule_5_names_a_cached_page_whose_content_nobody_ever_submitted(
    hit_lab: CheckedEngine,
) -> None:
    for changes in ({"token_ids": (5, 6, 7, 9)}, {"page_hash": 12345}):
        violation = only(check_snapshot(with_page(hit_lab.after, 1, **changes)))
        assert (violation.rule, violation.page_id) == (5, 1)


def test_rule_5_names_a_findable_page_that_is_not_full(hit_lab: CheckedEngine) -> None:
    violation = only(check_snapshot(with_page(hit_lab.after, 1, fill=3)))
    assert (violation.rule, violation.page_id) == (5, 1)


def test_rule_5_names_a_findable_page_without_its_tokens(hit_lab: CheckedEngine) -> None:
    violation = only(check_snapshot(with_page(hit_lab.after, 1, token_ids=(5, 6, 7))))
    assert (violation.rule, violation.page_id) == (5, 1)


# ---- rule 6 ----------------------------------------------------------------------------------


def test_rule_6_names_a_second_write_into_a_hashed_page(lab: CheckedEngine) -> None:
    # As if the step before had ended inside p1: its last slot is written once more.
    before = with_sequence(lab.before, B, num_computed=7)
    events = replaced(
        lab.all_events[-1],
        SequenceScheduled=[SequenceScheduled(B, 7, 2)],
        SlotsWritten=[SlotsWritten(B, 7, 2)],
    )
    violation = only(check_step(before, events, lab.after))
    assert (violation.rule, violation.page_id, violation.seq_id) == (6, 1, B)
    assert "from slot 3 on" in violation.message and "first 4 slots" in violation.message


def test_rule_6_lets_the_first_write_follow_the_hash() -> None:
    # Decoding: p0 is hashed in the step that computes its last slot, before that slot is written.
    lab = CheckedEngine(EngineConfig(num_pages=4, block_size=4))
    lab.submit([1, 2, 3], [4, 5, 6])
    lab.step()
    lab.step()
    names = [type(event).__name__ for event in lab.all_events[-1]]
    assert names.index("PageHashed") < names.index("SlotsWritten")


# ---- rule 7 ----------------------------------------------------------------------------------


def test_rule_7_names_the_head_of_a_queue_that_will_never_move() -> None:
    lab = CheckedEngine(EngineConfig(num_pages=2, block_size=4, reject_impossible=False))
    lab.submit([1] * 12)
    lab.submit([2])
    lab.step(may_stall=True)
    events = lab.all_events[-1]
    violation = only(check_step(lab.before, events, lab.after))
    assert (violation.rule, violation.seq_id) == (7, 0)
    assert "2 sequences wait, 0 run" in violation.message
    assert check_step(lab.before, events, lab.after, more_arrivals=True) == []


def test_rule_7_is_silent_while_the_queue_is_empty_or_something_moved() -> None:
    lab = CheckedEngine(EngineConfig(num_pages=3, block_size=4))
    lab.step()  # nobody waits
    first = lab.submit([1] * 12)
    lab.submit([2] * 12)
    lab.step()  # the first finishes in this step: nothing runs, one waits, pages became free
    assert lab.after.running == () and lab.after.waiting == (first + 1,)


# ---- rule 9 ----------------------------------------------------------------------------------


def test_rule_9_names_a_hit_that_wiped_the_hash(hit_lab: CheckedEngine) -> None:
    wiped = with_page(hit_lab.after, 0, page_hash=None, token_ids=())
    violation = only(check_step(hit_lab.before, hit_lab.all_events[-1], wiped))
    assert (violation.rule, violation.page_id, violation.seq_id) == (9, 0, 1)


def test_rule_9_names_a_hit_that_wiped_the_hash_and_said_so(hit_lab: CheckedEngine) -> None:
    page_hash = hit_lab.before.pages[0].page_hash
    assert page_hash is not None
    events: list[Event] = []
    for event in hit_lab.all_events[-1]:
        if type(event).__name__ == "PageShared":
            events.append(PageEvicted(0, page_hash))
        events.append(event)
    wiped = with_page(hit_lab.after, 0, page_hash=None, token_ids=())
    violation = only(check_step(hit_lab.before, events, wiped))
    assert (violation.rule, violation.page_id, violation.seq_id) == (9, 0, 1)


def test_rule_9_names_an_untouched_page_that_left_the_map(hit_lab: CheckedEngine) -> None:
    wiped = with_page(hit_lab.after, 1, page_hash=None, token_ids=(), fill=0)
    violation = only(check_step(hit_lab.before, hit_lab.all_events[-1], wiped))
    assert (violation.rule, violation.page_id, violation.seq_id) == (9, 1, None)


def test_rule_9_names_tokens_that_changed_under_a_hash(hit_lab: CheckedEngine) -> None:
    before = with_page(hit_lab.before, 0, token_ids=(1, 2, 3, 5))
    violation = only(check_step(before, hit_lab.all_events[-1], hit_lab.after))
    assert (violation.rule, violation.page_id) == (9, 0)


# ---- rule 10 ---------------------------------------------------------------------------------


def test_rule_10_names_a_sequence_scheduled_for_nothing(lab: CheckedEngine) -> None:
    events = replaced(
        lab.all_events[-1], SequenceScheduled=[SequenceScheduled(B, 9, 0)], SlotsWritten=[]
    )
    violation = only(check_step(lab.before, events, lab.after))
    assert (violation.rule, violation.seq_id) == (10, B)
    assert "0 tokens, at least 1" in violation.message


def test_rule_10_names_a_chunk_past_the_known_tokens(lab: CheckedEngine) -> None:
    events = replaced(
        lab.all_events[-1],
        SequenceScheduled=[SequenceScheduled(B, 9, 2)],
        SlotsWritten=[SlotsWritten(B, 9, 2)],
    )
    violation = only(check_step(lab.before, events, lab.after))
    assert (violation.rule, violation.seq_id) == (10, B)
    assert "2 tokens after 9 computed ones, 10 are known" in violation.message


def test_rule_10_names_a_chunk_that_starts_somewhere_else(lab: CheckedEngine) -> None:
    events = replaced(
        lab.all_events[-1],
        SequenceScheduled=[SequenceScheduled(B, 8, 1)],
        SlotsWritten=[SlotsWritten(B, 8, 1)],
    )
    violation = only(check_step(lab.before, events, lab.after))
    assert (violation.rule, violation.seq_id) == (10, B)


def test_rule_10_adds_up_what_one_step_schedules_twice(lab: CheckedEngine) -> None:
    events = replaced(
        lab.all_events[-1],
        SequenceScheduled=[SequenceScheduled(B, 9, 1), SequenceScheduled(B, 10, 1)],
        SlotsWritten=[SlotsWritten(B, 10, 1)],
    )
    assert 10 in rules_of(check_step(lab.before, events, lab.after))


# ---- rule 11 ---------------------------------------------------------------------------------


def test_rule_11_names_a_write_past_the_plan(lab: CheckedEngine) -> None:
    events = replaced(lab.all_events[-1], SlotsWritten=[SlotsWritten(B, 9, 2)])
    violation = only(check_step(lab.before, events, lab.after))
    assert (violation.rule, violation.seq_id) == (11, B)


def test_rule_11_names_a_slot_that_is_read_and_was_never_written(lab: CheckedEngine) -> None:
    before = with_page(lab.before, 3, fill=0)
    violation = only(check_step(before, lab.all_events[-1], lab.after))
    assert (violation.rule, violation.page_id, violation.seq_id) == (11, 3, B)
    assert "reads 2 slots of its page 2 (p3), 0 are written" in violation.message


def test_rule_11_names_a_read_beyond_the_table(lab: CheckedEngine) -> None:
    before = with_sequence(lab.before, B, page_ids=(0, 1), generations=(1, 1))
    violation = only(check_step(before, lab.all_events[-1], lab.after))
    assert (violation.rule, violation.page_id, violation.seq_id) == (11, None, B)


def test_rule_11_names_owners_of_one_tail_with_different_tokens(lab: CheckedEngine) -> None:
    shared = with_page(with_page(lab.after, 2, ref_count=2), 3, ref_count=0, fill=0)
    shared = with_sequence(shared, B, page_ids=(0, 1, 2))
    shared = shared._replace(free_queue=(3, *shared.free_queue))
    violation = only(check_step(lab.before, lab.all_events[-1], shared))
    assert (violation.rule, violation.page_id, violation.seq_id) == (11, 2, B)
    assert "token 20 for seq:1 and token 9 for seq:0" in violation.message


def test_rule_11_counts_the_writes_of_the_whole_step_before_its_reads() -> None:
    # B hits pages that A fills in the same step.
    lab = CheckedEngine(EngineConfig(num_pages=8, block_size=4))
    lab.submit([*PREFIX, 9], [30, 31])
    lab.submit([*PREFIX, 20], [40, 41])
    lab.step()
    writes = [event for event in lab.all_events[-1] if isinstance(event, SlotsWritten)]
    assert writes == [SlotsWritten(A, 0, 9), SlotsWritten(B, 8, 1)]
    swapped = [event for event in lab.all_events[-1] if event not in writes]
    place = next(i for i, event in enumerate(swapped) if isinstance(event, TokenSampled))
    swapped[place:place] = writes[::-1]
    assert check_step(lab.before, swapped, lab.after) == []


# ---- traces of other engines -----------------------------------------------------------------


def test_tokens_that_a_foreign_trace_does_not_tell_are_not_held_against_it(
    hit_lab: CheckedEngine,
) -> None:
    """The same run without prompts, sampled tokens, and with hashes of another make."""
    reducer = Reducer(8, 4)
    before = reducer.snapshot()
    for events in hit_lab.all_events:
        foreign: list[Event] = []
        for event in events:
            if isinstance(event, SequenceSubmitted):
                event = event._replace(prompt_ids=())
            elif isinstance(event, TokenSampled):
                event = event._replace(token_id=None)
            elif hasattr(event, "page_hash"):
                event = event._replace(page_hash=event.page_hash ^ 0xABCDEF)
            foreign.append(event)
            reducer.apply(event)
        reducer.end_step()
        after = reducer.snapshot()
        assert after.sequences[0].token_ids[0] is None
        assert check_step(before, foreign, after) == []
        # What does not depend on tokens is still checked.
        assert rules_of(check_snapshot(with_page(after, 7, ref_count=1))) == {1, 2}
        before = after


# ---- rules and other engines ------------------------------------------------------------------


def test_rule_10_names_a_lookup_that_leaves_nothing_to_schedule(hit_lab: CheckedEngine) -> None:
    events = [
        event._replace(num_tokens=5, page_ids=(0, 1))
        if isinstance(event, PrefixLookedUp)
        else event
        for event in hit_lab.all_events[-1]
    ]
    violation = only(check_step(hit_lab.before, events, hit_lab.after))
    assert (violation.rule, violation.seq_id) == (10, 1)
    assert "found 5 of its 5 tokens" in violation.message


def test_rule_9_allows_a_newer_equal_page_to_take_over_a_hash(hit_lab: CheckedEngine) -> None:
    page_hash, tokens = 77, (1, 2, 3, 4)
    first, superseded = PageHashed(5, page_hash, 1, 1), PageEvicted(5, page_hash)
    second = PageHashed(6, page_hash, 1, 1)
    after = with_page(hit_lab.after, 6, page_hash=page_hash, token_ids=tokens, fill=4)
    events = [*hit_lab.all_events[-1], first, superseded, second]
    assert 9 not in rules_of(check_step(hit_lab.before, events, after))


def test_rule_4_allows_the_page_reserved_for_the_newest_token(lab: CheckedEngine) -> None:
    """B has computed 8 of 9 tokens and has had three pages since its first chunk."""
    view = lab.after.sequence(B)
    reserved = with_sequence(lab.after, B, token_ids=view.token_ids[:9], num_computed=8)
    reserved = with_page(reserved, 3, fill=0)
    assert check_snapshot(reserved, reserves_prompts=True) == []
    assert rules_of(check_snapshot(reserved)) == {4}
    too_many = with_sequence(reserved, B, token_ids=view.token_ids[:8], num_computed=7)
    assert 4 in rules_of(check_snapshot(too_many, reserves_prompts=True))
