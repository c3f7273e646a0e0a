"""The reducer on hand-made events: literal pages, queue and tables after each of them."""

import pytest

from pagedviz.engine.errors import TraceFormatError
from pagedviz.engine.events import (
    AdmissionDeferred,
    Event,
    PageAllocated,
    PageEvicted,
    PageHashed,
    PageReleased,
    PageShared,
    PrefixLookedUp,
    SequenceAdmitted,
    SequenceFinished,
    SequencePreempted,
    SequenceScheduled,
    SequenceSubmitted,
    SlotsWritten,
    StateChanged,
    TokenSampled,
)
from pagedviz.engine.snapshot import PageView, SequenceView
from pagedviz.trace.reducer import Reducer

# Two slots a page, four pages: seq 0 has prompt 7 8 9 and samples 5.
SUBMIT = SequenceSubmitted(0, "a", 3, 2, (7, 8, 9))
ADMIT = (
    SUBMIT,
    PrefixLookedUp(0, 0, "never_seen", position=0),
    PageAllocated(0, 1, 0, 0),
    PageAllocated(1, 1, 0, 1),
    PageHashed(0, 0xAB, 0, 0),
    SequenceAdmitted(0, 0),
    StateChanged(0, "prefilling"),
    SequenceScheduled(0, 0, 3),
)
WRITE = (*ADMIT, SlotsWritten(0, 0, 3), TokenSampled(0, 5), StateChanged(0, "decoding"))


def fold(events: tuple[Event, ...], num_pages: int = 4, block_size: int = 2) -> Reducer:
    reducer = Reducer(num_pages, block_size)
    for event in events:
        reducer.apply(event)
    return reducer


def test_an_untouched_pool_is_free_in_order() -> None:
    snapshot = Reducer(3, 2).snapshot()
    assert snapshot.pages == (PageView(0), PageView(1), PageView(2))
    assert snapshot.free_queue == (0, 1, 2)
    assert (snapshot.sequences, snapshot.waiting, snapshot.running) == ((), (), ())
    assert snapshot.num_steps == 0


def test_a_submitted_sequence_waits() -> None:
    snapshot = fold((SUBMIT,)).snapshot()
    assert snapshot.sequences == (SequenceView(0, "a", None, 3, 2, (7, 8, 9)),)
    assert snapshot.waiting == (0,)


def test_unknown_prompt_tokens_are_counted_all_the_same() -> None:
    snapshot = fold((SequenceSubmitted(0, "a", 3, 2), TokenSampled(0))).snapshot()
    assert snapshot.sequences[0].token_ids == (None, None, None, None)


def test_an_admitted_sequence_holds_its_pages_before_they_are_written() -> None:
    snapshot = fold(ADMIT).snapshot()
    assert snapshot.free_queue == (2, 3)
    assert snapshot.pages[:2] == (PageView(0, 1, 1, 0, 0xAB, (7, 8)), PageView(1, 1, 1))
    sequence = snapshot.sequences[0]
    assert (sequence.page_ids, sequence.generations) == ((0, 1), (1, 1))
    assert (sequence.num_computed, sequence.num_scheduled, sequence.state) == (0, 3, "prefilling")
    assert (snapshot.waiting, snapshot.running) == ((), (0,))


def test_writing_fills_the_touched_pages() -> None:
    snapshot = fold(WRITE).snapshot()
    assert [page.fill for page in snapshot.pages] == [2, 1, 0, 0]
    sequence = snapshot.sequences[0]
    assert (sequence.num_computed, sequence.num_scheduled) == (3, 0)
    assert sequence.token_ids == (7, 8, 9, 5)
    assert sequence.generated_ids == (5,)


def test_a_partial_tail_goes_to_the_front_and_is_empty_a_hashed_page_to_the_back() -> None:
    events = (
        *WRITE,
        SequenceFinished(0, "eos"),
        StateChanged(0, "finished"),
        PageReleased(1, 0, 0, queue_before=2),
        PageReleased(0, 0),
    )
    snapshot = fold(events).snapshot()
    assert snapshot.free_queue == (1, 2, 3, 0)
    assert snapshot.pages[0] == PageView(0, 1, 0, 2, 0xAB, (7, 8))
    assert snapshot.pages[1] == PageView(1, 1)
    sequence = snapshot.sequences[0]
    assert (sequence.page_ids, sequence.finish_reason, sequence.num_computed) == ((), "eos", 3)
    assert snapshot.running == ()


CACHED = (*WRITE, SequenceFinished(0, "eos"), PageReleased(1, 0, 0, 2), PageReleased(0, 0))


def test_a_hit_takes_a_page_out_of_the_middle_of_the_queue_with_its_generation() -> None:
    events = (
        *CACHED,
        SequenceSubmitted(1, "b", 3, 1, (7, 8, 1)),
        PageShared(0, 1, 1, 0),
        SequenceAdmitted(1, 2),
    )
    snapshot = fold(events).snapshot()
    assert snapshot.free_queue == (1, 2, 3)
    assert snapshot.pages[0] == PageView(0, 1, 1, 2, 0xAB, (7, 8))
    sequence = snapshot.sequences[1]
    assert (sequence.page_ids, sequence.generations) == ((0,), (1,))
    assert (sequence.num_computed, sequence.num_cached) == (2, 2)


def test_an_evicted_page_is_empty_and_still_in_the_queue() -> None:
    snapshot = fold((*CACHED, PageEvicted(0, 0xAB))).snapshot()
    assert snapshot.pages[0] == PageView(0, 1)
    assert snapshot.free_queue == (1, 2, 3, 0)


def test_a_preempted_sequence_waits_at_the_front_and_keeps_what_it_generated() -> None:
    events = (
        *WRITE,
        SequenceSubmitted(1, "b", 1, 1, (4,)),
        SequencePreempted(0, 0, 3),
        StateChanged(0, "preempted"),
        PageReleased(1, 0, 0, 2),
        PageReleased(0, 0),
    )
    snapshot = fold(events).snapshot()
    assert (snapshot.waiting, snapshot.running) == ((0, 1), ())
    sequence = snapshot.sequences[0]
    assert (sequence.num_computed, sequence.num_preemptions) == (0, 1)
    assert sequence.token_ids == (7, 8, 9, 5)


def test_snapshots_share_what_did_not_change() -> None:
    reducer = fold(WRITE)
    first = reducer.snapshot()
    reducer.apply(SequenceSubmitted(1, "b", 1, 1, (4,)))
    second = reducer.snapshot()
    assert second.sequences[0] is first.sequences[0]
    assert second.pages[0] is first.pages[0]
    assert second.free_queue is first.free_queue


def test_folding_goes_on_from_any_snapshot() -> None:
    for place in range(len(CACHED)):
        resumed = Reducer.from_snapshot(fold(CACHED[:place]).snapshot())
        for event in CACHED[place:]:
            resumed.apply(event)
        assert resumed.snapshot() == fold(CACHED).snapshot()


@pytest.mark.parametrize(
    ("before", "event", "message"),
    [
        ((), TokenSampled(3, 1), "seq:3 was never submitted"),
        ((), AdmissionDeferred(3, "pages", 1, 0), "seq:3 was never submitted"),
        ((SUBMIT,), SUBMIT, "seq:0 is submitted a second time"),
        ((), SequenceSubmitted(0, "a", 3, 1, (1, 2)), "says 3 prompt tokens and lists 2"),
        ((SUBMIT,), PrefixLookedUp(0, 2, "full_hit", (9,)), "page 9 does not exist"),
        ((SUBMIT,), PageAllocated(4, 1, 0, 0), "page 4 does not exist: the pool has 4 pages"),
        ((SUBMIT,), PageAllocated(0, 1, 0, 1), "p0 becomes page 1 of seq:0, which holds 0 pages"),
        (ADMIT, PageAllocated(1, 2, 0, 2), "not in the free queue (ref_count 1)"),
        (
            (*CACHED, SequenceSubmitted(1, "b", 1, 1)),
            PageAllocated(0, 2, 1, 0),
            "it must be evicted first",
        ),
        (ADMIT, PageHashed(1, 1, 0, 0), "p1 is hashed as page 0 of seq:0, which is p0"),
        (ADMIT, PageHashed(1, 1, 0, 2), "p1 is hashed as page 2 of seq:0, which has 2 pages"),
        (ADMIT, PageReleased(0, 0), "seq:0 releases p0, but its last page is p1"),
        ((SUBMIT,), PageReleased(0, 0), "seq:0 releases p0, but it holds no page"),
        (ADMIT, PageReleased(1, 0, 0, 1), "joins the free queue before p1, which is not in it"),
        (ADMIT, SequenceAdmitted(0), "seq:0 is admitted but is not waiting"),
        ((SUBMIT,), SequencePreempted(0, 0, 0), "seq:0 is preempted but is not running"),
        (ADMIT, SequencePreempted(0, 5, 0), "seq:5 was never submitted"),
        (ADMIT, SlotsWritten(0, 3, 2), "tokens 3 to 4 of seq:0 have no slot"),
        (CACHED, SequenceFinished(0, "eos"), "finished but is not running or waiting"),
    ],
)
def test_an_event_that_cannot_apply_is_refused_and_changes_nothing(
    before: tuple[Event, ...], event: Event, message: str
) -> None:
    reducer = fold(before)
    snapshot = reducer.snapshot()
    with pytest.raises(TraceFormatError) as error:
        reducer.apply(event)
    assert message in str(error.value)
    assert reducer.snapshot() == snapshot
