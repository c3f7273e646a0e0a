"""Events tell the whole story: folded they are the engine's own state, in an order in which things
happen, and the same program tells the same story everywhere."""

from __future__ import annotations

import gzip
import json
import os
import random
import subprocess
import sys
from pathlib import Path

import pytest

from pagedviz.engine import EngineConfig, SeqId
from pagedviz.engine.engine import Engine
from pagedviz.engine.errors import TraceFormatError
from pagedviz.engine.events import (
    EVENT_TYPES,
    AdmissionDeferred,
    Emitted,
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
    as_event,
)
from pagedviz.engine.live_checker import LiveChecker
from pagedviz.engine.prefix_cache import SharedPrefixCache
from pagedviz.scenarios.workload import Workload, load_workload, parse_workload
from pagedviz.trace.reducer import Reducer
from tests.engine.kit import ChainModel, CheckedEngine

ROOT = Path(__file__).resolve().parents[2]
HASH = SharedPrefixCache.compute_prefix_hash


def run_busy_program(lab: CheckedEngine) -> None:
    """Chunks, hits, evictions, preemptions, an abort, two adapters, an idle step."""
    rng = random.Random(3)
    for number in range(12):
        prompt = [0, 1, 2, 0, 1, 2][: rng.randint(0, 6)] + [
            rng.randrange(3) for _ in range(rng.randint(1, 5))
        ]
        outputs = [rng.randrange(3) for _ in range(rng.randint(1, 9))]
        lab.submit(prompt, outputs, adapter="a" if number % 4 == 3 else None, name=f"p{number}")
        if number % 2:
            lab.step()
    lab.engine.abort(SeqId(7))
    lab.finish()
    lab.step()


def busy() -> CheckedEngine:
    # Budget and chunks so small that prompts need several steps, pages so few that they fight.
    config = EngineConfig(
        num_pages=7, block_size=3, max_tokens_per_step=9, chunk_size=4, full_prompt_gate=False
    )
    lab = CheckedEngine(config)
    run_busy_program(lab)
    return lab


@pytest.fixture(scope="module")
def lab() -> CheckedEngine:
    return busy()


# ---- one step, event by event ------------------------------------------------------------------


def test_the_events_of_a_run_in_full() -> None:
    lab = CheckedEngine(EngineConfig(num_pages=3, block_size=2))
    lab.submit([1, 2, 3], [4, 5], name="first")
    lab.step()
    assert lab.all_events[0] == [
        SequenceSubmitted(0, "first", 3, 2, (1, 2, 3)),
        PrefixLookedUp(0, 0, "never_seen", position=0),
        PageAllocated(0, 1, 0, 0),
        PageAllocated(1, 1, 0, 1),
        PageHashed(0, HASH([1, 2]), 0, 0),
        SequenceAdmitted(0, 0),
        StateChanged(0, "prefilling"),
        SequenceScheduled(0, 0, 3),
        SlotsWritten(0, 0, 3),
        StateChanged(0, "decoding"),
        TokenSampled(0, 4),
    ]
    lab.submit([1, 2, 8, 9], [6], name="second")
    lab.step()
    assert lab.all_events[1] == [
        SequenceSubmitted(1, "second", 4, 1, (1, 2, 8, 9)),
        SequenceScheduled(0, 3, 1),
        PageHashed(1, HASH([1, 2, 3, 4]), 0, 1),
        PrefixLookedUp(1, 2, "full_hit", (0,)),
        PageShared(0, 2, 1, 0),
        PageAllocated(2, 1, 1, 1),
        PageHashed(2, HASH([1, 2, 8, 9]), 1, 1),
        SequenceAdmitted(1, 2),
        StateChanged(1, "prefilling"),
        SequenceScheduled(1, 2, 2),
        SlotsWritten(0, 3, 1),
        SlotsWritten(1, 2, 2),
        TokenSampled(0, 5),
        SequenceFinished(0, "max_length"),
        StateChanged(0, "finished"),
        PageReleased(1, 0),
        PageReleased(0, 0, 1),
        StateChanged(1, "decoding"),
        TokenSampled(1, 6),
        SequenceFinished(1, "max_length"),
        StateChanged(1, "finished"),
        PageReleased(2, 1),
        PageReleased(0, 1),
    ]
    assert lab.after.free_queue == (1, 2, 0)


def test_the_order_of_a_step_is_commands_schedule_writes_samples(lab: CheckedEngine) -> None:
    """And no event comes between two writes: a step writes all K/V before any attention reads."""
    acts = {
        SequenceSubmitted: 0,
        PrefixLookedUp: 1,
        AdmissionDeferred: 1,
        PageEvicted: 1,
        PageAllocated: 1,
        PageShared: 1,
        PageHashed: 1,
        SequenceAdmitted: 1,
        SequenceScheduled: 1,
        SequencePreempted: 1,
        SlotsWritten: 2,
        TokenSampled: 3,
    }
    for events in lab.all_events:
        order = [acts[type(event)] for event in events if type(event) in acts]
        assert order == sorted(order)


def forked_and_swapped() -> CheckedEngine:
    """Two requests of three samples each in a pool too small for all, with a host pool."""
    lab = CheckedEngine(
        EngineConfig(
            num_pages=7, block_size=3, full_prompt_gate=False, preemption="swap", host_pages=9
        )
    )
    for first in (1, 2):
        lab.engine.submit(
            [first, 1, 2, 3],
            max_new_tokens=8,
            forced_ids=[first] * 8,
            num_samples=3,
            forced_forks=[[3] * 8, [4] * 8],
        )
    lab.finish()
    return lab


def told_of_a_lost_page() -> list[Event]:
    """What a checked engine emits whose pool lost a page."""
    emitted: list[Emitted] = []
    engine = Engine(EngineConfig(num_pages=4), emit=emitted.append, checker=LiveChecker())
    engine.submit([1], max_new_tokens=2, forced_ids=[1, 2])
    engine.block_manager.pool.alloc_page()
    engine.step()
    return [as_event(item) for item in emitted]


def test_three_busy_programs_emit_every_kind_of_event(lab: CheckedEngine) -> None:
    runs = [*lab.all_events, *forked_and_swapped().all_events, told_of_a_lost_page()]
    seen = {type(event) for events in runs for event in events}
    assert seen == set(EVENT_TYPES)


# ---- fold ---------------------------------------------------------------------------------------
# (CheckedEngine compares fold and snapshot after every step of every test.)


def test_a_fold_that_misses_an_event_is_not_the_snapshot(lab: CheckedEngine) -> None:
    """The comparison is worth something: leave out any event whose effect lasts to the end of the
    step, and the fold is another one or refuses."""
    silent = (PrefixLookedUp, AdmissionDeferred, SequenceScheduled, StateChanged)
    tried = 0
    for step in range(1, 12):
        events = lab.all_events[step]
        for left_out, event in enumerate(events):
            if isinstance(event, silent):
                continue
            tried += 1
            assert fold_without(lab, step, left_out) != fold_without(lab, step, None)
    assert tried > 80


def fold_without(lab: CheckedEngine, step: int, left_out: int | None) -> object:
    reducer = Reducer(lab.engine.config.num_pages, lab.engine.config.block_size)
    try:
        for number, events in enumerate(lab.all_events[: step + 1]):
            for place, event in enumerate(events):
                if number != step or place != left_out:
                    reducer.apply(event)
            reducer.end_step()
    except TraceFormatError as error:
        return str(error)
    return reducer.snapshot()


def drive(workload: Workload) -> CheckedEngine:
    """A recorded workload, checked from all sides at every step."""
    lab = CheckedEngine(workload.engine)
    arrivals = sorted(workload.requests, key=lambda request: request.arrival_step)
    while arrivals or lab.engine.has_unfinished:
        while arrivals and arrivals[0].arrival_step <= lab.engine.num_steps:
            request = arrivals.pop(0)
            lab.submit(request.prompt_ids, request.output_ids, name=request.name)
        lab.step()
    return lab


def test_the_recorded_workloads_fold_and_break_no_rule(oracle_dir: Path) -> None:
    schedulers = oracle_dir / "schedulers"
    workloads = [load_workload(path) for path in sorted((schedulers / "workloads").glob("*.json"))]
    with gzip.open(schedulers / "random40.jsonl.gz", "rt", encoding="utf-8") as file:
        workloads += [parse_workload(json.loads(line)["workload"]) for line in file][:10]
    for workload in workloads:
        drive(workload).assert_all_is_free()


# ---- determinism -------------------------------------------------------------------------------


def story(lab: CheckedEngine) -> str:
    """All events of a run as text."""
    return "\n".join(
        f"{step} {event!r}" for step, events in enumerate(lab.all_events) for event in events
    )


def test_the_same_program_gives_the_same_events_twice(lab: CheckedEngine) -> None:
    assert story(busy()) == story(lab)


@pytest.mark.parametrize("hash_seed", ["1", "4242"])
def test_the_same_program_gives_the_same_events_under_another_string_hash(
    lab: CheckedEngine, hash_seed: str
) -> None:
    code = "from tests.engine.test_engine_events import busy, story; print(story(busy()), end='')"
    environment = {**os.environ, "PYTHONHASHSEED": hash_seed, "PYTHONIOENCODING": "utf-8"}
    result = subprocess.run(
        [sys.executable, "-c", code],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    )
    assert result.stdout == story(lab)


def test_an_engine_does_the_same_whether_somebody_listens_or_not() -> None:
    def run(listens: bool) -> object:
        events: list[Emitted] = []
        config = EngineConfig(num_pages=6, block_size=3, full_prompt_gate=False)
        engine = Engine(config, ChainModel(), events.append if listens else None)
        for prompt in ([0, 0, 0, 1], [0, 1, 1, 2], [1, 0, 1, 1], [0, 0, 0, 2]):
            engine.submit(prompt, max_new_tokens=9)
        snapshots = []
        while engine.has_unfinished:
            engine.step()
            snapshots.append(engine.snapshot())
        assert bool(events) == listens
        return snapshots

    assert run(listens=True) == run(listens=False)


# ---- what events are made of -------------------------------------------------------------------


def test_events_are_hashable_and_hold_plain_values(lab: CheckedEngine) -> None:
    for events in lab.all_events:
        assert len(set(events)) <= len(events)  # they can be hashed
        for event in events:
            for value in event:
                parts = value if isinstance(value, tuple) else (value,)
                assert all(part is None or isinstance(part, int | str) for part in parts)
            assert json.loads(json.dumps(event)) == json.loads(json.dumps(list(event)))


def test_the_commonest_events_are_emitted_as_numbers_and_read_as_events() -> None:
    emitted: list[Emitted] = []
    engine = Engine(EngineConfig(num_pages=2, block_size=2), emit=emitted.append)
    engine.submit([1], max_new_tokens=1, forced_ids=[9])
    engine.step()
    events = [as_event(item) for item in emitted]
    assert [type(item) for item in emitted].count(tuple) == 3
    assert SequenceScheduled(0, 0, 1) in events
    assert SlotsWritten(0, 0, 1) in events
    assert TokenSampled(0, 9) in events


def test_state_changes_tell_the_states_that_the_snapshot_shows(lab: CheckedEngine) -> None:
    states: dict[int, str] = {}
    reducer = Reducer(lab.engine.config.num_pages, lab.engine.config.block_size)
    names: set[str] = set()
    for events in lab.all_events:
        for event in events:
            reducer.apply(event)
            if isinstance(event, StateChanged):
                # A state is told when it changes, and only then.
                assert states.get(event.seq_id, "waiting") != event.state
                states[event.seq_id] = event.state
                names.add(event.state)
        reducer.end_step()
        for view in reducer.snapshot().sequences:
            assert view.state == states.get(view.seq_id, "waiting")
    assert names == {"prefilling", "decoding", "preempted", "finished"}


def by_kind(events: list[Event]) -> dict[str, int]:
    counts: dict[str, int] = {}
    for event in events:
        counts[type(event).__name__] = counts.get(type(event).__name__, 0) + 1
    return counts


def test_a_decode_step_costs_three_events_a_sequence() -> None:
    lab = CheckedEngine(EngineConfig(num_pages=16, block_size=16))
    for number in range(4):
        lab.submit([number, 1], [5] * 9)
    lab.step()
    lab.step()
    assert by_kind(lab.all_events[-1]) == {
        "SequenceScheduled": 4,
        "SlotsWritten": 4,
        "TokenSampled": 4,
    }
