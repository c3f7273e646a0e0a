"""A run with a broken rule stops whoever walks over it: once, however they walk."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Page, expect

from pagedviz.ui.runs import fault_key, recorded_run
from pagedviz.views.overview import overview
from pagedviz.views.violations import first_violation, page_of
from tests.browser.test_screens import PATIENCE, open_screen, settled

FAULT = "refused-hit"
STOPPED = re.compile("^Stopped: a rule is broken here")


def board_at(page: Page, step: int, event: int | None) -> None:
    board = page.get_by_test_id("board")
    expect(board).to_have_attribute("data-step", str(step), timeout=PATIENCE)
    expect(board).to_have_attribute("data-event", "end" if event is None else str(event))


def violation() -> tuple[int, int, int, int]:
    """Step, event, rule, page."""
    trace = recorded_run(fault_key(FAULT)).trace
    broken = first_violation(trace)
    assert broken is not None
    page_id = page_of(trace, broken)
    assert broken.moment.event is not None
    assert page_id is not None
    return broken.moment.step, broken.moment.event, broken.event.rule, page_id


def ticks() -> list[tuple[int, int, str]]:
    return [tuple(tick) for tick in overview(recorded_run(fault_key(FAULT)).trace)["ticks"]]


def stands_at_the_violation(page: Page) -> None:
    step, event, rule, page_id = violation()
    board_at(page, step, event)
    expect(page.locator(".board .status")).to_have_text(STOPPED)
    expect(page.get_by_test_id("sentence")).to_contain_text(f"Rule {rule} is broken")
    panel = page.get_by_test_id("violation")
    expect(panel).to_have_attribute("data-rule", str(rule), timeout=PATIENCE)
    expect(panel).to_contain_text(f"What happened to p{page_id}")
    # The address follows what rests, so nothing has moved on meanwhile.
    page.wait_for_url(re.compile(f"step={step}&event={event}&"))
    board_at(page, step, event)


def go_home(page: Page) -> None:
    page.keyboard.press("Home")
    board_at(page, 0, None)


@pytest.mark.parametrize("start", ["0", "9"])
def test_run_until_stops_at_a_broken_rule_on_its_way(page: Page, app_url: str, start: str) -> None:
    open_screen(page, app_url, scenario=f"fault-{FAULT}", step=start)
    page.get_by_test_id("until").select_option("eviction")
    go_home(page)
    page.keyboard.press("n")
    stands_at_the_violation(page)
    page.keyboard.press("n")
    moments = [(step, event) for step, event, kind in ticks() if kind == "eviction"]
    board_at(page, *moments[0])
    assert moments[0] > violation()[:2]


def test_play_stops_at_a_broken_rule_once(page: Page, app_url: str) -> None:
    step, _, _, _ = violation()
    open_screen(page, app_url, scenario=f"fault-{FAULT}", step=str(step + 1))
    go_home(page)
    page.keyboard.press("Space")
    expect(page.get_by_test_id("play")).to_have_text("Pause")
    stands_at_the_violation(page)
    expect(page.get_by_test_id("play")).to_have_text("Play")
    page.keyboard.press("Space")
    last = recorded_run(fault_key(FAULT)).trace.num_steps - 1
    board_at(page, last, None)
    expect(page.get_by_test_id("play")).to_have_text("Play")


def test_the_step_key_stops_at_a_broken_rule_once(page: Page, app_url: str) -> None:
    step, _, _, _ = violation()
    open_screen(page, app_url, scenario=f"fault-{FAULT}", step=str(step + 1))
    go_home(page)
    for _ in range(step):
        page.keyboard.press("ArrowRight")
    stands_at_the_violation(page)
    page.keyboard.press("ArrowRight")
    board_at(page, step + 1, None)
    expect(page.locator(".board .status")).to_have_text("")
    settled(page)
