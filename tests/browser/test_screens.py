"""The other screens in a real browser: the way between them, branches, files, foreign text."""

from __future__ import annotations

import json
import re
from urllib.parse import parse_qs, urlencode, urlsplit

import pytest
from playwright.sync_api import Browser, Page, expect

from pagedviz.engine.state_hash import format_state_hash
from pagedviz.model import load_tiny
from pagedviz.scenarios import ScenarioRun, load_scenario
from pagedviz.trace.codec import loads
from pagedviz.trace.trace import Trace
from tests.browser.test_step import LIGHT

SCREENS = ("Pages", "Prefix cache", "Compare", "Break it", "Trace", "Model", "Step")
PATIENCE = 60_000
ALL = {"charts": "on", "panel": "attention"}


def open_screen(on: Page, app_url: str, screen: str = "", /, **link: str) -> None:
    """Without charts and panels unless the link asks for them; the bare address without a link."""
    on.goto(f"{app_url}/{screen}?{urlencode(LIGHT | link if link else {})}")
    if not screen:
        board_is_drawn(on)
    settled(on)


def settled(page: Page) -> None:
    # On the Step screen the board has drawn a moment, on the others the page has said something.
    expect(page.locator('[data-testid="board"][data-step], .panel').first).to_be_visible(
        timeout=PATIENCE
    )
    expect(page.get_by_test_id("stApp")).to_have_attribute(
        "data-test-script-state", "notRunning", timeout=PATIENCE
    )
    expect(page.get_by_test_id("stSkeleton")).to_have_count(0, timeout=PATIENCE)
    expect(page.get_by_test_id("stException")).to_have_count(0)


def go_to(page: Page, screen: str) -> None:
    page.get_by_test_id("stTopNavLink").filter(has_text=screen).click()
    path = "" if screen == "Step" else screen.lower().replace(" ", "_")
    page.wait_for_url(lambda url: urlsplit(url).path == f"/{path}")
    if screen == "Step":
        board_is_drawn(page)
    else:
        expect(page.get_by_test_id("board")).to_have_count(0, timeout=PATIENCE)
    settled(page)


def board_is_drawn(page: Page) -> None:
    expect(page.get_by_test_id("board")).to_have_attribute(
        "data-state-hash", re.compile("^[0-9a-f]{16}$"), timeout=PATIENCE
    )


def query(page: Page) -> dict[str, str]:
    return {key: value[0] for key, value in parse_qs(urlsplit(page.url).query).items()}


def shown_state(page: Page) -> str:
    board = page.get_by_test_id("board")
    if board.count():
        board_is_drawn(page)
        return format_state_hash(int(str(board.get_attribute("data-state-hash")), 16))
    return page.locator(".position .chip").inner_text().removeprefix("state ")


@pytest.fixture(scope="module")
def recorded() -> Trace:
    return ScenarioRun(load_scenario("shared_prompt"), load_tiny(), "tiny").run()


def test_the_moment_and_the_choices_survive_the_way_through_all_screens(
    page: Page, app_url: str
) -> None:
    link = {"scenario": "thrash", "step": "30", "event": "2", "page": "8", "seq": "1"}
    open_screen(page, app_url, **link)
    state = shown_state(page)
    for screen in SCREENS:
        go_to(page, screen)
        page.wait_for_function(
            "link => Object.entries(link).every("
            "([k, v]) => new URLSearchParams(location.search).get(k) === v)",
            arg=link,
        )
        if screen not in ("Compare", "Break it", "Model"):  # there are two states, or none
            assert shown_state(page) == state


def test_a_link_to_a_screen_opens_the_same_there(
    page: Page, app_url: str, browser: Browser
) -> None:
    open_screen(page, app_url, "pages", scenario="thrash", step="30", page="8")
    state = shown_state(page)
    expect(page.get_by_test_id("page-card")).to_have_attribute("data-page", "8")
    page.get_by_role("button", name=re.compile("^Step")).click()
    expect(page.locator(".position")).to_contain_text("step 31")
    page.get_by_role("button", name=re.compile("^Back")).click()
    expect(page.locator(".position")).to_contain_text("step 30")
    settled(page)
    elsewhere = browser.new_context().new_page()
    elsewhere.goto(page.url)
    settled(elsewhere)
    assert shown_state(elsewhere) == state
    elsewhere.context.close()


def test_the_names_of_the_screens_do_not_lie_over_the_title(page: Page, app_url: str) -> None:
    page.set_viewport_size({"width": 1280, "height": 720})
    open_screen(page, app_url, scenario="thrash", step="30")
    last = page.get_by_test_id("stTopNavLink").last.bounding_box()
    title = page.locator(".st-key-title [data-testid=stSelectbox]").bounding_box()
    assert last is not None and title is not None
    assert last["x"] + last["width"] <= title["x"]


def test_panels_follow_the_cursor(page: Page, app_url: str) -> None:
    open_screen(page, app_url, scenario="shared_prompt", step="20", layer="2", head="1", **ALL)
    board_is_drawn(page)
    said = page.locator(".st-key-panels .said")
    expect(said).to_contain_text("In step 20 token 72", timeout=PATIENCE)
    page.keyboard.press("ArrowRight")
    expect(said).to_contain_text("In step 21 token 73", timeout=PATIENCE)
    expect(said).to_contain_text("in layer 2 head 1")
    page.get_by_role("radio", name="Page", exact=True).click()
    expect(page.get_by_test_id("page-card")).to_be_visible(timeout=PATIENCE)
    expect(page.get_by_test_id("stPlotlyChart")).to_have_count(5, timeout=PATIENCE)
    assert query(page)["panel"] == "page"


def test_a_branch_is_made_shown_and_left(page: Page, app_url: str) -> None:
    open_screen(page, app_url, scenario="shared_prompt", step="9", panel="what-if")
    state = shown_state(page)
    chunk = page.get_by_role("spinbutton", name="Chunk").last
    chunk.fill("3")
    page.get_by_role("button", name="Continue from step 10").click()
    back = page.get_by_role("button", name="Branch from step 10: to its parent")
    expect(back).to_be_visible(timeout=PATIENCE)
    settled(page)
    changes = json.loads(query(page)["what_if"])
    assert changes == [{"settings": {"chunk_size": 3}, "step": 10}]
    back.click()
    expect(back).to_have_count(0, timeout=PATIENCE)
    page.get_by_role("button", name="Back", exact=True).click()
    page.wait_for_url(re.compile("step=9"))
    assert shown_state(page) == state


def test_a_saved_trace_opens_again(page: Page, app_url: str, recorded: Trace) -> None:
    open_screen(page, app_url, "trace", scenario="shared_prompt", step="20", **ALL)
    with page.expect_download() as download:
        page.get_by_role("button", name="Save as a trace file").click()
    path = download.value.path()
    assert loads(path.read_bytes()).final == recorded.final
    upload(page, "mine.jsonl", path.read_bytes())
    expect(page.locator(".title")).to_contain_text("mine.jsonl", timeout=PATIENCE)
    assert query(page) == {"file": "mine.jsonl"}
    go_to(page, "Step")
    expect(page.get_by_test_id("board")).to_have_attribute("data-step", "0")
    expect(page.locator(".st-key-panels .said")).to_contain_text("layer 0", timeout=PATIENCE)
    expect(page.get_by_test_id("rules")).to_have_text(
        "rules hold \u00b7 from the file", timeout=PATIENCE
    )
    expect(page.get_by_test_id("checked")).to_contain_text("Checked from the file")


def upload(page: Page, name: str, data: bytes) -> None:
    page.locator("input[type=file]").set_input_files(
        [{"name": name, "mimeType": "application/jsonl", "buffer": data}]
    )


def test_a_bad_file_is_a_sentence_and_nobody_else_notices(
    page: Page, app_url: str, browser: Browser
) -> None:
    other = browser.new_context().new_page()
    open_screen(other, app_url, scenario="growing", step="5")
    open_screen(page, app_url, "trace", scenario="growing", step="5")
    for data, sentence in (
        (b"[" * 200_000, "nested too deeply"),
        (b"{}\n" * 1_000_001, "1,000,001 lines; up to 5,000"),
        (b'{"format": "pagedviz-trace", "version": 99}\n', "line 1"),
    ):
        upload(page, "bad.jsonl", data)
        alert = page.get_by_test_id("stAlert")
        expect(alert).to_contain_text("Not opened", timeout=PATIENCE)
        expect(alert).to_contain_text(sentence, timeout=PATIENCE)
        expect(page.get_by_test_id("stException")).to_have_count(0)
        expect(page.locator(".position")).to_contain_text("step 5")
    other.keyboard.press("ArrowRight")
    expect(other.get_by_test_id("board")).to_have_attribute("data-step", "6", timeout=PATIENCE)
    other.context.close()


def test_typed_text_becomes_tokens(page: Page, app_url: str) -> None:
    open_screen(page, app_url, "model")
    field = page.get_by_role("textbox", name="Text")
    field.fill("Lily ran <b>home</b>")
    field.blur()
    tokens = page.get_by_test_id("tokens")
    expect(tokens).to_contain_text("<", timeout=PATIENCE)
    assert tokens.locator("b").count() == 0
    go_to(page, "Trace")
    go_to(page, "Model")
    expect(page.get_by_role("textbox", name="Text")).to_have_value("Lily ran <b>home</b>")


def test_what_is_clicked_on_the_board_is_shown_below(page: Page, app_url: str) -> None:
    open_screen(page, app_url, scenario="shared_prompt", step="16", event="6", panel="attention")
    board = page.get_by_test_id("board")
    board.locator(".page").nth(3).click()
    expect(page.locator(".panel").filter(has_text=re.compile(r"^p3\.1"))).to_be_visible()
    page.wait_for_url(lambda url: {"page": ["3"], "panel": ["page"]}.items() <= asked(url).items())
    board.locator('[data-s="1"]').first.click()
    page.wait_for_url(lambda url: asked(url).get("seq") == ["1"] and "panel" not in asked(url))
    board.locator('[data-s="1"]').first.click()
    page.wait_for_url(lambda url: "seq" not in asked(url))


def asked(url: str) -> dict[str, list[str]]:
    return parse_qs(urlsplit(url).query)


def test_the_names_of_the_screens_stay_where_they_are(page: Page, app_url: str) -> None:
    page.set_viewport_size({"width": 1280, "height": 720})
    places = set()
    for screen in ("pages", "compare", "break_it", "trace", "model"):
        open_screen(page, app_url, screen, scenario="growing")
        box = page.get_by_test_id("stTopNavLink").first.bounding_box()
        assert box is not None
        places.add(round(box["x"]))
    assert max(places) - min(places) <= 1


@pytest.mark.parametrize(
    ("screen", "link"),
    [
        ("", {"scenario": "fault-doubled-token", "step": "24"}),
        ("pages", {"scenario": "growing", "num_pages": "512"}),
    ],
)
def test_the_title_row_ends_before_the_menu_with_the_sidebar_open(
    page: Page, app_url: str, screen: str, link: dict[str, str]
) -> None:
    page.set_viewport_size({"width": 1280, "height": 720})
    open_screen(page, app_url, screen, **link)
    page.get_by_test_id("stExpandSidebarButton").click()
    expect(page.get_by_test_id("stSidebar")).to_have_attribute("data-collapsed", "false")
    page.wait_for_timeout(500)  # it slides in
    menu = page.get_by_test_id("stMainMenu").bounding_box()
    assert menu is not None
    for part in page.locator(".st-key-title > *").all():
        box = part.bounding_box()
        assert box is not None
        assert box["x"] + box["width"] <= menu["x"]
