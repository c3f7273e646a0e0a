"""A run that is still being recorded, stepped in the running app beyond what was there at first."""

from __future__ import annotations

import json
import re

from playwright.sync_api import Locator, Page, expect

from tests.browser.test_board import BURST
from tests.browser.test_screens import settled
from tests.browser.test_step import board, open_link

FIRST = 256  # steps recorded before such a run is shown
SLOW = 30_000  # ms: the server records beside everything else


def too_late(new_tokens: int) -> dict[str, str]:
    """Beyond any limit somebody comes. A number of its own for each test: runs are shared."""
    late = {"prompt": "Once upon a time", "max_new_tokens": new_tokens, "arrival_step": 6000}
    return {"requests": json.dumps({"late": late})}


def position(page: Page) -> Locator:
    return page.get_by_test_id("position")


def test_a_long_run_is_stepped_beyond_its_first_part_without_a_lost_press(
    page: Page, app_url: str
) -> None:
    start = FIRST - 90
    root = open_link(page, app_url, scenario="growing", step=str(start), **too_late(4))
    sent = page.evaluate(BURST, 240)
    expect(root).to_have_attribute("data-step", str(start + sent), timeout=SLOW)
    for _ in range(20):
        page.keyboard.press("ArrowLeft")
    expect(root).to_have_attribute("data-step", str(start + sent - 20))


def test_recording_ahead_is_shown_and_stops_when_told(page: Page, app_url: str) -> None:
    # Busy in every step, so that the end is far away.
    story = {"prompt": "Once upon a time", "max_new_tokens": 100}
    requests = {f"m{n}": story | {"arrival_step": 20 * n} for n in range(120)}
    link = {"requests": json.dumps(requests), "num_pages": "64", "block_size": "8"}
    open_link(page, app_url, scenario="thrash", step="3", charts="off", panel="none", **link)
    # Streamlit has a Stop of its own in the header while a script runs.
    main = page.get_by_test_id("stMainBlockContainer")
    main.get_by_role("button", name="Stop", exact=True).click()
    expect(page.get_by_text(re.compile(r"Recording was stopped at step \d+"))).to_be_visible(
        timeout=SLOW
    )
    expect(position(page)).to_have_text(re.compile(r"step 3 of \d+ "), timeout=SLOW)
    last = re.search(r"of (\d+)", position(page).inner_text())
    assert last is not None
    # The whole screen is drawn once more when the recording ends, the board included.
    expect(page.get_by_test_id("stApp")).to_have_attribute(
        "data-test-script-state", "notRunning", timeout=SLOW
    )
    page.wait_for_timeout(1000)
    expect(board(page)).to_have_attribute("data-step", "3", timeout=SLOW)
    page.keyboard.press("End")
    expect(board(page)).to_have_attribute("data-step", last[1], timeout=SLOW)
    expect(page.get_by_text(f"Recording was stopped at step {last[1]}")).to_be_visible(timeout=SLOW)
    page.get_by_role("button", name="Go on", exact=True).click()
    expect(page.get_by_text("Recording was stopped")).to_have_count(0, timeout=SLOW)
    # At the end of a run that does not grow a press does nothing.
    expect(position(page)).to_have_text(re.compile(r"of \d+\+"), timeout=SLOW)
    for _ in range(5):
        page.keyboard.press("ArrowRight")
    expect(board(page)).to_have_attribute("data-step", str(int(last[1]) + 5), timeout=SLOW)


def test_run_until_goes_on_as_more_is_recorded(page: Page, app_url: str) -> None:
    late = {"prompt": "Once upon a time", "max_new_tokens": 3, "arrival_step": 1200}
    link = {"requests": json.dumps({"late": late})}
    root = open_link(page, app_url, scenario="growing", step="60", **link)
    page.get_by_test_id("until").select_option("finish")
    page.keyboard.press("n")
    # Many chunks are asked for on the way, and only the last one asked for is sent.
    expect(root).to_have_attribute("data-step", re.compile(r"^12\d\d$"), timeout=2 * SLOW)
    expect(page.get_by_test_id("sentence")).to_contain_text("finished")
    page.keyboard.press("n")
    expect(page.locator(".board .status")).to_have_text("No finish after this moment")


def test_another_command_ends_a_run_until(page: Page, app_url: str) -> None:
    root = open_link(page, app_url, scenario="growing", step="60", **too_late(6))
    page.get_by_test_id("until").select_option("preemption")
    page.keyboard.press("n")
    page.keyboard.press("ArrowLeft")
    expect(root).to_have_attribute("data-step", "59")
    expect(page.get_by_text("Recording ahead")).to_have_count(0, timeout=2 * SLOW)
    expect(page.locator(".board .status")).to_have_text("")
    expect(root).to_have_attribute("data-step", "59")


def test_the_limit_is_said_and_moves_nothing(page: Page, app_url: str) -> None:
    link = too_late(5)
    root = open_link(page, app_url, scenario="growing", step="3", **link)
    expect(position(page)).to_have_text(re.compile("of 4999 "), timeout=2 * SLOW)
    expect(page.get_by_text("Recording ahead")).to_have_count(0, timeout=SLOW)
    ended = page.get_by_test_id("ended")
    expect(ended).to_contain_text("Recording stopped at its limit of 5000 steps", timeout=SLOW)
    under = page.get_by_role("radiogroup", name="Under the board")
    expect(under).to_be_visible(timeout=SLOW)
    calm = under.bounding_box()
    page.keyboard.press("End")
    expect(root).to_have_attribute("data-step", "4999")
    page.wait_for_url(re.compile("step=4999"), timeout=SLOW)
    settled(page)
    expect(ended).to_be_visible()
    assert under.bounding_box() == calm
