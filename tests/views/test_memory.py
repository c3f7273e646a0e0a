"""Memory arithmetic: worked by hand, and every formula makes what stands beside it."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from pagedviz.trace.header import KvShape, TraceHeader
from pagedviz.trace.trace import Moment, Trace
from pagedviz.views.memory import (
    Amount,
    memory_now,
    memory_on_average,
    memory_sizes,
    size_text,
    token_bytes,
)
from tests.views.runs import forked, shared_start, swapped, tight

KV = KvShape(4, 2, 24, 4)


def with_shape(trace: Trace, kv: KvShape | None) -> Trace:
    header = trace.header
    return Trace(
        TraceHeader(header.num_pages, header.block_size, kv=kv, settings=header.settings),
        trace.steps,
    )


# The signs of a formula, as one types them.
TYPED = str.maketrans({"\u00d7": "x", "\u2212": "-", "\u00f7": "/"})


def named(amounts: tuple[Amount, ...]) -> dict[str, tuple[str, str]]:
    """What each makes and from what, by its name."""
    return {a.name: (a.formula.translate(TYPED), a.value) for a in amounts}


def everything(trace: Trace, moment: Moment) -> tuple[Amount, ...]:
    return (*memory_sizes(trace), *memory_now(trace, moment), *memory_on_average(trace))


def test_bytes_of_a_token_are_two_times_layers_heads_dimensions_and_width() -> None:
    assert token_bytes(KV) == 1536
    assert token_bytes(KvShape(4, 2, 24, 2)) == 768
    trace = with_shape(swapped(), KV)  # 5 pages of 2 slots, 4 on the host
    assert named(memory_sizes(trace)) == {
        "a token": ("2 x 4 layers x 2 KV heads x 24 dimensions x 4 bytes", "1,536 bytes"),
        "a page": ("2 slots x 1,536", "3,072 bytes"),
        "the pool": ("5 pages x 3,072", "15.0 KiB"),
        "the host pool": ("4 pages x 3,072", "12.0 KiB"),
    }


def test_a_width_that_is_not_told_is_called_an_estimate() -> None:
    told, assumed = (memory_sizes(with_shape(tight(), kv))[0] for kv in (KV, KvShape(4, 2, 24)))
    assert (told.value, told.is_estimate) == ("1,536 bytes", False)
    assert (assumed.value, assumed.is_estimate) == ("1,536 bytes", True)


def test_a_page_that_two_prompts_start_with_is_held_once() -> None:
    """Page 0 is shared; seq:0 has 8 tokens in 2 pages, seq:1 has 9 in 3: 4 pages, 13 filled.
    Reserved for 7 + 3 and for 9 + 2 tokens are 3 pages each."""
    assert named(memory_now(shared_start(), Moment(1))) == {
        "in use now": ("4 active pages x 4 slots", "16 slots"),
        "wasted now": ("16 slots - 13 filled", "3 slots"),
        "saved by sharing now": ("(5 in page tables - 4 pages) x 4 slots", "4 slots"),
        "in one piece each, now": ("6 pages x 4 slots", "24 slots"),
    }


def test_forks_share_until_they_write() -> None:
    """6 prompt tokens in 2 pages that both samples hold; in step 1 the first copies the tail; in
    step 2 both finish. Each would reserve 6 + 3 tokens, 3 pages."""
    trace = forked()
    saved = [named(memory_now(trace, Moment(step))) for step in range(3)]
    assert [amounts["saved by sharing now"] for amounts in saved] == [
        ("(4 in page tables - 2 pages) x 4 slots", "8 slots"),
        ("(4 in page tables - 3 pages) x 4 slots", "4 slots"),
        ("(0 in page tables - 0 pages) x 4 slots", "0 slots"),
    ]
    assert named(memory_on_average(with_shape(trace, KV))) == {
        "in use": ("5 active pages / 3 steps x 4 slots x 1,536", "10.0 KiB"),
        "wasted": ("4 empty slots / 3 steps x 1,536", "2,048 bytes"),
        "saved by sharing": (
            "(8 in page tables - 5 pages) / 3 steps x 4 slots x 1,536",
            "6,144 bytes",
        ),
        "in one piece each": ("12 pages / 3 steps x 4 slots x 1,536", "24.0 KiB"),
    }


def test_the_host_holds_what_was_swapped_out() -> None:
    """The second sequence has 4 computed tokens, so 2 pages, on the host after steps 2 and 3."""
    trace = swapped()
    held = [named(memory_now(trace, Moment(step)))["on the host now"][1] for step in range(6)]
    assert held == ["0 slots", "0 slots", "4 slots", "4 slots", "0 slots", "0 slots"]
    assert named(memory_on_average(trace))["on the host"] == (
        "4 host pages / 6 steps x 2 slots",
        "1.3 slots",
    )
    assert not [a for a in everything(tight(), Moment(2)) if "host" in a.name]


@pytest.mark.parametrize("make", [shared_start, forked, swapped, tight])
def test_every_amount_is_what_its_formula_makes(make: Callable[[], Trace]) -> None:
    trace = with_shape(make(), KV)
    for step in range(trace.num_steps):
        for amount in everything(trace, Moment(step)):
            formula = amount.formula.translate(TYPED).replace(",", "")
            numbers = "".join(sign for sign in formula if sign in "0123456789x/-() ")
            assert amount.value == size_text(round(eval(numbers.replace("x", "*")))), amount


def test_what_nobody_allocated_is_called_an_estimate() -> None:
    estimates = [a.name for a in everything(with_shape(tight(), KV), Moment(2)) if a.is_estimate]
    assert estimates == ["in one piece each, now", "in one piece each"]


def test_without_the_shape_of_the_cache_amounts_are_in_slots() -> None:
    amounts = everything(with_shape(shared_start(), None), Moment(1))
    assert amounts[0].name == "in use now"
    assert all(amount.value.endswith(" slots") for amount in amounts)


def test_a_run_without_a_step_has_no_average() -> None:
    assert memory_on_average(Trace(TraceHeader(4, 2, kv=KV))) == ()


def test_sizes_are_in_the_unit_that_suits_them() -> None:
    assert [size_text(n) for n in (1536, 20_480, 3 << 20, 5 << 30)] == [
        "1,536 bytes",
        "20.0 KiB",
        "3.0 MiB",
        "5.0 GiB",
    ]
