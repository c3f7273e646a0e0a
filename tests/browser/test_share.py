"""What leaves the app works elsewhere; what comes into it stays text and does no harm."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Locator, Page, expect

from pagedviz.engine.events import SequenceSubmitted
from pagedviz.model import load_tiny
from pagedviz.scenarios import ScenarioRun, load_scenario
from pagedviz.trace.codec import dumps, loads
from pagedviz.trace.header import Bookmark
from pagedviz.trace.trace import Trace
from tests.browser.test_screens import ALL, PATIENCE, SCREENS, go_to, open_screen, settled, upload

EVIL = "<script>window.hacked=1</script><img src=x onerror=window.hacked=1>"
EVIL_NAME = "<img src=x onerror=window.hacked=1>"


@pytest.fixture(scope="module")
def recorded() -> Trace:
    return ScenarioRun(load_scenario("growing"), load_tiny(), "tiny").run()


@pytest.fixture
def offline(browser: Browser) -> Iterator[Page]:
    """A page of a browser whose network is cut off."""
    context = browser.new_context(viewport={"width": 1280, "height": 720}, offline=True)
    page = context.new_page()
    problems: list[str] = []
    page.on("pageerror", lambda error: problems.append(str(error)))
    page.on("console", lambda line: problems.append(line.text) if line.type == "error" else None)
    yield page
    context.close()
    assert problems == []


def saved(page: Page, button: str) -> tuple[str, Path]:
    """The name a file is offered under, and where it lies."""
    with page.expect_download(timeout=PATIENCE) as download:
        page.get_by_role("button", name=button).click()
    return download.value.suggested_filename, Path(download.value.path())


def opened_from_disk(offline: Page, path: Path, folder: Path) -> Locator:
    file = folder / "saved.html"
    file.write_bytes(path.read_bytes())
    offline.goto(file.as_uri())
    board = offline.get_by_test_id("board")
    expect(board).to_have_attribute("data-state-hash", re.compile("^[0-9a-f]{16}$"))
    return board


def test_the_saved_page_opens_from_disk_at_the_moment_on_screen_and_works(
    page: Page, app_url: str, offline: Page, recorded: Trace, tmp_path: Path
) -> None:
    bookmarks = json.dumps([[3, None, "three & more"], [9, 2, "nine"]])
    open_screen(
        page, app_url, "trace", scenario="growing", step="9", event="2", bookmarks=bookmarks
    )
    name, path = saved(page, "Save as one HTML file")
    assert name == "growing-step-9.html"
    board = opened_from_disk(offline, path, tmp_path)
    expect(board).to_have_attribute("data-step", "9")
    expect(board).to_have_attribute("data-event", "2")
    expect(board).to_have_attribute("data-state-hash", f"{recorded.state_hash(9, 2):016x}")
    offline.keyboard.press("ArrowRight")
    expect(board).to_have_attribute("data-event", "3")
    offline.keyboard.press("ArrowLeft")
    expect(board).to_have_attribute("data-event", "2")
    offline.keyboard.press("b")
    moments = offline.get_by_test_id("bookmarks")
    expect(moments).to_contain_text("nine")
    moments.get_by_role("button", name="three & more").first.click()
    expect(board).to_have_attribute("data-state-hash", f"{recorded.state_hash(3):016x}")
    offline.keyboard.press("/")
    offline.get_by_test_id("query").fill("finish")
    board.locator(".found button").first.click()
    last = recorded.num_steps - 1
    expect(board).to_have_attribute("data-step", str(last))
    offline.keyboard.press("Home")
    offline.keyboard.press("Space")
    expect(board).to_have_attribute("data-event", re.compile("[1-9]"), timeout=10_000)
    offline.keyboard.press("Space")
    offline.keyboard.press("l")
    expect(board).to_have_class("board presenter")
    offline.wait_for_url(re.compile("presenter=on"))
    offline.reload()
    expect(board).to_have_class("board presenter")


def test_bookmarks_travel_with_the_trace_file(page: Page, app_url: str, recorded: Trace) -> None:
    bookmarks = json.dumps([[3, None, "three"], [9, 2, "nine"]])
    open_screen(page, app_url, "trace", scenario="growing", step="9", bookmarks=bookmarks)
    name, path = saved(page, "Save as a trace file")
    assert name == "growing.jsonl"
    kept = loads(path.read_bytes())
    assert kept.steps == recorded.steps
    assert kept.header.bookmarks == (Bookmark(3, None, "three"), Bookmark(9, 2, "nine"))
    upload(page, "mine.jsonl", path.read_bytes())
    expect(page.locator(".title")).to_contain_text("mine.jsonl", timeout=PATIENCE)
    expect(page.get_by_text("three, nine", exact=True)).to_be_visible()
    go_to(page, "Step")
    page.keyboard.press("b")
    page.get_by_test_id("bookmarks").get_by_role("button", name="nine").first.click()
    expect(page.get_by_test_id("board")).to_have_attribute(
        "data-state-hash", f"{recorded.state_hash(9, 2):016x}"
    )


def untouched(page: Page) -> None:
    assert page.evaluate("window.hacked") is None
    assert page.locator("img[src=x]").count() == 0


def evil(trace: Trace) -> bytes:
    """A script wherever a file may hold a text."""
    header = replace(
        trace.header,
        producer=EVIL,
        scenario=EVIL,
        model=EVIL,
        scenario_settings={EVIL: EVIL, "what_if": [{"step": 1, "aborts": [EVIL]}]},
    )
    records = [
        record._replace(
            events=tuple(
                event._replace(name=EVIL) if isinstance(event, SequenceSubmitted) else event
                for event in record.events
            )
        )
        for record in trace.steps
    ]
    return dumps(Trace(header, records), [Bookmark(2, None, EVIL_NAME)])


def test_scripts_in_a_file_are_text_in_the_app_and_in_what_is_saved(
    page: Page, app_url: str, offline: Page, recorded: Trace, tmp_path: Path
) -> None:
    open_screen(page, app_url, "trace")
    upload(page, f"{EVIL_NAME}.jsonl", evil(recorded))
    expect(page.locator(".title")).to_contain_text("img src", timeout=PATIENCE)
    untouched(page)
    _, path = saved(page, "Save as one HTML file")
    for screen in SCREENS:
        go_to(page, screen)
        untouched(page)
    page.keyboard.press("b")
    expect(page.get_by_test_id("bookmarks")).to_contain_text(EVIL_NAME)
    page.keyboard.press("Escape")
    page.keyboard.press("t")
    expect(page.get_by_test_id("table-panel")).to_contain_text(EVIL)
    untouched(page)
    board = opened_from_disk(offline, path, tmp_path)
    expect(board.locator(".seq .name").first).to_contain_text("<script>")
    offline.keyboard.press("b")
    expect(offline.get_by_test_id("bookmarks")).to_contain_text(EVIL_NAME)
    offline.keyboard.press("Escape")
    offline.keyboard.press("End")
    untouched(offline)


def test_scripts_in_an_address_are_text_in_the_app_and_in_what_is_saved(
    page: Page, app_url: str, offline: Page, tmp_path: Path
) -> None:
    # The name of a request, its prompt, a bookmark, and every parameter that is not understood.
    request = {"prompt": EVIL, "max_new_tokens": 3}
    link = {
        "scenario": "growing",
        "step": "1",
        "requests": json.dumps({"<b onclick=window.hacked=1>": request}),
        "bookmarks": json.dumps([[1, None, EVIL_NAME]]),
        "state": EVIL_NAME,
        "event": EVIL_NAME,
        "what_if": EVIL_NAME,
        "presenter": EVIL_NAME,
        "file": EVIL_NAME,
        **ALL,
    }
    open_screen(page, app_url, "", **link)
    expect(page.get_by_test_id("stAlert").first).to_contain_text("img src")
    untouched(page)
    expect(page.locator(".seq .name").last).to_have_text("<b onclick=window.hacked=1>")
    for screen in SCREENS[:-1]:
        go_to(page, screen)
        untouched(page)
    go_to(page, "Trace")
    _, path = saved(page, "Save as one HTML file")
    board = opened_from_disk(offline, path, tmp_path)
    expect(board.locator(".seq .tokens").last).to_be_attached()
    untouched(offline)


def test_a_file_of_200_megabytes_is_refused_before_it_is_sent(
    page: Page, app_url: str, tmp_path: Path
) -> None:
    big = tmp_path / "big.jsonl"
    with big.open("wb") as file:
        file.truncate(200_000_000)
    open_screen(page, app_url, "trace", scenario="growing", step="5")
    page.locator("input[type=file]").set_input_files(big)
    expect(page.get_by_text("File must be 10.0MB or smaller")).to_be_visible(timeout=PATIENCE)
    settled(page)
    expect(page.locator(".position")).to_contain_text("step 5")
