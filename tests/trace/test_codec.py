"""Trace files: what is written is read, whatever else is refused in one sentence with its line."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest

from pagedviz.engine.errors import PagedVizError, TraceFormatError
from pagedviz.engine.events import (
    AdmissionDeferred,
    Event,
    PageAllocated,
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
from pagedviz.trace import codec as codec_module
from pagedviz.trace.codec import ReadLimits, dumps, loads, read_trace, write_trace
from pagedviz.trace.costs import hit_rate, preemption_cost
from pagedviz.trace.header import Bookmark, TraceHeader
from pagedviz.trace.queries import occupancy, phases
from pagedviz.trace.trace import StepRecord, Trace
from tests.trace.runs import bookkeeping_run


def same(left: Trace, right: Trace) -> bool:
    return left.header == right.header and left.steps == right.steps


@pytest.mark.parametrize("seed", range(6))
def test_a_recorded_run_is_read_back_exactly(seed: int) -> None:
    trace = bookkeeping_run(
        seed, prefix_caching=seed % 3 != 0, block_size=1 + seed, num_pages=60 // (1 + seed)
    ).trace
    data = dumps(trace)
    assert same(loads(data), trace)
    assert dumps(loads(data)) == data


def test_bookmarks_are_kept_in_the_file() -> None:
    trace = bookkeeping_run(1).trace
    marks = (Bookmark(0, 0, "start"), Bookmark(3, None, "<b>ü</b>"), Bookmark(13, 1, "x" * 60))
    data = dumps(trace, marks)
    again = loads(data)
    assert again.header.bookmarks == marks
    assert again.steps == trace.steps
    assert dumps(again) == data
    assert dumps(again, ()) == dumps(trace)
    assert b"bookmarks" not in dumps(trace)


@pytest.mark.parametrize(
    ("bookmarks", "message"),
    [
        (7, '"bookmarks" must be a list of at most 50, got 7'),
        ([[0, 0, "x"]] * 51, '"bookmarks" must be a list of at most 50'),
        ([[0, 0]], "a bookmark is [step, event or null, name], got [0, 0]"),
        ([{"step": 0}], "a bookmark is [step, event or null, name]"),
        ([[0, 0, " "]], 'a bookmark must have a name, got " "'),
        ([[0, 0, "x" * 61]], "a text of 61 characters; at most 60 may be"),
        ([[0, 0, "\ud800"]], "is half a character"),
        ([[-1, 0, "x"]], "-1 is not in 0 to"),
        ([[0, True, "x"]], "a whole number is expected, got true"),
        ([[1, None, "x"]], 'the bookmark "x" is at step 1, not recorded'),
        ([[0, 1, "x"]], 'the bookmark "x" is at event 1 of step 0, not recorded'),
    ],
)
def test_a_bookmark_that_is_none_is_refused_with_its_line(bookmarks: object, message: str) -> None:
    with pytest.raises(TraceFormatError) as error:
        loads(lines(HEADER | {"bookmarks": bookmarks}, step()))
    assert str(error.value).startswith("line 1: ") and message in str(error.value)


# Events that no engine of ours emits, each differing from what would be implied.
ODD: tuple[tuple[Event, ...], ...] = (
    (
        SequenceSubmitted(7, "seq:7", 3, 9, (1, 2, 3), "lora"),
        SequenceSubmitted(2, "Zoë\n", 2, 1),
        PrefixLookedUp(7, 1, "diverged", (3,), 1, 2, 3),
        PrefixLookedUp(7, 0, "evicted", (), None, None, None, None),
        AdmissionDeferred(7, "pages", 3, 17),
        AdmissionDeferred(7, "pages", 3, 8),
        AdmissionDeferred(2, "a foreign reason", 0, 8),
        PageAllocated(5, 40, 7, 0),
        PageAllocated(4, 1, 7, 1),
        PageHashed(5, 1, 7, 0),
        PageShared(5, 9, 2, 0),
        SequenceAdmitted(2, 1),
        SequenceScheduled(2, 8, 5),
        SequenceAdmitted(7),
        SequenceScheduled(7, 0, 3),
        SlotsWritten(7, 0, 3),
        TokenSampled(7),
        TokenSampled(7, 4_294_967_295),
        StateChanged(7, "waiting"),
    ),
    (),
    (
        SequencePreempted(7, 2, 12),
        PageReleased(4, 7, 0, 0),
        PageReleased(5, 7, 3),
        SequenceFinished(7, "stop"),
        SequenceFinished(2, "stop"),
        StateChanged(2, "finished"),
    ),
)


def test_values_that_nothing_implies_are_written_out() -> None:
    header = TraceHeader(8, 2)
    trace = Trace(header, [StepRecord(events) for events in ODD])
    assert same(loads(dumps(trace)), trace)


def test_a_line_reads_as_what_happened() -> None:
    header = TraceHeader(8, 2)
    events = (
        SequenceSubmitted(0, "seq:0", 3, 4, (5, 6, 7)),
        PageAllocated(0, 1, 0, 0),
        PageAllocated(1, 1, 0, 1),
        SequenceAdmitted(0),
        StateChanged(0, "prefilling"),
        SequenceScheduled(0, 0, 3),
        SlotsWritten(0, 0, 3),
        TokenSampled(0, 9),
        StateChanged(0, "decoding"),
    )
    line = dumps(Trace(header, [StepRecord(events, {0: ((9, -0.25),)})])).splitlines()[1]
    assert line.decode() == (
        '{"step":0,"events":['
        '{"submitted":{"seq":0,"max_new_tokens":4,"prompt":[5,6,7]}},'
        '{"allocated":{"page":[0,1],"seq":0}},'
        '{"admitted":{"seq":0}},'
        '{"state":{"seq":0}},'
        '{"scheduled":{"seq":0,"num_tokens":3}},'
        '{"all_written":{}},'
        '{"sampled":{"seq":0,"token":9}},'
        '{"state":{"seq":0}}],'
        '"logprobs":{"0":[[9,-0.25]]}}'
    )


def test_equal_neighbours_keep_their_number() -> None:
    events = (
        SequenceSubmitted(0, "seq:0", 1, 4, (5,)),
        StateChanged(0, "waiting"),
        StateChanged(0, "waiting"),
        StateChanged(0, "waiting"),
    )
    trace = Trace(TraceHeader(2, 2), [StepRecord(events)])
    assert b'{"state":{"seq":[0,0,0]}}' in dumps(trace)
    assert same(loads(dumps(trace)), trace)


def test_slots_written_twice_stay_two_events() -> None:
    events = (
        SequenceSubmitted(0, "seq:0", 1, 4, (5,)),
        PageAllocated(0, 1, 0, 0),
        SequenceAdmitted(0),
        SequenceScheduled(0, 0, 1),
        SlotsWritten(0, 0, 1),
        SlotsWritten(0, 0, 1),
    )
    trace = Trace(TraceHeader(2, 2), [StepRecord(events)])
    assert same(loads(dumps(trace)), trace)


# ---- refusals --------------------------------------------------------------------------------

HEADER = {"format": "pagedviz-trace", "version": 1, "num_pages": 4, "block_size": 2}
SUBMIT = {"submitted": {"seq": 0, "max_new_tokens": 4, "prompt": [5, 6, 7]}}


def lines(*items: Any) -> bytes:
    return b"".join(
        (item if isinstance(item, bytes) else json.dumps(item).encode()) + b"\n" for item in items
    )


def step(*events: Any, number: int = 0) -> dict[str, Any]:
    return {"step": number, "events": list(events)}


def test_a_foreign_file_needs_no_footer() -> None:
    trace = loads(lines(HEADER, step(SUBMIT), step(number=1)))
    assert trace.num_steps == 2
    assert trace.events(0) == (SequenceSubmitted(0, "seq:0", 3, 4, (5, 6, 7)),)
    assert trace.header == TraceHeader(4, 2)


REFUSED: dict[str, tuple[bytes, str]] = {
    "nothing": (b"", "line 1: the file is empty"),
    "no header": (lines(step()), 'line 1: not a trace: the first line must say "format"'),
    "not json": (lines(HEADER, b"{"), "line 2: not JSON at character 2"),
    "not utf-8": (lines(HEADER, b'"\xff"'), "line 2: not UTF-8 at byte 1"),
    "empty line": (lines(HEADER, b"", step()), "line 2: not JSON"),
    "a list": (lines([]), "line 1: not a trace"),
    "version": (lines(HEADER | {"version": 2}), "line 1: this is version 2 of the trace format; "
                "version 1 is read"),
    "version true": (lines(HEADER | {"version": True}), "version true"),
    "unknown header key": (lines(HEADER | {"pages": 3}), 'header: unknown key "pages"'),
    "no pages": (lines({"format": "pagedviz-trace", "version": 1}), 'lacks "num_pages"'),
    "too many pages": (lines(HEADER | {"num_pages": 1 << 21}), "num_pages must be at most 1048576"),
    "pages as float": (lines(HEADER | {"num_pages": 4.0}), "a whole number is expected, got 4.0"),
    "page size 0": (lines(HEADER | {"block_size": 0}), "0 is not in 1 to"),
    "settings": (lines(HEADER | {"settings": {"num_pages": 4, "speed": 1}}),
                 'settings: unknown key "speed"'),
    "other settings": (lines(HEADER | {"settings": {"num_pages": 5}}),
                       "the header says 4 pages of 2 slots, its settings 5 pages of 16"),
    "bad setting": (lines(HEADER | {"settings": {"num_pages": 4, "watermark": 2}}),
                    "watermark must be in [0, 1), got 2"),
    "kv": (lines(HEADER | {"kv": {"num_layers": 1, "head_dim": 3}}), '"kv" lacks "num_kv_heads"'),
    "deep": (lines(HEADER | {"scenario_settings": {"a": [[[[[[[[[1]]]]]]]]]}}), "nested more than"),
    "infinite": (lines(HEADER, b'{"step":0,"events":[],"logprobs":{"0":[[1,1e999]]}}'),
                 "a finite number is expected"),
    "checksum": (lines(HEADER | {"checksum": "md5"}), 'only "crc32" is known'),
    "cut off": (lines(HEADER | {"checksum": "crc32"}, step()),
                "line 2: the file is cut off: it ends after 1 steps without its footer"),
    "NaN": (lines(HEADER, b'{"step":NaN,"events":[]}'), "line 2: NaN is not a number"),
    "twice": (lines(HEADER, b'{"step":0,"step":0,"events":[]}'), 'the key "step" is there twice'),
    "long number": (lines(HEADER, b'{"step":' + b"9" * 5000 + b"}"), "a number is too long"),
    "nesting": (lines(HEADER, b"[" * 100_000), "line 2: nested too deeply"),
    "footer unasked": (lines(HEADER, {"footer": {}}), 'line 2: unknown key "footer"'),
    "wrong step": (lines(HEADER, step(), step()), "line 3: step 1 is expected here, got 0"),
    "step true": (lines(HEADER, step(), step(number=True)), "step 1 is expected here, got true"),
    "no events": (lines(HEADER, {"step": 0}), '"events" must be a list, got null'),
    "event text": (lines(HEADER, step("written")), 'an event is an object with one key, got "wr'),
    "two keys": (lines(HEADER, step(SUBMIT | {"state": {}})), "an object with one key"),
    "unknown event": (lines(HEADER, step({"swapped": {}})), 'unknown event "swapped"; known: sub'),
    "unknown field": (lines(HEADER, step({"submitted": {"sequence": 0}})),
                      'submitted: unknown field "sequence"; known: seq, name'),
    "missing field": (lines(HEADER, step({"submitted": {"seq": 0, "num_prompt_tokens": 2}})),
                      'submitted: the field "max_new_tokens" is missing'),
    "missing prompt": (lines(HEADER, step({"submitted": {"seq": 0, "max_new_tokens": 2}})),
                       'submitted: the field "num_prompt_tokens" is missing'),
    "missing seq": (lines(HEADER, step({"allocated": {"page": 0}})),
                    'allocated: the field "seq" is missing'),
    "float token": (lines(HEADER, step(SUBMIT, {"sampled": {"seq": 0, "token": 1.0}})),
                    'sampled, "token": a whole number is expected, got 1.0'),
    "true token": (lines(HEADER, step(SUBMIT, {"sampled": {"seq": 0, "token": True}})),
                   "a whole number is expected, got true"),
    "large token": (lines(HEADER, step(SUBMIT, {"sampled": {"seq": 0, "token": 1 << 32}})),
                    "4294967296 is not in 0 to 4294967295"),
    "null state": (lines(HEADER, step(SUBMIT, {"state": {"seq": 0, "state": None}})),
                   "null is not one of waiting, prefilling"),
    "hash": (lines(HEADER, step(SUBMIT, {"allocated": {"page": 0, "seq": 0}},
                                {"hashed": {"page": 0, "hash": "AB", "seq": 0}})),
             '16 hexadecimal digits are expected, got "AB"'),
    "lengths": (lines(HEADER, step(SUBMIT, {"sampled": {"seq": [0, 0], "token": [1, 2, 3]}})),
                "sampled: the lists differ in length: seq 2, token 3"),
    "list of one": (lines(HEADER, step(SUBMIT, {"sampled": {"seq": [0]}})),
                    "a list has one value for each of two or more events"),
    "list of names": (lines(HEADER, step({"submitted": {"seq": [0, 1], "max_new_tokens": 1}})),
                      'submitted: "seq" takes one value, not a list'),
    "prompt is a number": (lines(HEADER, step({"submitted": {"seq": 0, "prompt": 3}})),
                           'submitted, "prompt": a list is expected, got 3'),
    "half a character": (lines(HEADER, step({"submitted": {"seq": 0, "name": "\ud800"}})),
                         "is half a character"),
    "long name": (lines(HEADER, step({"submitted": {"seq": 0, "name": "x" * 2000}})),
                  "a text of 2000 characters; at most 1000"),
    "huge prompt": (lines(HEADER, step({"submitted": {"seq": 0, "max_new_tokens": 1,
                                                      "num_prompt_tokens": 1 << 40}})),
                    "1099511627776 known tokens; a trace may have 16777216"),
    "unknown page": (lines(HEADER, step(SUBMIT, {"allocated": {"page": 4, "seq": 0}})),
                     "line 2: allocated: page 4 does not exist: the pool has 4 pages"),
    "unknown sequence": (lines(HEADER, step(SUBMIT, {"sampled": {"seq": 1}})),
                         "line 2: sampled: seq:1 was never submitted"),
    "nothing scheduled": (lines(HEADER, step(SUBMIT, {"written": {"seq": 0}})),
                          'written: the field "num_tokens" is missing'),
    "evicted without hash": (lines(HEADER, step({"evicted": {"page": 0}})),
                             "p0 has no hash that could be evicted"),
    "deferred without reason": (lines(HEADER, step(SUBMIT, {"deferred": {"seq": 0}})),
                                'deferred: the field "reason" is missing'),
    "hash of unknown tokens": (
        lines(HEADER, step({"submitted": {"seq": 0, "num_prompt_tokens": 2, "max_new_tokens": 1}},
                           {"allocated": {"page": 0, "seq": 0}},
                           {"hashed": {"page": 0, "seq": 0}})),
        'hashed: the field "hash" is missing'),
    "logprobs key": (lines(HEADER, step() | {"logprobs": {"seq:0": []}}),
                     '"seq:0" is not the id of a sequence'),
    "logprobs pair": (lines(HEADER, step() | {"logprobs": {"0": [[1]]}}),
                      "[token, log probability] is expected, got [1]"),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_a_bad_file_is_refused_in_one_sentence(name: str) -> None:
    data, message = REFUSED[name]
    with pytest.raises(TraceFormatError) as error:
        loads(data)
    assert message in str(error.value)
    assert str(error.value).startswith("line ")
    assert "\n" not in str(error.value)
    assert len(str(error.value)) < 300
    assert error.value.line is not None


@pytest.fixture(scope="module")
def recorded() -> Trace:
    return bookkeeping_run(seed=5, num_steps=25).trace


def test_our_own_files_name_what_was_changed(recorded: Trace) -> None:
    data = dumps(recorded)
    with pytest.raises(TraceFormatError, match="the file is cut off: it ends after 10 steps"):
        loads(b"".join(data.splitlines(keepends=True)[:11]))
    with pytest.raises(TraceFormatError, match="the footer says crc32"):
        loads(data.replace(b'"producer":"tests"', b'"producer":"Tests"'))
    with pytest.raises(TraceFormatError, match="line 28: there is text after the footer"):
        loads(data + data.splitlines(keepends=True)[-1])


def mutate(data: bytes, rng: random.Random) -> bytes:
    """One random edit, as a careless editor, a bad disk or a broken download would make it."""
    kind = rng.randrange(8)
    place = rng.randrange(len(data))
    rows = data.splitlines(keepends=True)
    row, other = rng.randrange(len(rows)), rng.randrange(len(rows))
    if kind == 0:
        return data[:place] + bytes([data[place] ^ 1 << rng.randrange(8)]) + data[place + 1 :]
    if kind == 1:
        return data[:place] + data[place + rng.randint(1, 5) :]
    if kind == 2:
        return data[:place] + bytes([rng.randrange(256)]) + data[place:]
    if kind == 3:
        return data[:place]
    if kind == 4:
        digits = [at for at, byte in enumerate(data) if chr(byte).isdigit()]
        at = rng.choice(digits)
        return data[:at] + b"%d" % rng.randrange(10) + data[at + 1 :]
    if kind == 5:
        del rows[row]
    elif kind == 6:
        rows.insert(row, rows[other])
    else:
        rows[row], rows[other] = rows[other], rows[row]
    return b"".join(rows)


@pytest.mark.parametrize("has_checksum", [True, False])
def test_500_random_mutations_are_a_clear_error_or_an_equal_trace(
    recorded: Trace, has_checksum: bool
) -> None:
    rng = random.Random(2024)
    data = dumps(recorded)
    if not has_checksum:
        # A foreign file: nothing but the checks themselves stands against an edit.
        data = data.replace(b',"checksum":"crc32"', b"").rsplit(b"\n", 2)[0] + b"\n"
        assert same(loads(data), recorded)
    num_refused = 0
    for _ in range(500):
        mutant = mutate(data, rng)
        try:
            trace = loads(mutant)
        except PagedVizError as error:
            assert isinstance(error, TraceFormatError)
            assert error.line is not None
            num_refused += 1
            continue
        # Accepted: with a checksum nothing was changed, without one it is a trace that works.
        assert same(trace, recorded) or not has_checksum
        assert trace.final.num_steps == trace.num_steps
        assert len(occupancy(trace).active) == trace.num_steps
        assert phases(trace).keys() == {view.seq_id for view in trace.final.sequences}
        assert hit_rate(trace).num_hit >= 0
        assert preemption_cost(trace).num_lost >= 0
    assert num_refused > 250


def test_what_no_file_may_hold_is_refused_when_writing() -> None:
    long_name = StepRecord((SequenceSubmitted(0, "x" * 2000, 1, 1, (5,)),))
    with pytest.raises(TraceFormatError, match="a text of 2000 characters"):
        dumps(Trace(TraceHeader(2, 2), [long_name]))
    endless = StepRecord((), {0: ((1, float("-inf")),)})
    with pytest.raises(TraceFormatError, match="a finite number"):
        dumps(Trace(TraceHeader(2, 2), [endless]))


@pytest.mark.parametrize(
    ("limit", "message"),
    [
        ("MAX_BYTES", "larger than 100 bytes"),
        ("MAX_LINE_BYTES", "a line may have 100"),
        ("MAX_STEPS", "more than 100 steps"),
        ("MAX_EVENTS", "more than 100 events"),
    ],
)
def test_reading_is_bounded(
    limit: str, message: str, recorded: Trace, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = dumps(recorded)
    if limit == "MAX_STEPS":
        data = lines(HEADER, *(step(number=number) for number in range(101)))
    monkeypatch.setattr(codec_module, limit, 100)
    with pytest.raises(TraceFormatError, match=message):
        loads(data)


def test_one_word_for_many_events_is_bounded_before_they_are_made() -> None:
    submitted = {"submitted": {"seq": 0, "num_prompt_tokens": 9, "max_new_tokens": 1}}
    allocated = {"allocated": {"page": 0, "seq": 0}}
    scheduled = {"scheduled": {"seq": [0] * 500, "start": 0, "num_tokens": 1}}
    data = lines(HEADER, step(submitted, allocated, scheduled, *([{"all_written": {}}] * 20_000)))
    with pytest.raises(TraceFormatError, match="all_written: more than 10000 events"):
        loads(data, ReadLimits(events=10_000))


@pytest.mark.parametrize(
    ("limits", "message"),
    [
        (ReadLimits(pages=3), "4 pages; up to 3 are read here"),
        (ReadLimits(sequences=1), "submitted: more than 1 sequences"),
        (ReadLimits(tokens=5), "makes it 6 known tokens; a trace may have 5"),
        (ReadLimits(candidates=2), "more than 2 log probabilities"),
    ],
)
def test_a_reader_may_take_less(limits: ReadLimits, message: str) -> None:
    events = [
        {"submitted": {"seq": number, "num_prompt_tokens": 3, "max_new_tokens": 1}}
        for number in range(2)
    ]
    item = {"step": 0, "events": events, "logprobs": {"0": [[1, -1], [2, -2], [3, -3]]}}
    data = lines(HEADER, item)
    assert loads(data).total_events == 2
    with pytest.raises(TraceFormatError, match=message):
        loads(data, limits)


def test_log_probabilities_belong_to_what_happened() -> None:
    item = {"step": 0, "events": [], "logprobs": {"0": []}}
    with pytest.raises(TraceFormatError, match="names 1 sequences in a step of 0 events"):
        loads(lines(HEADER, item))


def test_files_are_written_whole_or_not_at_all(
    recorded: Trace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "run.jsonl"
    write_trace(recorded, path)
    assert same(read_trace(path), recorded)
    written = path.read_bytes()

    def fail(source: object, target: object) -> None:
        raise OSError("disk full")

    monkeypatch.setattr(codec_module.os, "replace", fail)
    with pytest.raises(OSError, match="disk full"):
        write_trace(Trace(TraceHeader(2, 2)), path)
    assert path.read_bytes() == written
    assert [entry.name for entry in tmp_path.iterdir()] == ["run.jsonl"]


def test_a_file_that_cannot_be_opened_is_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(TraceFormatError, match=r"cannot read .*none.jsonl: No such file"):
        read_trace(tmp_path / "none.jsonl")
    with pytest.raises(TraceFormatError, match=r"cannot read .*: Is a directory"):
        read_trace(tmp_path)
