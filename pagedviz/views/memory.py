"""Memory arithmetic: what a token, a page and the pool cost, and what is wasted or saved now.

Invariant: every number stands beside the formula it comes from, with this run's numbers in it.
"""

from __future__ import annotations

from typing import NamedTuple

from pagedviz.engine.snapshot import Snapshot
from pagedviz.trace.queries import occupancy
from pagedviz.trace.trace import KvShape, Moment, Trace

_FLOAT32 = 4


class Amount(NamedTuple):
    """`formula` with numbers put in; `value` with its unit; `meaning` in a few words."""

    name: str
    formula: str
    value: str
    meaning: str


def token_bytes(kv: KvShape) -> int:
    """2 * layers * KV heads * head_dim * bytes of a number: one key and one value each."""
    return 2 * kv.num_layers * kv.num_kv_heads * kv.head_dim * (kv.dtype_bytes or _FLOAT32)


def memory_now(trace: Trace, moment: Moment) -> tuple[Amount, ...]:
    """The whole calculation; sizes are in slots when the trace does not tell the cache's shape."""
    snapshot = trace.at(*moment)
    size, num_pages, kv = snapshot.block_size, len(snapshot.pages), trace.header.kv
    unit = 1 if kv is None else token_bytes(kv)
    amounts = []
    if kv is not None:
        width = kv.dtype_bytes or _FLOAT32
        amounts = [
            Amount(
                "a token",
                f"2 \u00d7 {kv.num_layers} layers \u00d7 {kv.num_kv_heads} KV heads \u00d7 "
                f"{kv.head_dim} dimensions \u00d7 {width} bytes",
                size_text(unit),
                "one key and one value in each layer and head",
            ),
            Amount(
                "a page",
                f"{size} slots \u00d7 {unit:,}",
                size_text(size * unit),
                "a unit of storage",
            ),
            Amount(
                "the pool",
                f"{num_pages} pages \u00d7 {size * unit:,}",
                size_text(num_pages * size * unit),
                "taken once, before the first request",
            ),
        ]
    return (*amounts, *_now(trace, moment, snapshot, unit, kv is not None))


def _now(
    trace: Trace, moment: Moment, snapshot: Snapshot, unit: int, is_bytes: bool
) -> tuple[Amount, ...]:
    size = snapshot.block_size
    active = [page for page in snapshot.pages if page.state == "active"]
    filled = sum(page.fill for page in active)
    empty = len(active) * size - filled
    copies = sum(page.ref_count - 1 for page in active)
    reserved = int(occupancy(trace).contiguous[moment.step])
    share = f", {100 * empty / (len(active) * size):.0f} % of it" if active else ""

    each = f" \u00d7 {unit:,}" if is_bytes else ""

    def amount(slots: int) -> str:
        return size_text(slots * unit) if is_bytes else f"{slots:,} slots"

    return (
        Amount(
            "in use now",
            f"{len(active)} active pages \u00d7 {size} slots{each}",
            amount(len(active) * size),
            "pages with an owner",
        ),
        Amount(
            "wasted now",
            f"({len(active) * size} slots \u2212 {filled} filled){each}",
            amount(empty),
            f"empty slots at the end of sequences{share}",
        ),
        Amount(
            "saved by sharing now",
            f"{copies} further owners \u00d7 {size} slots{each}",
            amount(copies * size),
            "pages that would be there twice or more often without the prefix cache",
        ),
        Amount(
            "one piece each instead",
            f"{reserved} pages \u00d7 {size} slots{each}",
            amount(reserved * size),
            "what an allocator would hold at the end of this step that reserves prompt and longest "
            "answer at once",
        ),
    )


def size_text(num_bytes: int) -> str:
    """`1,536 bytes`, `96.0 KiB`, `3.0 MiB`."""
    if num_bytes < 10_240:
        return f"{num_bytes:,} bytes"
    size = num_bytes / 1024
    for unit in ("KiB", "MiB"):
        if size < 1024:
            return f"{size:,.1f} {unit}"
        size /= 1024
    return f"{size:,.1f} GiB"
