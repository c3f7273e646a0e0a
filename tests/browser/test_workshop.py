"""A server for a room: reached by the address it prints, and full when it says so."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.serving import RunningApp, running_app

ROOT = Path(__file__).resolve().parents[2]
PATIENCE = 60_000


@pytest.fixture
def workshop(tmp_path: Path) -> Iterator[RunningApp]:
    command = [sys.executable, "-m", "pagedviz", "app", "--workshop", "--sessions", "2"]
    with running_app([*command, "--port", "0"], tmp_path, {"PYTHONPATH": str(ROOT)}) as app:
        yield app


def visit(browser: Browser, workshop: RunningApp, asked: list[str]) -> Page:
    page = browser.new_context().new_page()
    page.on("request", lambda request: asked.append(request.url))
    page.on("websocket", lambda socket: asked.append(socket.url))
    page.goto(f"{workshop.url}/?panel=none")
    return page


def test_the_third_visitor_of_two_waits_for_a_place(browser: Browser, workshop: RunningApp) -> None:
    asked: list[str] = []
    first, second = (visit(browser, workshop, asked) for _ in range(2))
    for page in (first, second):
        expect(page.get_by_test_id("board")).to_have_attribute("data-step", "3", timeout=PATIENCE)
    third = visit(browser, workshop, asked)
    alert = third.get_by_test_id("stAlert")
    expect(alert).to_have_text(
        "All 2 places of this server are taken: wait until somebody closes the page, then reload "
        "this one",
        timeout=PATIENCE,
    )
    expect(third.get_by_test_id("board")).to_have_count(0)
    first.keyboard.press("ArrowRight")
    expect(first.get_by_test_id("board")).to_have_attribute("data-step", "4")
    # Whoever is in may reload: the old page goes before the new one comes.
    second.reload()
    expect(second.get_by_test_id("board")).to_have_attribute("data-step", "3", timeout=PATIENCE)
    first.context.close()
    answer = third.locator('[data-testid="board"][data-step], [data-testid="stAlert"]').first
    for _ in range(60):  # the server hears a little later of who has left
        third.reload()
        expect(answer).to_be_visible()
        if third.get_by_test_id("board").count():
            break
        third.wait_for_timeout(500)
    expect(third.get_by_test_id("board")).to_have_attribute("data-step", "3")
    assert {urlsplit(url).netloc for url in asked if not url.startswith(("data:", "blob:"))} == {
        urlsplit(workshop.url).netloc
    }
    for page in (second, third):
        page.context.close()
