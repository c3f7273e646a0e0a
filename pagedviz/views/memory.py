"""Memory arithmetic: what a token, a page and the pools cost, and what is wasted or saved.

Invariants: every number stands beside the formula it comes from, with this run's numbers in it;
amounts are in slots when the trace does not tell the shape of the cache. What nobody allocated, or
what the trace does not tell, is called an estimate.
"""

from __future__ import annotations

from typing import NamedTuple

from pagedviz.trace.header import KvShape
from pagedviz.trace.queries import host_pool, occupancy
from pagedviz.trace.trace import Moment, Trace
from pagedviz.views.words import count

_FLOAT32 = 4
_TIMES, _MINUS, _OVER = "\u00d7", "\u2212", "\u00f7"
_WASTED = "empty slots at the end of sequences"
_SAVED = "places in page tables that need no page of their own: prefix hits and forks"
_ESTIMATE = "estimate: "
_ONE_PIECE = (
    f"{_ESTIMATE}an allocator without paging reserves prompt and longest answer of each running "
    "sequence at once"
)


class Amount(NamedTuple):
    """`formula` with numbers put in; `value` with its unit; `meaning` in a few words."""

    name: str
    formula: str
    value: str
    meaning: str

    @property
    def is_estimate(self) -> bool:
        return _ESTIMATE in self.meaning


def token_bytes(kv: KvShape) -> int:
    """2 * layers * KV heads * head_dim * bytes of a number: one key and one value each."""
    return 2 * kv.num_layers * kv.num_kv_heads * kv.head_dim * (kv.dtype_bytes or _FLOAT32)


def memory_sizes(trace: Trace) -> tuple[Amount, ...]:
    """What a token, a page and the pools cost; nothing if the trace does not tell."""
    header, host = trace.header, host_pool(trace)
    kv, size = header.kv, header.block_size
    if kv is None:
        return ()
    slot = token_bytes(kv)
    width = kv.dtype_bytes or _FLOAT32
    assumed = (
        "" if kv.dtype_bytes else f"; {_ESTIMATE}the trace does not tell the width of a number"
    )
    sizes = [
        Amount(
            "a token",
            f"2 {_TIMES} {kv.num_layers} layers {_TIMES} {kv.num_kv_heads} KV heads {_TIMES} "
            f"{kv.head_dim} dimensions {_TIMES} {width} bytes",
            size_text(slot),
            f"one key and one value in each layer and head{assumed}",
        ),
        Amount(
            "a page",
            f"{size} slots {_TIMES} {slot:,}",
            size_text(size * slot),
            "a unit of storage",
        ),
        _pool("the pool", header.num_pages, size * slot, "taken once, before the first request"),
    ]
    if host is not None and host.num_pages is not None:
        sizes.append(
            _pool("the host pool", host.num_pages, size * slot, "where swapped-out sequences wait")
        )
    return tuple(sizes)


def _pool(name: str, num_pages: int, page: int, meaning: str) -> Amount:
    return Amount(
        name, f"{_some(num_pages, 'page')} {_TIMES} {page:,}", size_text(num_pages * page), meaning
    )


def memory_now(trace: Trace, moment: Moment) -> tuple[Amount, ...]:
    """What is in use, wasted and saved at a moment."""
    snapshot = trace.at(*moment)
    size = snapshot.block_size
    active = [page for page in snapshot.pages if page.state == "active"]
    held, filled = len(active), sum(page.fill for page in active)
    empty = held * size - filled
    references = sum(page.ref_count for page in active)
    on_host = sum(len(view.host_page_ids) for view in snapshot.sequences)
    reserved = int(occupancy(trace).contiguous[moment.step])
    share = f", {100 * empty / (held * size):.0f} % of what is in use" if held else ""
    unit = _Unit(trace)
    amounts = [
        unit.pages("in use now", _some(held, "active page"), held, "pages with an owner"),
        unit.slots(
            "wasted now",
            f"{held * size} slots {_MINUS} {filled} filled",
            empty,
            f"{_WASTED}{share}",
        ),
        unit.pages(
            "saved by sharing now",
            f"({references} in page tables {_MINUS} {_some(held, 'page')})",
            references - held,
            _SAVED,
        ),
        unit.pages(
            "in one piece each, now",
            _some(reserved, "page"),
            reserved,
            f"{_ONE_PIECE}; at the end of this step",
        ),
    ]
    if host_pool(trace) is not None:
        amounts.append(
            unit.pages("on the host now", _some(on_host, "host page"), on_host, "swapped out")
        )
    return tuple(amounts)


def memory_on_average(trace: Trace) -> tuple[Amount, ...]:
    """The same over the ends of all steps recorded so far; nothing if there is none."""
    if not trace.num_steps:
        return ()
    run, unit = occupancy(trace), _Unit(trace)
    steps = f"{_OVER} {count(trace.num_steps, 'step')}"
    held, references = int(run.active.sum()), int(run.references.sum())
    waste, reserved = int(run.waste.sum()), int(run.contiguous.sum())
    share = 100 * waste / (held * trace.header.block_size) if held else 0.0

    def mean(total: int) -> float:
        return total / trace.num_steps

    amounts = [
        unit.pages(
            "in use", f"{_some(held, 'active page')} {steps}", mean(held), "pages with an owner"
        ),
        unit.slots(
            "wasted",
            f"{_some(waste, 'empty slot')} {steps}",
            mean(waste),
            f"{_WASTED}, {share:.0f} % of what is in use",
        ),
        unit.pages(
            "saved by sharing",
            f"({references:,} in page tables {_MINUS} {_some(held, 'page')}) {steps}",
            mean(references - held),
            _SAVED,
        ),
        unit.pages(
            "in one piece each", f"{_some(reserved, 'page')} {steps}", mean(reserved), _ONE_PIECE
        ),
    ]
    if host_pool(trace) is not None:
        on_host = int(run.host.sum())
        amounts.append(
            unit.pages(
                "on the host",
                f"{_some(on_host, 'host page')} {steps}",
                mean(on_host),
                "swapped out",
            )
        )
    return tuple(amounts)


class _Unit:
    """Amounts in bytes, or in slots when the trace does not tell what one costs."""

    def __init__(self, trace: Trace) -> None:
        kv = trace.header.kv
        self._size = trace.header.block_size
        self._bytes = None if kv is None else token_bytes(kv)

    def pages(self, name: str, formula: str, number: float, meaning: str) -> Amount:
        slots = f"{formula} {_TIMES} {self._size} slots"
        return self.slots(name, slots, number * self._size, meaning)

    def slots(self, name: str, formula: str, number: float, meaning: str) -> Amount:
        if self._bytes is None:
            value = f"{number:,}" if isinstance(number, int) else f"{number:,.1f}"
            return Amount(name, formula, f"{value} slots", meaning)
        terms = f"({formula})" if _MINUS in formula and "(" not in formula else formula
        value = size_text(round(number * self._bytes))
        return Amount(name, f"{terms} {_TIMES} {self._bytes:,}", value, meaning)


def _some(number: int, noun: str) -> str:
    """As `count`, but with a digit for none: a formula is to be reckoned."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


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
