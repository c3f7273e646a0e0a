"""An address opens the moment it was made for, and nonsense in it is a sentence."""

from __future__ import annotations

import pytest

from pagedviz.trace.trace import Moment
from pagedviz.ui.links import MAX_PARAMETER_CHARS, Link, make_link, read_link

OVERRIDES = {
    "block_size": 8,
    "chunk_size": None,
    "prefix_caching": False,
    "requests": {"lily": {"prompt": "<b>ä & ü</b>\n#?", "max_new_tokens": 9}, "tom": None},
}


@pytest.mark.parametrize("moment", [Moment(14, 3), Moment(14, 0), Moment(14)])
def test_an_address_gives_back_what_it_was_made_of(moment: Moment) -> None:
    address = make_link("thrash", OVERRIDES, moment, state="1a2b 3c4d")
    assert address["state"] == "1a2b3c4d"
    assert read_link(address) == Link(
        "thrash", OVERRIDES, moment.step, moment.event, state="1a2b 3c4d"
    )


def test_an_unchanged_scenario_has_a_short_address() -> None:
    assert make_link("growing", {}, Moment(7)) == {"scenario": "growing", "step": "7"}


def test_an_empty_address_asks_for_nothing() -> None:
    assert read_link({}) == Link()
    assert read_link({"scenario": "", "step": "", "utm_source": "mail"}) == Link()


@pytest.mark.parametrize("value", ["x", "-1", "1.5", "1e9", "9" * 10, "٣", "--", "0x10"])
def test_a_step_that_is_no_number_is_left_out_with_a_sentence(value: str) -> None:
    link = read_link({"step": value})
    assert link.step is None
    assert link.problems == (f"step in the address must be a whole number, got “{value}”",)


@pytest.mark.parametrize("value", ["{", "nul", "[" * 5000, "", "8}"])
def test_a_setting_that_cannot_be_read_is_left_out_with_a_sentence(value: str) -> None:
    link = read_link({"block_size": value, "num_pages": "12"})
    assert link.overrides == {"num_pages": 12}
    assert len(link.problems) == 1
    assert link.problems[0].startswith("block_size in the address cannot be read")
    assert len(link.problems[0]) < 100


def test_a_setting_of_a_megabyte_is_left_out_unread() -> None:
    link = read_link({"requests": "[" * 1_000_000})
    assert link.problems == (
        f"requests in the address has 1000000 characters, the most read is {MAX_PARAMETER_CHARS}",
    )


@pytest.mark.parametrize("text", ["1a2b3c4d", "1A2B 3C4D", " 1a2b3c4d "])
def test_a_state_read_from_a_screen_may_be_typed(text: str) -> None:
    assert read_link({"state": text}) == Link(state="1a2b 3c4d")


@pytest.mark.parametrize(
    "text", ["1a2b3c4", "1a2b3c4d5", "1a2b3c4g", "<b>", "\u0661" * 8, "-1a2b3c4", "0" * 100_000]
)
def test_a_state_that_is_none_is_left_out_with_a_sentence(text: str) -> None:
    link = read_link({"state": text})
    assert link.state is None
    (problem,) = link.problems
    assert problem.startswith("state in the address must be 8 hexadecimal digits, got \u201c")
    assert len(problem) < 110
