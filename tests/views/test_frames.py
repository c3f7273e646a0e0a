"""Frames: whoever assigns them holds what the trace holds, at every event, in both directions."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from pagedviz.engine.config import EngineConfig
from pagedviz.engine.state_hash import snapshot_fields
from pagedviz.model import load_tiny
from pagedviz.scenarios import ScenarioRun, load_scenario, scenario_names
from pagedviz.trace.trace import Moment, Trace
from pagedviz.views.board import event_lines, moment_sentence
from pagedviz.views.frames import CHUNK_STEPS, chunk, encode, num_chunks
from pagedviz.views.overview import UNTIL, overview
from pagedviz.views.phrases import Phrases, spoken
from pagedviz.views.words import TokenText, numbered
from tests.folding import every_hash
from tests.views.replaying import Replay, decoded
from tests.views.runs import Request, forked, record, shared_start, swapped, tight, word

LONG = EngineConfig(num_pages=14, block_size=2, max_tokens_per_step=8)


def long_run() -> Trace:
    """Two chunks and a bit, with sequences that finish, wait and are preempted."""
    requests = [Request(7 * n, [n % 3, 1, 2, n], range(20)) for n in range(18)]
    return record(LONG, *requests, num_steps=CHUNK_STEPS * 2 + 9)


def moments(trace: Trace, number: int) -> list[Moment]:
    """Those of a chunk, in the order of its patches; each step's end is the last of it."""
    first = number * CHUNK_STEPS
    return [
        Moment(step, event)
        for step in range(first, min(first + CHUNK_STEPS, trace.num_steps))
        for event in (*range(1, trace.num_events(step) + 1), None)
    ]


def check_both_ways(trace: Trace, token_text: TokenText) -> None:
    assert trace.num_steps
    # The start of a step is the end of the one before, except for the very first.
    start, *known = [
        (moment, snapshot, value)
        for moment, snapshot, value in every_hash(trace)
        if moment.event != 0 or moment.step == 0
    ]
    last_hash = start[2]
    place = 0
    for number in range(num_chunks(trace)):
        replay = Replay(decoded(encode(chunk(trace, number, token_text))))
        hashes = [last_hash]
        assert replay.hash == last_hash
        states = [dict(replay.fields)]
        for expected in moments(trace, number):
            moment, snapshot, value = known[place]
            assert moment == expected
            place += 1
            replay.on()
            assert replay.fields == dict(snapshot_fields(snapshot)), moment
            hashes.append(value)
            assert replay.hash == value, moment
            states.append(dict(replay.fields) if moment.event is None else {})
        last_hash = hashes[-1]
        for back in range(replay.place - 1, -1, -1):
            replay.back()
            assert replay.hash == hashes[back]
            assert not states[back] or replay.fields == states[back]
    assert place == len(known)


@pytest.mark.parametrize("make", [shared_start, tight, long_run, forked, swapped])
def test_patches_give_every_state_of_a_run_forwards_and_backwards(make: object) -> None:
    assert callable(make)
    check_both_ways(make(), word)


@pytest.mark.parametrize("name", scenario_names())
def test_patches_give_every_state_of_a_scenario_forwards_and_backwards(name: str) -> None:
    model = load_tiny()
    assert model.tokenizer is not None
    trace = ScenarioRun(load_scenario(name), model).run()
    check_both_ways(trace, model.tokenizer.token_text)


def test_an_aborted_request_leaves_the_waiting_queue_or_the_running_list() -> None:
    for step in (0, 1, 3):
        requests = [Request(0, [0, 1, 2], range(9)), Request(0, [5, 6, 7], range(9))]
        check_both_ways(
            record(EngineConfig(num_pages=7, block_size=2), *requests, aborts={step: 1}), word
        )


def test_all_words_of_a_run_arrive() -> None:
    trace = long_run()
    for number in range(num_chunks(trace)):
        data = decoded(encode(chunk(trace, number, word)))
        replay = Replay(data)
        place = 0
        for offset, num_events in enumerate(data["events"]):
            step = data["first"] + offset
            assert replay.say(data["begins"][offset]) == moment_sentence(
                trace, Moment(step, 0), word
            )
            assert replay.say(data["ends"][offset]) == moment_sentence(trace, Moment(step), word)
            lines = event_lines(trace, step, word)
            for event in range(1, num_events + 1):
                said = replay.say(data["says"][place])
                assert said == moment_sentence(trace, Moment(step, event), word)
                assert replay.say(data["lines"][place]) == lines[event - 1].text
                place += 1
        assert place == len(data["kinds"]) == len(data["touched"])


def test_a_chunk_has_the_texts_of_its_tokens() -> None:
    trace = shared_start()
    data = chunk(trace, 0, word)
    ids = {token for view in trace.final.sequences for token in view.token_ids}
    assert data["tokens"] == {token: word(token) for token in sorted(ids)}  # type: ignore[type-var]


def test_slots_written_are_named_by_page() -> None:
    trace = shared_start()  # pages of 4 slots; seq:0 computes 7 tokens in step 0
    data = chunk(trace, 0, word)
    written = [row for row in data["touched"] if row.slots]
    assert written[0] == ([0, 1], [0], [0, 0, 7], ([0, 0, 4], [1, 0, 3]))


def test_a_copy_touches_both_pages_their_slots_and_every_owner() -> None:
    trace = forked()  # in step 1 seq:0 copies p1, two slots of it written, to p2
    data = chunk(trace, 0, word)
    place = trace.num_events(0)  # the first event of step 1
    assert data["touched"][place] == ([2, 1], [0, 1], [0, 4, 2], ([2, 0, 2], [1, 0, 2]))


def test_a_run_that_swaps_has_a_host_pool_and_no_other() -> None:
    data = overview(swapped())
    assert data["host"] == {"num_pages": 4}
    assert data["occupancy"]["host"] == [0, 0, 2, 2, 0, 0]
    assert overview(tight())["host"] is None


@pytest.mark.parametrize("make", [forked, swapped])
def test_forks_copies_and_swaps_can_be_run_to(make: Callable[[], Trace]) -> None:
    trace = make()
    happened = {type(event).__name__ for record in trace.steps for event in record.events}
    wanted = {"fork", "copy"} if make is forked else {"swap", "preemption"}
    assert wanted <= {kind for kind, names in UNTIL.items() if happened & set(names)}


def test_the_same_trace_gives_the_same_bytes() -> None:
    assert encode(chunk(tight(), 0, word)) == encode(chunk(tight(), 0, word))


def test_numbers_too_large_for_31_bits_travel_as_text_and_hash_the_same() -> None:
    config = EngineConfig(num_pages=4, block_size=2)
    trace = record(config, Request(0, [1 << 31, 7], [3 << 30]))
    data = chunk(trace, 0, numbered)
    assert all(abs(code) < 1 << 30 for code in data["changes"])
    replay = Replay(decoded(encode(data)))
    for moment in moments(trace, 0):
        replay.on()
        assert replay.hash == trace.state_hash(*moment)


@pytest.mark.parametrize(
    "sentence",
    [
        "",
        "seq:3 samples token 40: \u201c12\u201d (the model gives it 9 %)",
        "found under the hash 00ff00ff00ff00ff of the first 007 tokens",
        "12345678901234567890 and \u201cunclosed 7",
        "\u0661 token",
    ],
)
def test_a_phrase_is_spoken_as_it_was(sentence: str) -> None:
    phrases = Phrases()
    number, *values = json.loads(json.dumps(phrases.phrase(sentence)))
    assert spoken(list(phrases.table)[number], values) == sentence


def test_the_overview_has_an_entry_for_every_step() -> None:
    trace = long_run()
    data = json.loads(json.dumps(overview(trace)))
    assert data["num_steps"] == trace.num_steps == len(data["num_events"])
    for values in data["occupancy"].values():
        assert len(values) == trace.num_steps
    for _, phases in data["lanes"]:
        assert phases[-1][2] == trace.num_steps - 1
    assert {kind for _, _, kind in data["ticks"]} <= set(UNTIL)
