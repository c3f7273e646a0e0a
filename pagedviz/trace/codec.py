"""Trace files: JSON lines, described in docs/trace-format.md.

    {"format": "pagedviz-trace", "version": 1, "num_pages": ...}     header
    {"step": 0, "events": [...], "logprobs": {...}}                  one line a step
    {"footer": {"steps": 60, "events": 743, ...}}                    only if the header promises it

Invariants: reading is bounded in lines, bytes and memory, and either gives back the trace that was
written or raises one TraceFormatError with the number of the line; a file that we wrote carries a
checksum, so no edit passes unnoticed; writing replaces the file whole or not at all.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from threading import get_ident
from typing import Any, NamedTuple
from zlib import crc32

from pagedviz.engine.errors import TraceFormatError
from pagedviz.engine.state_hash import state_hash, state_hash_hex
from pagedviz.trace.event_codec import MAX_KNOWN_TOKENS, EventCodec
from pagedviz.trace.header import Bookmark
from pagedviz.trace.header_codec import read_header, write_header
from pagedviz.trace.json_values import check_number, check_token, parse_json, show
from pagedviz.trace.packed import Candidates
from pagedviz.trace.recorder import LOGPROB_DECIMALS
from pagedviz.trace.trace import StepRecord, Trace

_BYTES_PER_EVENT = 35
MAX_BYTES = 200_000_000
MAX_LINE_BYTES = 8 << 20
MAX_STEPS = 1 << 20
MAX_EVENTS = 1 << 21
MAX_CANDIDATES = 1 << 22


class ReadLimits(NamedTuple):
    """Most that is read of a file. What is over is refused before it takes time or memory."""

    line_bytes: int = MAX_LINE_BYTES
    events: int = MAX_EVENTS
    pages: int | None = None
    sequences: int | None = None
    tokens: int = MAX_KNOWN_TOKENS
    candidates: int = MAX_CANDIDATES


_SEQ_KEY = re.compile(r"(0|[1-9][0-9]{0,15})\Z")


def read_trace(path: str | os.PathLike[str]) -> Trace:
    """Read a file. TraceFormatError says which line is wrong, or that it cannot be opened."""
    try:
        with open(path, "rb") as file:
            data = file.read(MAX_BYTES + 1)
    except OSError as error:
        raise TraceFormatError(f"cannot read {os.fspath(path)}: {error.strerror}") from None
    return loads(data)


def write_trace(trace: Trace, path: str | os.PathLike[str]) -> None:
    """Write a file whole or, after any failure, leave what was there. OSError as `open`.

    A symbolic link keeps pointing at the file that is replaced; TraceFormatError for a path that
    is there and is no regular file, such as a pipe or a device.
    """
    data = dumps(trace)
    path = os.path.realpath(path)
    if os.path.exists(path) and not os.path.isfile(path):
        raise TraceFormatError(f"{path} is not a regular file; a trace is written to a file")
    folder, name = os.path.split(path)
    # Beside the target: only inside one file system is a replacement atomic.
    temporary = os.path.join(folder, f".{name}.{os.getpid()}.{get_ident()}")
    try:
        with open(temporary, "wb") as file:
            file.write(data)
        os.replace(temporary, path)
    except BaseException:
        with suppress(FileNotFoundError):
            os.unlink(temporary)
        raise


def dumps(trace: Trace, bookmarks: Iterable[Bookmark] | None = None) -> bytes:
    """The bytes of a trace file. bookmarks: instead of those in the trace's header.
    TraceFormatError for a value that no file may hold."""
    header = trace.header
    if bookmarks is not None:
        header = replace(header, bookmarks=tuple(bookmarks))
    lines = [_line(write_header(header))]
    codec = EventCodec(trace.header.num_pages, trace.header.block_size)
    num_events = 0
    for step, record in enumerate(trace.steps):
        item: dict[str, Any] = {"step": step, "events": codec.write(record.events)}
        if record.logprobs:
            item["logprobs"] = _write_logprobs(record.logprobs)
        codec.end_step()
        lines.append(_line(item))
        num_events += len(record.events)
    data = b"".join(lines)
    return data + _line({"footer": _footer(codec, trace.num_steps, num_events, data)})


def about_bytes(trace: Trace) -> int:
    """An estimate of the file's size, since only writing it tells: what the events of the bundled
    scenarios take on average."""
    return _BYTES_PER_EVENT * trace.total_events


def loads(data: bytes, limits: ReadLimits | None = None) -> Trace:
    """The trace in the bytes of a file. limits: None = those of the format. TraceFormatError with
    the number of the bad line."""
    if len(data) > MAX_BYTES:
        raise TraceFormatError(f"the file is larger than {MAX_BYTES} bytes, the most that is read")
    limits = limits or ReadLimits(MAX_LINE_BYTES, MAX_EVENTS)
    trace: Trace | None = None
    has_footer, is_ended, num_events, num_candidates, number = False, False, 0, 0, 0
    for number, start, line in _lines(data, limits.line_bytes):
        try:
            item = parse_json(line)
            if trace is None:
                header, has_footer = read_header(item)
                if limits.pages is not None and header.num_pages > limits.pages:
                    raise TraceFormatError(
                        f"{header.num_pages:,} pages; up to {limits.pages:,} are read here"
                    )
                trace = Trace(header)
                codec = EventCodec(
                    header.num_pages,
                    header.block_size,
                    limits.events,
                    limits.sequences,
                    limits.tokens,
                )
            elif is_ended:
                raise TraceFormatError("there is text after the footer")
            elif has_footer and isinstance(item, dict) and "footer" in item:
                expected = _footer(codec, trace.num_steps, num_events, memoryview(data)[:start])
                _check_footer(item, expected)
                is_ended = True
            else:
                record = _read_step(item, trace.num_steps, codec)
                num_events += len(record.events)
                num_candidates += sum(map(len, (record.logprobs or {}).values()))
                if num_candidates > limits.candidates:
                    raise TraceFormatError(f"more than {limits.candidates} log probabilities")
                trace.append(record)
        except TraceFormatError as error:
            raise TraceFormatError(str(error), line=number) from None
    if trace is None:
        raise TraceFormatError("the file is empty", line=1)
    if has_footer and not is_ended:
        raise TraceFormatError(
            f"the file is cut off: it ends after {trace.num_steps} steps without its footer",
            line=number,
        )
    _check_bookmarks(trace)
    trace.fold()
    return trace


def _check_bookmarks(trace: Trace) -> None:
    for step, event, name in trace.header.bookmarks:
        if step >= trace.num_steps or (event or 0) > trace.num_events(step):
            where = f"step {step}" if event is None else f"event {event} of step {step}"
            raise TraceFormatError(f"the bookmark {show(name)} is at {where}, not recorded", line=1)


def _lines(data: bytes, most_bytes: int) -> Iterator[tuple[int, int, bytes]]:
    """(number from 1, offset, line without its end)."""
    start, number = 0, 0
    while start < len(data):
        number += 1
        end = data.find(b"\n", start)
        end = len(data) if end < 0 else end
        if end - start > most_bytes:
            raise TraceFormatError(
                f"{end - start} bytes; a line may have {most_bytes}", line=number
            )
        yield number, start, data[start:end]
        start = end + 1


def _line(item: dict[str, Any]) -> bytes:
    text = json.dumps(item, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return text.encode("utf-8") + b"\n"


def _read_step(item: object, step: int, codec: EventCodec) -> StepRecord:
    if not isinstance(item, dict):
        raise TraceFormatError(f"a step is an object, got {show(item)}")
    unknown = sorted(item.keys() - {"step", "events", "logprobs"})
    if unknown:
        raise TraceFormatError(
            f"unknown key {show(unknown[0])}; a step has step, events and, if known, logprobs"
        )
    if type(item.get("step")) is not int or item["step"] != step:
        raise TraceFormatError(f"step {step} is expected here, got {show(item.get('step'))}")
    if step >= MAX_STEPS:
        raise TraceFormatError(f"more than {MAX_STEPS} steps")
    objects = item.get("events")
    if not isinstance(objects, list):
        raise TraceFormatError(f'"events" must be a list, got {show(objects)}')
    events = tuple([event for entry in objects for event in codec.read(entry)])
    codec.end_step()
    logprobs = _read_logprobs(item["logprobs"]) if "logprobs" in item else None
    if logprobs and len(logprobs) > len(events):
        raise TraceFormatError(
            f'"logprobs" names {len(logprobs)} sequences in a step of {len(events)} events'
        )
    return StepRecord(events, logprobs)


def _write_logprobs(logprobs: Mapping[int, Candidates]) -> dict[str, Any]:
    return {
        f"{seq_id:d}": [
            [check_token(token_id), round(check_number(logprob), LOGPROB_DECIMALS)]
            for token_id, logprob in candidates
        ]
        for seq_id, candidates in logprobs.items()
    }


def _read_logprobs(item: object) -> dict[int, Candidates]:
    if not isinstance(item, dict):
        raise TraceFormatError(f'"logprobs" must be an object, got {show(item)}')
    logprobs: dict[int, Candidates] = {}
    for key, candidates in item.items():
        if not _SEQ_KEY.match(key):
            raise TraceFormatError(f'"logprobs": {show(key)} is not the id of a sequence')
        if not isinstance(candidates, list):
            raise TraceFormatError(f'"logprobs": a list is expected, got {show(candidates)}')
        pairs = []
        for pair in candidates:
            if not isinstance(pair, list) or len(pair) != 2:
                raise TraceFormatError(
                    f'"logprobs": [token, log probability] is expected, got {show(pair)}'
                )
            pairs.append((check_token(pair[0]), check_number(pair[1])))
        logprobs[int(key)] = tuple(pairs)
    return logprobs


def _footer(
    codec: EventCodec, num_steps: int, num_events: int, data: bytes | memoryview
) -> dict[str, Any]:
    return {
        "steps": num_steps,
        "events": num_events,
        "crc32": f"{crc32(data):08x}",
        "state_hash": state_hash_hex(state_hash(codec.reducer.snapshot())),
    }


def _check_footer(item: dict[str, Any], expected: dict[str, Any]) -> None:
    footer = item["footer"]
    if len(item) != 1 or not isinstance(footer, dict) or footer.keys() != expected.keys():
        raise TraceFormatError(f"a footer has {', '.join(expected)}, got {show(item)}")
    for key, value in expected.items():
        found = footer[key]
        if type(found) is not type(value) or found != value:
            raise TraceFormatError(
                f"the footer says {key} {show(found)}, the file has {show(value)}: it was changed "
                "after it was written"
            )
