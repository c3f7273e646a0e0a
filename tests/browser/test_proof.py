"""Live proof in a real browser: the board stops at a broken rule, and Compare sets a faulty engine
beside a healthy one."""

from __future__ import annotations

import re

from playwright.sync_api import Page, expect

from pagedviz.ui.runs import fault_key, recorded_run
from pagedviz.views.violations import first_violation
from tests.browser.test_axe import in_both_themes
from tests.browser.test_screens import PATIENCE, board_is_drawn, open_screen, query, settled

FAULT = "doubled-token"


def is_at(page: Page, step: int, event: str) -> None:
    board = page.get_by_test_id("board")
    expect(board).to_have_attribute("data-step", str(step), timeout=PATIENCE)
    expect(board).to_have_attribute("data-event", event)


def test_a_fault_run_stops_at_the_violation(page: Page, app_url: str) -> None:
    broken = first_violation(recorded_run(fault_key(FAULT)).trace)
    assert broken is not None
    step, event = broken.moment.step, str(broken.moment.event)
    open_screen(page, app_url, "break_it", fault=FAULT)
    page.get_by_role("button", name="Step through it on the board").click()
    board_is_drawn(page)
    settled(page)
    is_at(page, step - 1, "end")
    assert query(page)["scenario"] == f"fault-{FAULT}"
    expect(page.get_by_test_id("violation")).to_have_count(0)
    page.keyboard.press("ArrowRight")
    is_at(page, step, event)
    expect(page.get_by_test_id("sentence")).to_contain_text("Rule 8 is broken")
    panel = page.get_by_test_id("violation")
    expect(panel).to_have_attribute("data-rule", "8", timeout=PATIENCE)
    page.wait_for_url(re.compile(f"event={event}"))
    page.keyboard.press("ArrowRight")  # it stops once
    is_at(page, step + 1, "end")
    expect(panel).to_have_count(0, timeout=PATIENCE)
    page.get_by_test_id("stMainBlockContainer").get_by_role(
        "button", name=f"Go to step {step}"
    ).click()
    is_at(page, step, event)
    page.wait_for_url(re.compile(f"event={event}"))
    page.reload()
    is_at(page, step, event)
    expect(page.get_by_test_id("violation")).to_contain_text("What happened to p", timeout=PATIENCE)
    settled(page)


def test_compare_finds_where_a_faulty_engine_parts_from_the_healthy_one(
    page: Page, app_url: str
) -> None:
    open_screen(page, app_url, "compare", scenario=f"fault-{FAULT}", step="0")
    expect(page.get_by_test_id("left-run")).to_contain_text("fault on", timeout=PATIENCE)
    expect(page.get_by_test_id("right-run")).to_contain_text("fault off")
    broken = first_violation(recorded_run(fault_key(FAULT)).trace)
    assert broken is not None
    first = page.get_by_role("button", name=re.compile("First difference in decisions"))
    expect(first).to_contain_text(f"step {broken.moment.step}")
    first.click()
    page.wait_for_url(re.compile(f"step={broken.moment.step}"))
    settled(page)


def test_a_sweep_tells_how_far_it_is_and_what_it_has_found(page: Page, app_url: str) -> None:
    open_screen(page, app_url, scenario="growing", step="6", panel="proof", charts="off")
    sweep = page.get_by_test_id("sweep")
    expect(sweep).to_contain_text("38 steps compared", timeout=PATIENCE)
    expect(sweep).to_contain_text("Rule 8 holds")
    assert in_both_themes(page) == []
