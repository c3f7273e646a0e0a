"""The app asks nobody but its own server for anything."""

from __future__ import annotations

from playwright.sync_api import Page, expect

from tests.browser.recording import left_this_machine
from tests.browser.test_screens import ALL, PATIENCE, SCREENS, go_to, open_screen, settled


def test_the_app_opens_and_asks_only_its_own_server(
    page: Page, app_url: str, requests_made: list[str]
) -> None:
    page.goto(app_url)
    expect(page.get_by_test_id("stApp")).to_have_attribute("data-test-script-state", "notRunning")
    expect(page.get_by_test_id("stException")).to_have_count(0)
    # Telemetry and lazy assets are asked for a little after the first paint.
    page.wait_for_timeout(1500)
    assert any(url.startswith("ws://localhost") for url in requests_made)
    assert left_this_machine(requests_made) == []


def test_a_whole_session_through_every_screen_asks_only_its_own_server(
    page: Page, app_url: str, requests_made: list[str]
) -> None:
    open_screen(page, app_url, "", scenario="shared_prompt", step="20", **ALL)
    for panel in ("Page", "What if", "Attention"):
        choice = page.get_by_role("radio", name=panel, exact=True)
        expect(choice).to_have_count(1, timeout=PATIENCE)  # the row is made anew with each choice
        choice.click()
        settled(page)
    page.keyboard.press("l")
    expect(page.get_by_test_id("board")).to_have_class("board presenter")
    page.keyboard.press("l")
    expect(page.get_by_test_id("stHeader")).to_be_visible()
    for screen in SCREENS:
        go_to(page, screen)
    page.get_by_test_id("stExpandSidebarButton").click()
    settled(page)
    go_to(page, "Trace")
    for button in ("Save as a trace file", "Save as one HTML file"):
        with page.expect_download(timeout=PATIENCE):
            page.get_by_role("button", name=button).click()
    page.wait_for_timeout(1000)
    assert len(requests_made) > 50
    assert left_this_machine(requests_made) == []


def test_a_request_to_another_machine_is_noticed(
    page: Page, app_url: str, requests_made: list[str]
) -> None:
    page.goto(app_url)
    page.evaluate("fetch('https://elsewhere.invalid/metrics.json').catch(() => null)")
    assert left_this_machine(requests_made) == ["https://elsewhere.invalid/metrics.json"]
    requests_made.clear()  # the fixture would rightly fail this test
