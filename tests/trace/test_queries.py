"""Questions about a run: worked examples with literal answers, whole runs against snapshots."""

from __future__ import annotations

import itertools

import pytest

from pagedviz.engine.errors import TraceFormatError
from pagedviz.engine.events import (
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
from pagedviz.trace.costs import (
    Admission,
    PreemptionCost,
    admissions,
    hit_rate,
    preemption_cost,
    resumes,
)
from pagedviz.trace.header import TraceHeader
from pagedviz.trace.queries import Phase, host_pool, last_tables, occupancy, page_history, phases
from pagedviz.trace.trace import Moment, StepRecord, Trace
from tests.trace.runs import bookkeeping_run


@pytest.fixture
def story() -> Trace:
    """Four pages of two slots. seq 0 (3 prompt tokens, 2 new) runs, is preempted by seq 1, comes
    back hitting its first page, and finishes."""
    steps = [
        (
            SequenceSubmitted(0, "a", 3, 2, (7, 8, 9)),
            SequenceSubmitted(1, "b", 1, 5, (4,)),
            PrefixLookedUp(0, 0, "never_seen", position=0),
            PageAllocated(0, 1, 0, 0),
            PageAllocated(1, 1, 0, 1),
            PageHashed(0, 0xAB, 0, 0),
            SequenceAdmitted(0),
            StateChanged(0, "prefilling"),
            SequenceScheduled(0, 0, 3),
            PrefixLookedUp(1, 0, "prompt_shorter_than_a_page"),
            PageAllocated(2, 1, 1, 0),
            SequenceAdmitted(1),
            StateChanged(1, "prefilling"),
            SequenceScheduled(1, 0, 1),
            SlotsWritten(0, 0, 3),
            SlotsWritten(1, 0, 1),
            TokenSampled(0, 5),
            StateChanged(0, "decoding"),
            TokenSampled(1, 6),
            StateChanged(1, "decoding"),
        ),
        (
            SequencePreempted(0, 1, 3),
            StateChanged(0, "preempted"),
            PageReleased(1, 0, 0, 3),
            PageReleased(0, 0),
            SequenceScheduled(1, 1),
            SlotsWritten(1, 1),
            TokenSampled(1, 6),
        ),
        (),
        (
            PrefixLookedUp(0, 2, "full_hit", (0,)),
            PageShared(0, 1, 0, 0),
            PageAllocated(1, 2, 0, 1),
            SequenceAdmitted(0, 2),
            StateChanged(0, "prefilling"),
            SequenceScheduled(0, 2, 2),
            SlotsWritten(0, 2, 2),
            TokenSampled(0, 5),
            SequenceFinished(0, "max_length"),
            StateChanged(0, "finished"),
            PageReleased(1, 0, 0, 3),
            PageReleased(0, 0),
        ),
        (
            SequenceFinished(1, "aborted"),
            StateChanged(1, "finished"),
            PageReleased(2, 1, 0, 1),
            PageEvicted(0, 0xAB),
        ),
    ]
    return Trace(TraceHeader(4, 2), [StepRecord(events) for events in steps])


def test_occupancy_counts_pages_waste_and_what_one_piece_would_have_taken(story: Trace) -> None:
    found = occupancy(story)
    assert found.active.tolist() == [3, 1, 1, 1, 0]
    assert found.cached.tolist() == [0, 1, 1, 1, 0]
    assert found.free.tolist() == [1, 2, 2, 2, 4]
    # Pages 1 and 2 hold one token each; then page 2 is full.
    assert found.waste.tolist() == [2, 0, 0, 0, 0]
    # 5 slots for seq 0 and 6 for seq 1, in pages of 2.
    assert found.contiguous.tolist() == [6, 3, 3, 3, 0]
    assert found.references.tolist() == [3, 1, 1, 1, 0]
    assert found.host.tolist() == [0, 0, 0, 0, 0]


def test_phases_show_in_which_state_each_step_was_computed(story: Trace) -> None:
    assert phases(story) == {
        0: (
            Phase("prefilling", 0, 0),
            Phase("preempted", 1, 2),
            Phase("prefilling", 3, 3),
            Phase("finished", 4, 4),
        ),
        1: (Phase("prefilling", 0, 0), Phase("decoding", 1, 3), Phase("finished", 4, 4)),
    }


def test_page_history_is_the_story_of_a_page(story: Trace) -> None:
    assert [(entry.moment, type(entry.event).__name__) for entry in page_history(story, 1)] == [
        (Moment(0, 5), "PageAllocated"),
        (Moment(0, 15), "SlotsWritten"),
        (Moment(1, 3), "PageReleased"),
        (Moment(3, 3), "PageAllocated"),
        (Moment(3, 7), "SlotsWritten"),
        (Moment(3, 11), "PageReleased"),
    ]
    assert page_history(story, 3) == ()


def test_hits_of_resumed_sequences_are_counted_apart(story: Trace) -> None:
    assert admissions(story) == (
        Admission(0, 0, 3, 0, False),
        Admission(0, 1, 1, 0, False),
        Admission(3, 0, 4, 2, True),
    )
    assert hit_rate(story) == (4, 0, 4, 2)
    assert hit_rate(story).rate == 0.0


def test_a_disabled_cache_has_no_hit_rate() -> None:
    trace = bookkeeping_run(seed=2, prefix_caching=False).trace
    assert admissions(trace) == ()
    assert hit_rate(trace).rate is None


def test_preemption_costs_what_is_not_found_again(story: Trace) -> None:
    assert preemption_cost(story) == PreemptionCost(1, 3, 2, 0)
    assert preemption_cost(story).num_recomputed == 1
    before_the_resume = Trace(story.header, story.steps[:3])
    assert preemption_cost(before_the_resume) == PreemptionCost(1, 3, 0, 3)
    assert preemption_cost(before_the_resume).num_recomputed == 0


def test_a_resume_says_what_is_computed_again() -> None:
    for seed in (1, 2, 4):
        trace, _ = bookkeeping_run(seed)
        back, cost = resumes(trace), preemption_cost(trace)
        assert sum(resume.num_recomputed for resume in back) == cost.num_recomputed
        assert sum(resume.num_rehit for resume in back) == cost.num_rehit
        for resume in back:
            step, event = resume.moment
            assert event is not None
            sequence = trace.at(step, event).sequence(resume.seq_id)
            assert sequence.num_preemptions
            assert resume.num_rehit <= sequence.num_cached


def test_the_last_table_is_what_the_snapshot_before_the_finish_shows() -> None:
    for seed in (1, 2, 4):
        trace, _ = bookkeeping_run(seed)
        tables = last_tables(trace)
        finished = 0
        for step, record in enumerate(trace.steps):
            for number, event in enumerate(record.events):
                if isinstance(event, SequenceFinished):
                    finished += 1
                    before = trace.at(step, number)
                    pages = before.sequence(event.seq_id).page_ids
                    labels = tuple(before.pages[page_id].label for page_id in pages)
                    assert tables[event.seq_id] == labels
        assert len(tables) == finished > 0


@pytest.mark.parametrize("preemption", ["recompute", "swap"])
@pytest.mark.parametrize("seed", [1, 2, 4])
def test_occupancy_of_a_run_is_what_the_snapshots_show(seed: int, preemption: str) -> None:
    trace, snapshots = bookkeeping_run(seed, prefix_caching=seed != 2, preemption=preemption)
    found = occupancy(trace)
    assert (host_pool(trace) is not None) == (preemption == "swap") == bool(found.host.any())
    assert (found.references > found.active).any()
    for step, snapshot in enumerate(snapshots):
        states = [page.state for page in snapshot.pages]
        assert found.active[step] == states.count("active")
        assert found.cached[step] == states.count("cached")
        assert found.free[step] == states.count("free")
        assert found.waste[step] == sum(
            snapshot.block_size - page.fill for page in snapshot.pages if page.ref_count
        )
        assert found.references[step] == sum(page.ref_count for page in snapshot.pages)
        assert found.references[step] == sum(len(view.page_ids) for view in snapshot.sequences)
        assert found.host[step] == sum(len(view.host_page_ids) for view in snapshot.sequences)
        slots = [
            view.num_prompt_tokens + view.max_new_tokens
            for view in map(snapshot.sequence, snapshot.running)
        ]
        assert found.contiguous[step] == sum(-(-n // snapshot.block_size) for n in slots)


@pytest.mark.parametrize("seed", [1, 3])
def test_phases_of_a_run_cover_every_step_from_the_submission_on(seed: int) -> None:
    trace, snapshots = bookkeeping_run(seed)
    first_seen = {
        view.seq_id: snapshot.num_steps - 1
        for snapshot in reversed(snapshots)
        for view in snapshot.sequences
    }
    found = phases(trace)
    assert list(found) == [view.seq_id for view in snapshots[-1].sequences]
    for seq_id, lane in found.items():
        assert lane[0].first_step == first_seen[seq_id]
        assert lane[-1].last_step == trace.num_steps - 1
        for before, after in itertools.pairwise(lane):
            assert after.first_step == before.last_step + 1
            assert after.state != before.state
    for step, snapshot in enumerate(snapshots):
        for view in snapshot.sequences:
            state = next(p.state for p in found[view.seq_id] if p.first_step <= step <= p.last_step)
            if not any(
                isinstance(event, SequenceScheduled) and event.seq_id == view.seq_id
                for event in trace.events(step)
            ):
                assert state == view.state


@pytest.mark.parametrize("seed", [1, 2])
def test_page_history_has_every_moment_at_which_a_page_differs(seed: int) -> None:
    trace = bookkeeping_run(seed, num_steps=30, prefix_caching=seed != 2).trace
    moments = {
        page.page_id: {entry.moment for entry in page_history(trace, page.page_id)}
        for page in trace.initial.pages
    }
    for step in range(trace.num_steps):
        for number in range(1, trace.num_events(step) + 1):
            before, after = trace.at(step, number - 1), trace.at(step, number)
            for old, new in zip(before.pages, after.pages, strict=True):
                if old != new:
                    assert (step, number) in moments[old.page_id]


def test_answers_follow_a_growing_trace(story: Trace) -> None:
    growing = Trace(story.header)
    assert occupancy(growing).active.tolist() == []
    for number, record in enumerate(story.steps, start=1):
        growing.append(record)
        assert occupancy(growing).active.tolist() == [3, 1, 1, 1, 0][:number]
        assert occupancy(growing) is occupancy(growing)


def test_a_trace_that_does_not_fit_together_has_no_answers() -> None:
    trace = Trace(TraceHeader(4, 2), [StepRecord((TokenSampled(0, 1),))])
    with pytest.raises(TraceFormatError, match="seq:0 was never submitted"):
        phases(trace)
