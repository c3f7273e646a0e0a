"""`pagedviz inspect` and `pagedviz check`: look at a moment of a trace, and prove all of them.

Invariant: nothing that stands in a trace file reaches the terminal as a control character.
"""

from __future__ import annotations

import json
from itertools import count, groupby
from typing import Any

from pagedviz.cli.step_report import printable
from pagedviz.engine.errors import PagedVizError, TraceFormatError
from pagedviz.engine.events import Event
from pagedviz.engine.ids import page_label
from pagedviz.engine.rules import RULES
from pagedviz.engine.snapshot import Snapshot
from pagedviz.engine.state_hash import format_state_hash, state_hash_hex
from pagedviz.trace.check import check_steps
from pagedviz.trace.codec import read_trace
from pagedviz.trace.trace import Trace


class RuleBroken(PagedVizError):
    """A trace that breaks a rule of the cache."""


def _read(path: str) -> Trace:
    try:
        return read_trace(path)
    except TraceFormatError as error:
        # A file that cannot be opened is named already.
        raise error if path in str(error) else TraceFormatError(f"{path}: {error}") from None


def check_trace(trace: str) -> None:
    """Print `ok: ...`, or raise RuleBroken with the first violation. TraceFormatError."""
    read = _read(trace)
    for step, violations in check_steps(read):
        if violations:
            raise RuleBroken(f"{trace}: step {step} breaks {violations[0]}")
    print(f"ok: {read.num_steps} steps, {read.total_events} events, rules {ranges(tuple(RULES))}")


def ranges(numbers: tuple[int, ...]) -> str:
    """`1-3, 5` for (1, 2, 3, 5)."""
    counter = count()
    runs = [list(run) for _, run in groupby(numbers, lambda number: number - next(counter))]
    return ", ".join(f"{run[0]}-{run[-1]}" if len(run) > 1 else f"{run[0]}" for run in runs)


def inspect_trace(trace: str, step: int, event: int | None, as_json: bool) -> None:
    """Print the state after `event` events of `step`. TraceFormatError, MomentNotFound."""
    read = _read(trace)
    snapshot = read.at(step, event)
    if as_json:
        print(json.dumps(_as_json(read, step, event, snapshot)))
    else:
        print("\n".join(_as_text(read, step, event, snapshot)))


def _as_json(trace: Trace, step: int, event: int | None, snapshot: Snapshot) -> dict[str, Any]:
    return {
        "step": step,
        "event": trace.num_events(step) if event is None else event,
        "num_events": trace.num_events(step),
        "state_hash": state_hash_hex(trace.state_hash(step, event)),
        "block_size": snapshot.block_size,
        "pages": [
            {**page._asdict(), "page_hash": _hex(page.page_hash), "state": page.state}
            for page in snapshot.pages
        ],
        "free_queue": snapshot.free_queue,
        "waiting": snapshot.waiting,
        "running": snapshot.running,
        "sequences": [sequence._asdict() for sequence in snapshot.sequences],
        "events": [{"type": type(e).__name__, **e._asdict()} for e in trace.events(step)],
    }


def _hex(page_hash: int | None) -> str | None:
    return None if page_hash is None else f"{page_hash:016x}"


def _as_text(trace: Trace, step: int, event: int | None, snapshot: Snapshot) -> list[str]:
    num_events = trace.num_events(step)
    done = num_events if event is None else event
    states = [page.state for page in snapshot.pages]
    lines = [
        f"step {step} of 0 to {trace.num_steps - 1}, after event {done} of {num_events}, "
        f"state hash {format_state_hash(trace.state_hash(step, event))}",
        f"{len(states)} pages of {snapshot.block_size} slots: "
        + ", ".join(f"{states.count(state)} {state}" for state in ("active", "cached", "free")),
        "",
        "events (> is the next one)" if done < num_events else "events",
    ]
    for number, item in enumerate(trace.events(step), 1):
        lines.append(f"{'>' if number == done + 1 else ' '} {number:3}  {show_event(item)}")
    lines += ["", "pages"]
    owners: dict[int, list[str]] = {}
    for sequence in snapshot.sequences:
        for page_id in sequence.page_ids:
            owners.setdefault(page_id, []).append(f"seq:{sequence.seq_id}")
    for page in snapshot.pages:
        if page.state == "free" and not page.fill:
            continue
        parts = [f"  {page.label:8} {page.state:6} {page.fill:3} of {snapshot.block_size} slots"]
        if page.page_hash is not None:
            parts.append(f"hash {page.page_hash:016x}")
        parts += owners.get(page.page_id, [])
        lines.append("  ".join(parts))
    queue = " ".join(
        page_label(page_id, snapshot.pages[page_id].generation) for page_id in snapshot.free_queue
    )
    lines += [f"  queue, next first: {queue or 'empty'}", "", "sequences"]
    for sequence in snapshot.sequences:
        chain = zip(sequence.page_ids, sequence.generations, strict=True)
        pages = " ".join(page_label(page_id, generation) for page_id, generation in chain)
        lines.append(
            f"  seq:{sequence.seq_id} {printable(sequence.name)}: {sequence.state}, "
            f"{sequence.num_computed} of {sequence.num_tokens} tokens computed, "
            f"pages {pages or 'none'}"
        )
    for word, ids in (("running", snapshot.running), ("waiting", snapshot.waiting)):
        lines.append(f"  {word}: {', '.join(f'seq:{seq_id}' for seq_id in ids) or 'none'}")
    return lines


def show_event(event: Event) -> str:
    """The name and every field that says something: `PageAllocated page_id=3 generation=1`."""
    parts = [type(event).__name__]
    for key, value in event._asdict().items():
        if value is None or value == ():
            continue
        if key == "page_hash":
            value = _hex(value)
        elif isinstance(value, str):
            value = printable(value)
        elif isinstance(value, tuple):
            value = ",".join(str(int(item)) for item in value)
        parts.append(f"{key}={value:d}" if isinstance(value, int) else f"{key}={value}")
    return " ".join(parts)
