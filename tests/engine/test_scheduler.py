"""Who is computed, admitted, deferred and preempted, with the page ids and queues of each step."""

from __future__ import annotations

from typing import Any

import pytest

from pagedviz.engine import EngineConfig, SeqId, StepOutcome
from pagedviz.engine.events import (
    AdmissionDeferred,
    PageHashed,
    PageShared,
    PrefixLookedUp,
    SequenceAdmitted,
    SequenceFinished,
    SequencePreempted,
    StateChanged,
)
from tests.engine.kit import ChainModel, CheckedEngine, of_type, table

A, B, C, D = 0, 1, 2, 3


def make(**settings: Any) -> CheckedEngine:
    return CheckedEngine(EngineConfig(**{"num_pages": 8, "block_size": 4, **settings}))


def planned(outcome: StepOutcome) -> dict[int, int]:
    """seq_id -> tokens of this step, in the order of the plan."""
    plan = outcome.plan
    ids = [int(sequence.id) for sequence in plan.sequences]
    return dict(zip(ids, plan.num_tokens, strict=True))


def deferrals(lab: CheckedEngine) -> list[AdmissionDeferred]:
    return of_type(lab.all_events[-1], AdmissionDeferred)


def prompt(first: int, count: int) -> list[int]:
    """Tokens that no other prompt of a test has."""
    return list(range(first * 100, first * 100 + count))


# ---- prefill, decode, budget -------------------------------------------------------------------


def test_a_page_is_taken_in_the_step_that_needs_its_first_slot() -> None:
    lab = make()
    lab.submit(prompt(1, 4), [1, 2, 3])
    assert lab.step().sampled == [1]
    assert table(lab.after, A) == [0]  # token 5 is known, but its K/V is not computed yet
    lab.step()
    assert table(lab.after, A) == [0, 1]
    assert lab.after.free_queue == (2, 3, 4, 5, 6, 7)


def test_a_whole_prompt_is_computed_in_one_step_if_the_budget_allows() -> None:
    lab = make(max_tokens_per_step=10)
    lab.submit(prompt(1, 10), [1, 2])
    outcome = lab.step()
    assert (planned(outcome), outcome.sampled) == ({A: 10}, [1])
    assert lab.after.sequence(A).state == "decoding"


def test_a_prompt_longer_than_the_budget_is_computed_in_chunks_that_end_anywhere() -> None:
    lab = make(max_tokens_per_step=5)
    lab.submit(prompt(1, 12), [1, 2])
    steps = []
    for _ in range(4):
        outcome = lab.step()
        sequence = lab.after.sequence(A)
        steps.append((planned(outcome)[A], outcome.sampled, table(lab.after, A), sequence.state))
    assert steps == [
        (5, [None], [0, 1], "prefilling"),
        (5, [None], [0, 1, 2], "prefilling"),
        (2, [1], [0, 1, 2], "decoding"),
        (1, [2], [], "finished"),
    ]


def test_chunk_size_limits_each_prompt_and_the_budget_all_together() -> None:
    lab = make(max_tokens_per_step=8, chunk_size=3)
    for first in (1, 2, 3):
        lab.submit(prompt(first, 7), [1, 2])
    assert planned(lab.step()) == {A: 3, B: 3, C: 2}
    assert planned(lab.step()) == {A: 3, B: 3, C: 2}
    assert planned(lab.step()) == {A: 1, B: 1, C: 3}


def test_decodes_go_first_and_a_prefill_takes_what_the_budget_leaves() -> None:
    lab = make(max_tokens_per_step=8)
    lab.submit(prompt(1, 3), [1] * 4)
    lab.submit(prompt(2, 3), [2] * 4)
    lab.step()
    lab.submit(prompt(3, 10), [3, 3])
    assert planned(lab.step()) == {A: 1, B: 1, C: 6}
    assert planned(lab.step()) == {A: 1, B: 1, C: 4}
    assert lab.after.sequence(C).generated_ids == (3,)


def test_a_prefill_in_front_of_a_decode_takes_its_turn_first() -> None:
    lab = make(max_tokens_per_step=4)
    lab.submit(prompt(1, 6), [1] * 3)
    lab.submit(prompt(2, 1), [2] * 3)
    assert planned(lab.step()) == {A: 4}
    assert planned(lab.step()) == {A: 2, B: 1}
    assert planned(lab.step()) == {A: 1, B: 1}


def test_a_running_sequence_waits_a_step_when_the_budget_is_used_up() -> None:
    lab = make(max_tokens_per_step=2)
    for first in (1, 2, 3):
        lab.submit(prompt(first, 1), [first] * 3)
    assert planned(lab.step()) == {A: 1, B: 1}
    assert planned(lab.step()) == {A: 1, B: 1}
    assert deferrals(lab) == [AdmissionDeferred(C, "budget", 1, 6)]
    assert planned(lab.step()) == {A: 1, B: 1}
    assert planned(lab.step()) == {C: 1}


def test_sequences_finish_in_the_order_of_the_plan() -> None:
    lab = make()
    for first in (1, 2, 3):
        lab.submit(prompt(first, 2), [1])
    assert lab.step().finished == [A, B, C]
    assert lab.after.free_queue == (2, 1, 0, 3, 4, 5, 6, 7)


def test_a_step_with_nothing_to_do_is_a_step() -> None:
    lab = make()
    for count in (1, 2):
        outcome = lab.step()
        assert (planned(outcome), outcome.sampled, outcome.finished) == ({}, [], [])
        assert lab.all_events[-1] == []
        assert lab.engine.num_steps == lab.after.num_steps == count
    assert not lab.engine.has_unfinished and not lab.engine.is_stalled


# ---- sharing -----------------------------------------------------------------------------------


def test_requests_of_one_step_share_the_pages_that_the_first_of_them_computes() -> None:
    lab = make()
    lab.submit([*prompt(1, 8), 1], [1, 1])
    lab.submit([*prompt(1, 8), 2, 3], [2, 2])
    assert planned(lab.step()) == {A: 9, B: 2}
    assert (table(lab.after, A), table(lab.after, B)) == ([0, 1, 2], [0, 1, 3])
    assert [lab.after.pages[i].ref_count for i in range(4)] == [2, 2, 1, 1]
    names = [(type(event).__name__, getattr(event, "page_id", None)) for event in lab.all_events[0]]
    assert names.index(("PageHashed", 1)) < names.index(("PageShared", 0))


def test_a_half_computed_prompt_shares_the_pages_it_has_completed() -> None:
    lab = make(max_tokens_per_step=6)
    lab.submit(prompt(1, 11), [1])
    lab.step()  # p0 whole, p1 half
    lab.submit(prompt(1, 11), [1])
    assert planned(lab.step()) == {A: 5, B: 1}
    # B finds p1 too: A completes it in this very step.
    assert of_type(lab.all_events[-1], PageShared) == [
        PageShared(0, 2, B, 0),
        PageShared(1, 2, B, 1),
    ]
    assert table(lab.after, B) == [0, 1, 3]


def test_a_decode_page_is_hashed_in_the_step_that_computes_its_last_slot() -> None:
    lab = make()
    lab.submit(prompt(1, 3), [1, 2, 3, 4])
    lab.step()
    assert lab.after.cached_page_ids == ()
    lab.step()  # computes token 3, the last of p0
    assert [e.page_id for e in lab.all_events[-1] if isinstance(e, PageHashed)] == [0]


def test_adapters_never_share_pages() -> None:
    lab = make()
    for adapter in (None, "a", "b", "a"):
        lab.submit(prompt(1, 5), [1, 1], adapter=adapter)
    lab.step()
    assert [table(lab.after, i)[0] for i in (A, B, C, D)] == [0, 2, 4, 2]


# ---- admission and its refusals ----------------------------------------------------------------


def test_deferred_for_pages_the_first_chunk_does_not_fit() -> None:
    lab = make(num_pages=4)
    lab.submit(prompt(1, 11), [1] * 3)
    lab.submit(prompt(2, 7), [2] * 3)
    lab.step()
    assert deferrals(lab) == [AdmissionDeferred(B, "pages", 2, 1)]
    assert (lab.after.running, lab.after.waiting) == ((A,), (B,))


def test_deferred_by_the_full_prompt_gate_and_admitted_without_it() -> None:
    for gate in (True, False):
        lab = make(num_pages=4, max_tokens_per_step=12, full_prompt_gate=gate)
        lab.submit(prompt(1, 8), [1] * 2)
        lab.submit(prompt(2, 12), [2] * 2)
        lab.step()  # 8 tokens in p0 p1; 4 more fit the budget and p2, all 12 need three pages
        if gate:
            assert deferrals(lab) == [AdmissionDeferred(B, "full_prompt_gate", 3, 2)]
            assert lab.after.running == (A,)
        else:
            assert deferrals(lab) == []
            assert (lab.after.running, table(lab.after, B)) == ((A, B), [2])


def test_the_gate_reserves_nothing() -> None:
    """It lets B in when all its tokens fit; a page that A takes later is missing all the same."""
    lab = make(num_pages=4, max_tokens_per_step=8)
    lab.submit(prompt(1, 4), [1] * 2)
    lab.submit(prompt(2, 12), [2] * 2)
    lab.step()
    assert (lab.after.running, table(lab.after, B)) == ((A, B), [1])
    lab.step()  # A takes p2, and p3 is not enough for the 7 tokens that B is due
    assert of_type(lab.all_events[-1], SequencePreempted) == [SequencePreempted(B, B, 4)]


def test_the_watermark_keeps_pages_free_at_admissions_while_something_runs() -> None:
    lab = make(num_pages=9, watermark=0.3)  # int(0.3 * 10) = 3 pages
    lab.submit(prompt(1, 14), [1] * 2)
    lab.submit(prompt(2, 10), [2] * 2)
    lab.step()
    # A needs 4 of 9 and nothing runs: let in. B needs 3, and 3 must stay free: 6 of 5.
    assert lab.after.running == (A,)
    assert deferrals(lab) == [AdmissionDeferred(B, "watermark", 6, 5)]
    lab.step()  # running sequences may go below it; A finishes
    assert lab.after.running == ()
    lab.step()
    assert lab.after.running == (B,)


def test_deferred_for_max_running() -> None:
    lab = make(max_running=2)
    for first in (1, 2, 3):
        lab.submit(prompt(first, 5), [first] * 2)
    lab.step()
    assert deferrals(lab) == [AdmissionDeferred(C, "max_running", 2, 4)]
    assert (lab.after.running, lab.after.waiting) == ((A, B), (C,))
    lab.step()  # A and B finish after C was considered
    assert (lab.after.running, lab.after.waiting) == ((), (C,))
    assert planned(lab.step()) == {C: 5}


def test_deferred_for_the_budget() -> None:
    lab = make(max_tokens_per_step=5)
    lab.submit(prompt(1, 5), [1] * 2)
    lab.submit(prompt(2, 5), [2] * 2)
    lab.step()
    assert deferrals(lab) == [AdmissionDeferred(B, "budget", 2, 6)]


def test_the_head_of_the_queue_is_never_overtaken() -> None:
    lab = make(num_pages=4)
    lab.submit(prompt(1, 9), [1] * 3)
    lab.submit(prompt(2, 8), [2])
    lab.submit(prompt(3, 1), [3])  # would fit
    lab.step()
    assert deferrals(lab) == [AdmissionDeferred(B, "pages", 2, 1)]
    assert (lab.after.running, lab.after.waiting) == ((A,), (B, C))


def test_hits_that_somebody_owns_need_no_page_and_idle_ones_do() -> None:
    lab = make(num_pages=4)
    lab.submit(prompt(1, 9), [1] * 2)  # p0 p1 p2, one page free
    lab.submit([*prompt(1, 8), 7, 7], [2] * 2)
    lab.step()  # p0 and p1 are hit while owned: one page is enough
    assert (lab.after.running, table(lab.after, B)) == ((A, B), [0, 1, 3])
    lab.finish()
    assert lab.after.free_queue == (3, 2, 1, 0)
    lab.submit(prompt(5, 7), [5] * 2)
    lab.submit([*prompt(1, 8), 8, 8], [2] * 2)
    lab.step()  # C takes p3 p2; p1 and p0 are hit while they wait in the queue: three pages of two
    assert table(lab.after, C) == [3, 2]
    assert deferrals(lab) == [AdmissionDeferred(D, "pages", 3, 2)]
    # A lookup that led to nothing has changed nothing.
    assert lab.after.free_queue == (1, 0)
    assert lab.after.pages[0].ref_count == 0


def test_a_refused_head_is_refused_again_every_step_but_its_lookup_is_told_once() -> None:
    lab = make(num_pages=4)
    lab.submit(prompt(1, 11), [1] * 3)
    lab.submit(prompt(2, 7), [2] * 3)
    lab.step()
    lab.step()
    assert deferrals(lab) == [AdmissionDeferred(B, "pages", 2, 1)]
    lookups = [of_type(events, PrefixLookedUp) for events in lab.all_events]
    assert [len([e for e in found if e.seq_id == B]) for found in lookups] == [1, 0]


def test_an_impossible_request_blocks_the_queue_when_it_is_not_rejected() -> None:
    lab = make(num_pages=2, reject_impossible=False)
    lab.submit(prompt(1, 9))
    lab.submit(prompt(2, 1))
    for _ in range(3):
        assert planned(lab.step(may_stall=True)) == {}
        assert deferrals(lab) == [AdmissionDeferred(A, "pages", 3, 2)]
        assert lab.engine.is_stalled
    lab.engine.abort(SeqId(A))
    assert planned(lab.step()) == {B: 1}


def test_a_request_that_just_fits_is_served_to_its_last_token() -> None:
    """The last sampled token needs no slot: 5 + 4 tokens live in two pages of four."""
    lab = make(num_pages=2)
    lab.submit(prompt(1, 5), [1] * 4)
    lab.finish()
    assert lab.after.sequence(A).generated_ids == (1, 1, 1, 1)


# ---- preemption --------------------------------------------------------------------------------


def pressed() -> CheckedEngine:
    """Three sequences of a full page each, four pages; step 1 needs three pages and has one."""
    lab = make(num_pages=4)
    for first in (1, 2, 3):
        lab.submit(prompt(first, 4), [first] * 4)
    lab.step()
    assert [table(lab.after, i) for i in (A, B, C)] == [[0], [1], [2]]
    assert lab.after.free_queue == (3,)
    return lab


def test_the_last_running_sequence_is_preempted_and_waits_in_front() -> None:
    lab = pressed()
    lab.submit(prompt(4, 1), [4])
    outcome = lab.step()
    # A takes p3. B finds none: C gives up p2, cached, and B evicts it at once.
    assert planned(outcome) == {A: 1, B: 1}
    assert outcome.plan.preempted == [C]
    assert [table(lab.after, i) for i in (A, B, C)] == [[0, 3], [1, 2], []]
    assert (lab.after.running, lab.after.waiting) == ((A, B), (C, D))
    assert of_type(lab.all_events[-1], SequencePreempted) == [SequencePreempted(C, B, 4)]
    assert StateChanged(C, "preempted") in lab.all_events[-1]
    # After a preemption nobody is admitted in this step, not even D, who would need no page more.
    assert deferrals(lab) == [AdmissionDeferred(C, "preempting_step", 2, 0)]
    preempted = lab.after.sequence(C)
    assert (preempted.num_computed, preempted.num_preemptions) == (0, 1)
    assert preempted.generated_ids == (3,)


def test_of_several_victims_the_last_preempted_waits_first() -> None:
    lab = make(num_pages=5, max_tokens_per_step=20)
    lab.submit(prompt(1, 6), [1] * 8)
    lab.submit(prompt(2, 4), [2] * 8)
    lab.submit(prompt(3, 4), [3] * 8)
    lab.step()
    assert [table(lab.after, i) for i in (A, B, C)] == [[0, 1], [2], [3]]
    lab.step()  # B takes p4; C finds none and is itself the last
    assert (lab.after.running, lab.after.waiting) == ((A, B), (C,))
    lab.step()
    lab.step()  # A needs its third page: p3, cached by C, is taken
    assert table(lab.after, A) == [0, 1, 3]
    lab.step()
    assert lab.after.waiting == (C,)
    lab.step()  # B needs its third page: it is the last running one
    assert (lab.after.running, lab.after.waiting) == ((A,), (B, C))


def test_a_sequence_can_only_preempt_itself_when_it_is_the_last() -> None:
    lab = make(num_pages=2)
    lab.submit(prompt(1, 4), [1] * 3)
    lab.submit(prompt(2, 4), [2] * 3)
    lab.step()
    outcome = lab.step()
    # A preempts B for its second page.
    assert of_type(lab.all_events[-1], SequencePreempted) == [SequencePreempted(B, A, 4)]
    assert planned(outcome) == {A: 1}
    lab = make(num_pages=3)
    lab.submit(prompt(1, 5), [1] * 3)
    lab.submit(prompt(2, 4), [2] * 3)
    lab.step()
    outcome = lab.step()
    assert of_type(lab.all_events[-1], SequencePreempted) == [SequencePreempted(B, B, 4)]
    assert planned(outcome) == {A: 1}
    assert lab.after.waiting == (B,)


def test_nothing_that_was_scheduled_in_a_step_is_undone_in_it() -> None:
    lab = pressed()
    outcome = lab.step()
    scheduled = {int(sequence.id) for sequence in outcome.plan.sequences}
    assert not scheduled & set(outcome.plan.preempted)


def test_a_resumed_sequence_hits_what_is_left_of_its_own_pages() -> None:
    lab = make(num_pages=4)
    lab.submit(prompt(1, 6), [1] * 3)  # two pages to the end
    lab.submit(prompt(2, 8), [2] * 4)  # two full pages, then a third
    lab.step()
    assert (table(lab.after, A), table(lab.after, B)) == ([0, 1], [2, 3])
    lab.step()  # B needs a third page, is the last itself, and leaves p2 and p3 cached
    assert of_type(lab.all_events[-1], SequencePreempted) == [SequencePreempted(B, B, 8)]
    assert lab.after.free_queue == (3, 2)
    lab.step()
    assert deferrals(lab) == [AdmissionDeferred(B, "pages", 3, 2)]
    assert lab.after.free_queue == (3, 2, 1, 0)  # A has finished
    outcome = lab.step()
    # Nine tokens are known, prompt and the one generated; eight are in p2 and p3.
    assert of_type(lab.all_events[-1], SequenceAdmitted) == [SequenceAdmitted(B, 8)]
    assert planned(outcome) == {B: 1}
    assert table(lab.after, B) == [2, 3, 1]
    assert lab.after.sequence(B).state == "decoding"
    lab.finish()
    assert lab.after.sequence(B).generated_ids == (2, 2, 2, 2)


def test_a_resumed_sequence_whose_pages_are_gone_computes_and_hashes_them_again() -> None:
    lab = pressed()
    lab.step()  # C loses p2 to B, who writes into it: nothing of C is cached any more
    for _ in range(2):
        lab.step()
    assert (lab.after.running, lab.after.sequence(C).state) == ((), "preempted")
    outcome = lab.step()
    assert of_type(lab.all_events[-1], SequenceAdmitted) == [SequenceAdmitted(C, 0)]
    assert planned(outcome) == {C: 5}
    hashed = of_type(lab.all_events[-1], PageHashed)
    assert [(event.page_id, event.logical_index) for event in hashed] == [
        (table(lab.after, C)[0], 0)
    ]


def test_after_a_preemption_the_tokens_are_those_without_one() -> None:
    model = ChainModel()
    prompts = [[0, 0, 0, 1], [0, 1, 1, 2], [1, 0, 1, 1]]
    lab = CheckedEngine(EngineConfig(num_pages=4, block_size=4), model)
    for tokens in prompts:
        lab.engine.submit(tokens, max_new_tokens=9)
    lab.finish()
    assert sum(view.num_preemptions for view in lab.after.sequences) >= 2
    for view, tokens in zip(lab.after.sequences, prompts, strict=True):
        assert list(view.generated_ids) == model.continuation(tokens, 9)


# ---- abort -------------------------------------------------------------------------------------


def test_aborting_releases_pages_at_once_and_opens_the_next_step_with_its_events() -> None:
    lab = make()
    lab.submit(prompt(1, 9), [1] * 3)
    lab.submit(prompt(2, 5), [2] * 3)
    lab.step()
    lab.engine.abort(SeqId(A))
    state = lab.engine.snapshot()
    assert state.free_queue == (2, 5, 6, 7, 1, 0)
    assert state.running == (B,)
    lab.step()
    assert lab.all_events[-1][:2] == [SequenceFinished(A, "aborted"), StateChanged(A, "finished")]
    assert lab.after.sequence(A).finish_reason == "aborted"


def test_a_waiting_or_preempted_sequence_can_be_aborted() -> None:
    lab = pressed()
    lab.submit(prompt(4, 1), [4])
    lab.step()
    assert lab.after.waiting == (C, D)
    lab.engine.abort(SeqId(D))
    lab.engine.abort(SeqId(C))
    lab.finish()
    lab.assert_all_is_free()
    assert [view.finish_reason for view in lab.after.sequences] == [
        "max_length",
        "max_length",
        "aborted",
        "aborted",
    ]


# ---- how sequences end -------------------------------------------------------------------------


def test_the_context_limit_ends_a_sequence() -> None:
    lab = make(max_seq_len=6)
    lab.submit(prompt(1, 4), [1] * 9)
    lab.finish()
    assert lab.after.sequence(A).token_ids == (*prompt(1, 4), 1, 1)
    assert lab.after.sequence(A).finish_reason == "max_length"


@pytest.mark.parametrize("caching", [True, False])
@pytest.mark.parametrize("chunk_size", [None, 1, 3])
def test_the_tokens_do_not_depend_on_caching_or_chunks(
    caching: bool, chunk_size: int | None
) -> None:
    model = ChainModel()
    config = EngineConfig(
        num_pages=9, block_size=3, prefix_caching=caching, chunk_size=chunk_size, max_running=3
    )
    lab = CheckedEngine(config, model)
    prompts = [[0, 1, 2, 0, 1, 2, last] for last in range(4)] + [[0, 1, 2, 0, 1, 2]] * 2
    for tokens in prompts:
        lab.engine.submit(tokens, max_new_tokens=8)
        lab.step()
    lab.finish()
    for view, tokens in zip(lab.after.sequences, prompts, strict=True):
        assert list(view.generated_ids) == model.continuation(tokens, 8)
