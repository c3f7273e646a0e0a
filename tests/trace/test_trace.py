"""Time travel: any moment equals folding from the start, and the engine itself after each step."""

import threading

import pytest

from pagedviz.engine.errors import MomentNotFound, TraceFormatError
from pagedviz.engine.events import PageAllocated, SequenceSubmitted, TokenSampled
from pagedviz.trace.header import TraceHeader
from pagedviz.trace.trace import Moment, StepRecord, Trace
from tests.folding import every_state
from tests.trace.runs import Run, bookkeeping_run

RUNS = {
    "tight pool": {"seed": 1},
    "no caching": {"seed": 2, "prefix_caching": False},
    "chunks": {"seed": 3, "chunk_size": 3},
    "one slot a page": {"seed": 4, "block_size": 1, "num_pages": 60, "num_steps": 44},
    "swap": {"seed": 5, "preemption": "swap"},
    "given up": {"seed": 6, "preemption": "abort"},
}


@pytest.fixture(scope="module", params=RUNS)
def run(request: pytest.FixtureRequest) -> Run:
    return bookkeeping_run(**RUNS[request.param])


def all_moments(trace: Trace) -> list[Moment]:
    return [
        Moment(step, event)
        for step in range(trace.num_steps)
        for event in (*range(trace.num_events(step) + 1), None)
    ]


def test_the_fold_is_the_engine_after_every_step(run: Run) -> None:
    assert run.trace.num_steps == len(run.snapshots)
    for step, snapshot in enumerate(run.snapshots):
        assert run.trace.at(step) == snapshot


def test_the_runs_are_worth_testing() -> None:
    words = {
        type(event).__name__
        for settings in RUNS.values()
        for record in bookkeeping_run(**settings).trace.steps
        for event in record.events
    }
    assert words == {
        "SequenceSubmitted", "PrefixLookedUp", "AdmissionDeferred", "PageEvicted",
        "PageAllocated", "PageShared", "PageHashed", "PageReleased", "SequenceAdmitted",
        "SequenceScheduled", "SequencePreempted", "SlotsWritten", "TokenSampled", "StateChanged",
        "SequenceFinished", "SequenceForked", "PageCopied", "SwappedOut", "SwappedIn",
    }  # fmt: skip


def test_every_moment_backwards_equals_the_naive_fold(run: Run) -> None:
    expected = dict(every_state(run.trace))
    for moment in reversed(all_moments(run.trace)):
        assert run.trace.at(*moment) == expected[moment], moment


def test_the_end_of_a_step_is_the_start_of_the_next(run: Run) -> None:
    trace = run.trace
    for step in range(trace.num_steps - 1):
        assert trace.at(step) == trace.at(step + 1, 0)
        assert trace.at(step)._replace(num_steps=step) == trace.at(step, trace.num_events(step))


def test_walking_gives_both_sides_of_each_step(run: Run) -> None:
    walked = list(run.trace.walk())
    assert [step.after for step in walked] == run.snapshots
    assert [step.before for step in walked[1:]] == run.snapshots[:-1]
    assert walked[0].before == run.trace.initial
    assert [step.after for step in run.trace.walk(40)] == run.snapshots[40:]


def test_a_growing_trace_can_be_asked_at_any_time(run: Run) -> None:
    grown = Trace(run.trace.header)
    assert grown.final == grown.initial
    for step, record in enumerate(run.trace.steps):
        grown.append(record)
        assert grown.at(step) == run.snapshots[step]
        assert grown.final == run.snapshots[step]
        assert grown.at(step // 2) == run.snapshots[step // 2]


def test_several_readers_get_the_same_moments() -> None:
    run = bookkeeping_run(seed=1)
    wrong: list[int] = []

    def read(offset: int) -> None:
        for step in range(60):
            place = (step * 7 + offset) % 60
            if run.trace.at(place) != run.snapshots[place]:
                wrong.append(place)

    readers = [threading.Thread(target=read, args=(offset,)) for offset in (0, 13, 31)]
    for reader in readers:
        reader.start()
    for reader in readers:
        reader.join()
    assert wrong == []


@pytest.mark.parametrize(
    ("moment", "message"),
    [
        ((60, None), "step 60 is not recorded: the trace has steps 0 to 59"),
        ((-1, None), "step -1 is not recorded"),
        ((5, -1), "step 5 has no event -1"),
        ((5, 10_000), "step 5 has no event 10000: its moments are 0 to"),
    ],
)
def test_moments_that_are_not_there_say_what_is(
    moment: tuple[int, int | None], message: str
) -> None:
    trace = bookkeeping_run(seed=1).trace
    with pytest.raises(MomentNotFound) as error:
        trace.at(*moment)
    assert message in str(error.value)


def test_an_empty_trace_has_no_moment() -> None:
    with pytest.raises(MomentNotFound, match="the trace is empty"):
        Trace(TraceHeader(4, 2)).at(0)


def test_events_that_do_not_fit_are_refused_each_time_and_what_was_before_stays() -> None:
    good = StepRecord((SequenceSubmitted(0, "a", 1, 1, (5,)),))
    bad = StepRecord((TokenSampled(0, 1), PageAllocated(9, 1, 0, 0)))
    trace = Trace(TraceHeader(4, 2), [good] * 1 + [StepRecord(())] * 40 + [bad])
    for _ in range(2):
        with pytest.raises(TraceFormatError, match="step 41, PageAllocated: page 9 does not exist"):
            trace.at(41)
    assert trace.at(40).waiting == (0,)
    assert trace.at(0).num_steps == 1


def test_the_index_of_a_large_pool_grows_with_the_events_not_with_the_pool() -> None:
    header = TraceHeader(num_pages=4096, block_size=16)
    trace = Trace(header, [StepRecord(())] * 2000)
    trace.fold()
    assert trace._mark_steps == [0]


def test_a_header_that_contradicts_its_settings_is_refused() -> None:
    settings = bookkeeping_run(seed=1, num_steps=1).trace.header.settings
    with pytest.raises(TraceFormatError, match="the header says 15 pages of 4 slots"):
        TraceHeader(15, 4, settings=settings)


def test_ids_are_plain_integers_whether_recorded_or_read() -> None:
    trace = bookkeeping_run(seed=1, num_steps=20).trace
    values = {
        type(value)
        for record in trace.steps
        for event in record.events
        for field in event
        for value in (field if isinstance(field, tuple) else (field,))
    }
    assert values == {int, str, type(None)}
    final = trace.final
    assert {type(page_id) for page_id in final.free_queue + final.running + final.waiting} == {int}
