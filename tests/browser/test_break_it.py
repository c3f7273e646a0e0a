"""The Break it screen in a real browser: a fault is chosen, its damage seen, and found."""

from __future__ import annotations

import re

from playwright.sync_api import Browser, Page, expect

from pagedviz.faults import FAULTS
from tests.browser.test_screens import PATIENCE, go_to, open_screen, query, settled


def choose(page: Page, title: str) -> None:
    page.get_by_role("combobox", name="Fault").click()
    page.get_by_role("option", name=title).click()


def test_a_fault_is_chosen_and_the_wrong_answer_stands_beside_the_right_one(
    page: Page, app_url: str, browser: Browser
) -> None:
    open_screen(page, app_url, scenario="thrash", step="30")
    go_to(page, "Break it")
    choose(page, "4. ")
    fault = page.get_by_test_id("fault")
    expect(fault).to_have_attribute("data-fault", "stale-entry", timeout=PATIENCE)
    settled(page)
    wrong, right = page.get_by_test_id("wrong-answer"), page.get_by_test_id("right-answer")
    expect(wrong).to_contain_text("pink.")
    expect(wrong.locator("u")).to_have_text("'pink.")
    expect(right.locator("u")).to_have_text("'yellow.")
    expect(right).to_contain_text("differs here")
    left, beside = wrong.bounding_box(), right.bounding_box()
    assert left is not None and beside is not None
    assert left["y"] == beside["y"] and left["x"] + left["width"] < beside["x"]
    expect(page.get_by_test_id("rule")).to_contain_text("rule 5, hashes tell the content")
    expect(page.get_by_test_id("life")).to_contain_text("finds p")
    page.wait_for_url(re.compile("fault=stale-entry"))
    elsewhere = browser.new_context().new_page()
    elsewhere.goto(page.url)
    settled(elsewhere)
    expect(elsewhere.get_by_test_id("wrong-answer")).to_contain_text("pink.")
    elsewhere.context.close()
    go_to(page, "Step")
    assert query(page)["scenario"] == "thrash"
    expect(page.get_by_test_id("board")).to_have_attribute("data-step", "30")


def test_a_fault_run_stops_at_the_violation(page: Page, app_url: str) -> None:
    open_screen(page, app_url, "break_it", fault="doubled-token")
    found = re.search(r"found in step (\d+)", page.get_by_test_id("where").inner_text())
    assert found is not None
    steps = page.get_by_test_id("steps").locator("tbody tr")
    expect(steps.last).to_have_attribute("data-step", found[1])
    expect(steps.last).to_contain_text("damage")
    expect(steps.last).to_contain_text("found")
    stop = page.get_by_test_id("stop")
    expect(stop).to_have_text(f"Stopped at the violation: rule 8, step {found[1]}")


def test_all_faults_can_be_reached_with_the_keyboard(page: Page, app_url: str) -> None:
    open_screen(page, app_url, "break_it")
    page.get_by_role("combobox", name="Fault").focus()
    page.keyboard.press("ArrowDown")
    expect(page.get_by_role("option")).to_have_count(len(FAULTS))
    page.keyboard.press("Enter")
    fault = page.get_by_test_id("fault")
    expect(fault).to_have_attribute("data-fault", FAULTS[1].name, timeout=PATIENCE)
    settled(page)
    page.get_by_role("radio", name="Bundled model").focus()
    page.keyboard.press("ArrowRight")
    page.wait_for_url(re.compile("workload=books"))
    settled(page)
    expect(page.get_by_test_id("wrong-answer")).to_contain_text("no answer, it waits")


def test_nothing_is_wider_than_a_phone(page: Page, app_url: str) -> None:
    page.set_viewport_size({"width": 390, "height": 844})
    open_screen(page, app_url, "break_it", fault="freed-duplicate")
    wide = page.evaluate(
        "[...document.querySelectorAll('.panel *')].filter("
        "e => e.getBoundingClientRect().right > innerWidth + 1).length"
    )
    assert wide == 0
