"""Trace files from and for visitors: bounded before anything is read, one sentence if refused.

Invariants: what is opened is its visitor's alone and never reaches the server's disk; a file that
is refused leaves what was on screen as it was.
"""

from __future__ import annotations

import hashlib

from pagedviz.engine.config import EngineConfig
from pagedviz.engine.errors import TraceFormatError
from pagedviz.scenarios import Scenario
from pagedviz.trace.codec import ReadLimits, loads
from pagedviz.trace.trace import Trace
from pagedviz.ui.recording import Recorded
from pagedviz.ui.runs import PAGE_LIMIT, RecordedRun, RunKey, as_recorded

MAX_MEGABYTES = 10
# A line is read whole before it is checked, and takes up to thirty times its size while it is.
MAX_LINE_BYTES = 1_000_000
MAX_STEPS = 5_000
MAX_EVENTS = 100_000
MAX_SEQUENCES = 128
MAX_TOKENS = 50_000
MAX_CANDIDATES = 400_000
_MAX_TITLE = 80
_MAX_STEM = 60
FILE = "file"


def open_trace(name: str, data: bytes) -> RecordedRun:
    """TraceFormatError says in one sentence what is wrong, or what is too much, and both numbers;
    ModelError if there is no model to read its tokens with."""
    if len(data) > MAX_MEGABYTES * 1_000_000:
        raise TraceFormatError(
            f"the file has {len(data):,} bytes; up to {MAX_MEGABYTES} MB are opened here"
        )
    # Cheap to count, while reading a million steps would keep everybody waiting.
    num_lines = data.count(b"\n")
    if num_lines > MAX_STEPS + 2:
        raise _too_much(num_lines, "lines", MAX_STEPS)
    limits = ReadLimits(
        MAX_LINE_BYTES, MAX_EVENTS, PAGE_LIMIT, MAX_SEQUENCES, MAX_TOKENS, MAX_CANDIDATES
    )
    trace = loads(data, limits)
    _check_size(trace)
    header = trace.header
    title = "".join(c for c in name if c.isprintable())[:_MAX_TITLE] or "a trace file"
    origin = f" of the scenario {header.scenario}" if header.scenario else ""
    scenario = Scenario(
        name=FILE,
        title=title,
        description=f"A trace from a file, recorded by {header.producer}{origin}.",
        start_step=0,
        look_for=(),
        engine=header.settings or EngineConfig(header.num_pages, header.block_size),
        requests=(),
        table={},
    )
    digest = hashlib.blake2s(data, digest_size=16).hexdigest()
    return as_recorded(RunKey(FILE, file=digest), scenario, Recorded(trace))


def _check_size(trace: Trace) -> None:
    """What one screen can draw."""
    if not trace.num_steps:
        raise TraceFormatError("the trace has a header but no steps, so there is nothing to show")
    num_tokens = sum(view.num_tokens for view in trace.final.sequences)
    if num_tokens > MAX_TOKENS:
        raise _too_much(num_tokens, "tokens", MAX_TOKENS)


def _too_much(number: int, what: str, limit: int) -> TraceFormatError:
    return TraceFormatError(f"the trace has {number:,} {what}; up to {limit:,} are opened here")


def file_stem(run: RecordedRun) -> str:
    """How a file made of a run is called, without what comes after the dot."""
    name = run.scenario.title.removesuffix(".jsonl") if run.key.file else run.scenario.name
    safe = "".join(c if c.isalnum() or c in "-_" else "-" for c in name).strip("-")
    return safe[:_MAX_STEM] or "run"
