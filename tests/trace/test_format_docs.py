"""The written format: schema, table and emitter agree with what the code reads and writes."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from pagedviz.engine.config import EngineConfig
from pagedviz.engine.events import EVENT_TYPES, SequenceScheduled
from pagedviz.engine.invariants import check_step
from pagedviz.engine.state_hash import field_hash
from pagedviz.trace import codec, header_codec, json_values
from pagedviz.trace.codec import dumps, loads
from pagedviz.trace.event_codec import MAX_KNOWN_TOKENS
from pagedviz.trace.event_format import FORMAT, ROW_TYPES, AllWritten, Turn
from pagedviz.trace.header import Bookmark, TraceHeader
from pagedviz.trace.trace import StepRecord, Trace
from tests.trace.runs import bookkeeping_run
from tests.trace.test_codec import ODD

DOCS = Path(__file__).resolve().parents[2] / "docs"
EMITTER = DOCS / "emitter.py"
PAGE = (DOCS / "trace-format.md").read_text(encoding="utf-8")


HEADER = {"format": "pagedviz-trace", "version": 1, "num_pages": 1, "block_size": 1}
MARKS = (Bookmark(0, 0, "start"), Bookmark(2, None, "x" * 60))


@pytest.fixture(scope="module")
def schema() -> dict[str, Any]:
    schema: dict[str, Any] = json.loads((DOCS / "trace.schema.json").read_text(encoding="utf-8"))
    Draft202012Validator.check_schema(schema)
    return schema


@pytest.fixture(scope="module")
def foreign() -> bytes:
    """What the emitter in the documentation prints."""
    run = subprocess.run([sys.executable, EMITTER], capture_output=True, check=True, timeout=60)
    return run.stdout


def errors(schema: dict[str, Any], data: bytes) -> list[str]:
    validator = Draft202012Validator(schema)
    return [
        f"line {number}: {error.message[:200]}"
        for number, line in enumerate(data.splitlines(), start=1)
        for error in validator.iter_errors(json.loads(line))
    ]


def test_our_own_files_fit_the_schema(schema: dict[str, Any]) -> None:
    odd = dumps(Trace(TraceHeader(8, 2), [StepRecord(events) for events in ODD]))
    files = [odd, dumps(bookkeeping_run(seed=1).trace, MARKS)]
    files.append(dumps(bookkeeping_run(seed=2, prefix_caching=False).trace))
    for data in files:
        assert errors(schema, data) == []


@pytest.mark.parametrize(
    "line",
    [
        {"step": 0},
        {"step": True, "events": []},
        {"step": 0, "events": [{}]},
        {"step": 0, "events": [{"swapped": {"seq": 0}}]},
        {"step": 0, "events": [{"sampled": {"seq": [0]}}]},
        {"step": 0, "events": [{"sampled": {"seq": 0, "token": 1.5}}]},
        {"step": 0, "events": [{"sampled": {"seq": 0}, "state": {"seq": 0}}]},
        {"step": 0, "events": [{"hashed": {"page": 0, "seq": 0, "hash": "12"}}]},
        {"format": "pagedviz-trace", "version": 2, "num_pages": 1, "block_size": 1},
        HEADER | {"bookmarks": [[0, 0, "x"]] * 51},
        HEADER | {"bookmarks": [[0, "x"]]},
        HEADER | {"bookmarks": [[0, 0, " "]]},
        HEADER | {"bookmarks": [[0, 0.5, "x"]]},
    ],
)
def test_the_schema_refuses_what_the_reader_refuses(
    schema: dict[str, Any], line: dict[str, Any]
) -> None:
    assert errors(schema, json.dumps(line).encode()) != []


def test_the_schema_has_the_fields_of_the_code(schema: dict[str, Any]) -> None:
    events = schema["$defs"]["event"]["properties"]
    assert {word: list(event["properties"]) for word, event in events.items()} == {
        word: [field.key for field in fields] for word, fields in FORMAT.values()
    }
    settings = schema["$defs"]["header"]["properties"]["settings"]["properties"]
    assert list(settings) == [field.name for field in fields(EngineConfig)]


def test_the_header_has_the_keys_of_the_code(schema: dict[str, Any]) -> None:
    keys = list(header_codec.KEYS)
    assert list(schema["$defs"]["header"]["properties"]) == keys
    rows = re.findall(r"^\| (`.*?) \|", PAGE.split("**Step**")[0], flags=re.M)
    assert re.findall(r"`(\w+)`", " ".join(rows)) == [
        "format", "version", "num_pages", "block_size", "producer", *keys[5:]
    ]  # fmt: skip


def test_the_format_has_all_events_and_all_their_fields() -> None:
    assert set(FORMAT) - {Turn, AllWritten} == set(EVENT_TYPES) - {SequenceScheduled}
    assert Turn._fields[:3] == SequenceScheduled._fields
    for row_type, (_, row_fields) in FORMAT.items():
        assert tuple(field.attribute for field in row_fields) == row_type._fields


def test_the_table_has_the_words_and_fields_of_the_code() -> None:
    rows = re.findall(r"^\| `(\w+)` \|.*?\|(.*?)\|", PAGE.split("## Events")[1], flags=re.M)
    assert [word for word, _ in rows] == list(ROW_TYPES)
    for word, cell in rows:
        keys = [field.key for field in FORMAT[ROW_TYPES[word]][1]]
        assert re.findall(r"`(\w+)`", cell) == keys, word


def test_the_limits_in_the_text_are_those_of_the_code() -> None:
    assert codec.MAX_STEPS == 2**20
    assert codec.MAX_EVENTS == 2**21
    assert codec.MAX_CANDIDATES == 2**22
    assert MAX_KNOWN_TOKENS == 2**24
    assert codec.MAX_LINE_BYTES == 8 * 2**20
    assert codec.MAX_BYTES == 200e6
    assert (json_values.MAX_NAME, json_values.MAX_WORD) == (1000, 64)
    for limit in (
        "2^20 steps",
        "2^21 events",
        "2^22 log probabilities",
        "2^24 known tokens",
        "8 MiB a line",
        "200 MB",
    ):
        assert limit in PAGE.replace("\n", " ")


def test_the_example_hash_in_the_text_is_right() -> None:
    path, value, digits = re.search(r"`(page/\S+)=(\d+)` counts `(\w+)`", PAGE).groups()  # type: ignore[union-attr]
    assert f"{field_hash(path, int(value)):016x}" == digits


def test_the_emitter_is_plain_python_of_at_most_40_lines() -> None:
    source = EMITTER.read_text(encoding="utf-8")
    assert len(source.splitlines()) <= 40
    assert re.findall(r"^(?:import|from) (\S+)", source, flags=re.M) == ["json", "collections"]


def test_the_emitted_file_fits_the_schema_opens_and_keeps_every_rule(
    schema: dict[str, Any], foreign: bytes
) -> None:
    assert errors(schema, foreign) == []
    trace = loads(foreign)
    assert trace.header == TraceHeader(12, 4, producer="my engine 1.0")
    assert trace.num_steps == 8
    for step in trace.walk():
        assert check_step(step.before, step.events, step.after) == [], step.step
    final = trace.final
    assert [view.num_tokens for view in final.sequences] == [15, 13, 18]
    assert {view.state for view in final.sequences} == {"finished"}
    assert len(final.free_queue) == 12


def test_a_foreign_trace_written_by_us_stays_the_same(foreign: bytes) -> None:
    trace = loads(foreign)
    again = loads(dumps(trace))
    assert again.steps == trace.steps
    assert again.header == trace.header
