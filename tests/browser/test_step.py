"""The Step screen in a real browser: stepping, links, keys, settings, and foreign text."""

from __future__ import annotations

import json
import re
from urllib.parse import parse_qs, urlencode, urlsplit

import pytest
from playwright.sync_api import Locator, Page, expect


def board(page: Page) -> Locator:
    return page.get_by_test_id("board")


# Without charts and panels a page is there in half the time: most tests look at the board only.
LIGHT = {"charts": "off", "panel": "none"}


def open_link(page: Page, app_url: str, **link: str) -> Locator:
    """Without charts and panels unless the link asks for them; the bare address without a link."""
    page.goto(f"{app_url}/?{urlencode(LIGHT | link)}" if link else app_url)
    root = board(page)
    expect(root).to_be_visible()
    expect(root).to_have_attribute("data-step", re.compile(r"\d"))
    settled(page)
    return root


def settled(page: Page) -> None:
    expect(page.get_by_test_id("stApp")).to_have_attribute("data-test-script-state", "notRunning")


def moment(page: Page) -> tuple[str | None, str | None, str | None]:
    root = board(page)
    # A board that has just been drawn anew says nothing yet.
    expect(root).to_have_attribute("data-step", re.compile(r"\d"))
    return tuple(root.get_attribute(f"data-{name}") for name in ("step", "event", "state-hash"))


def press(page: Page, name: str) -> None:
    page.get_by_role("button", name=name, exact=True).click()


def test_charts_are_loaded_once_the_board_is_there(page: Page, app_url: str) -> None:
    page.goto(f"{app_url}/?scenario=growing&step=7&charts=on")
    expect(page.get_by_test_id("stPlotlyChart")).to_have_count(4, timeout=60_000)
    expect(page.locator(".awaited")).to_have_count(0)
    loaded = page.evaluate(
        "performance.getEntriesByType('resource').map(({name, startTime, responseEnd}) => "
        "[name.split('/').at(-1), startTime, responseEnd])"
    )
    board_there = max(end for name, _, end in loaded if name in ("board.js", "run.js"))
    charts_asked = min(start for name, start, _ in loaded if name.startswith("PlotlyChart"))
    assert board_there < charts_asked


@pytest.mark.parametrize(("width", "height"), [(1400, 900), (1280, 720)])
def test_first_paint_is_a_finished_example_and_all_of_it_is_in_view(
    page: Page, app_url: str, width: int, height: int
) -> None:
    page.set_viewport_size({"width": width, "height": height})
    root = open_link(page, app_url)
    expect(root).not_to_have_attribute("data-step", "0")
    expect(page.get_by_test_id("sentence")).not_to_be_empty()
    for name in ("First step", "Back", "Step", "Last step", "Play"):
        expect(page.get_by_role("button", name=name, exact=True)).to_be_in_viewport(ratio=1)
    for part in (".sequences", ".pages", ".legend", ".strip .caption", ".events"):
        expect(root.locator(part).first).to_be_in_viewport(ratio=1)
    expect(page.get_by_test_id("stException")).to_have_count(0)
    # The large charts are below it; the board itself is never scrolled.
    box = root.bounding_box()
    assert box is not None and box["y"] + box["height"] <= height
    assert page.get_by_test_id("stMain").evaluate("main => main.scrollTop") == 0


def test_step_and_back_change_the_step_by_exactly_one(page: Page, app_url: str) -> None:
    root = open_link(page, app_url, scenario="growing", step="5")
    start = moment(page)
    for number in (6, 7, 8):
        press(page, "Step")
        expect(root).to_have_attribute("data-step", str(number))
    for number in (7, 6, 5):
        press(page, "Back")
        expect(root).to_have_attribute("data-step", str(number))
    assert moment(page) == start


def test_keys_step_too_but_not_while_somebody_types(page: Page, app_url: str) -> None:
    root = open_link(page, app_url, scenario="growing", step="5")
    page.keyboard.press("ArrowRight")
    expect(root).to_have_attribute("data-step", "6")
    page.keyboard.press("ArrowLeft")
    expect(root).to_have_attribute("data-step", "5")
    page.keyboard.press("Home")
    expect(root).to_have_attribute("data-step", "0")
    page.get_by_test_id("stExpandSidebarButton").click()
    field = page.get_by_label("Slots a page")
    field.focus()
    page.keyboard.press("ArrowRight")
    page.keyboard.press("End")
    page.wait_for_timeout(500)
    expect(root).to_have_attribute("data-step", "0")


def test_the_address_opens_the_same_moment_and_hash_in_a_new_tab(page: Page, app_url: str) -> None:
    root = open_link(page, app_url, scenario="shared_prompt", step="16", event="6", block_size="6")
    press(page, "Step")
    expect(root).to_have_attribute("data-event", "7")
    there = moment(page)
    page.wait_for_url(re.compile("event=7"))
    address = page.url
    assert parse_qs(urlsplit(address).query) == {
        "scenario": ["shared_prompt"],
        "step": ["16"],
        "event": ["7"],
        "state": [str(there[2])[:8]],
        "block_size": ["6"],
        "charts": ["off"],
        "panel": ["none"],
    }
    other = page.context.new_page()
    other.goto(address)
    expect(board(other)).to_have_attribute("data-event", "7")
    assert moment(other) == there


def test_an_event_is_chosen_by_a_click_and_stays_in_view(page: Page, app_url: str) -> None:
    root = open_link(page, app_url, scenario="thrash", step="30")
    root.locator(".events button", has_text=re.compile("^4")).first.click()
    expect(root).to_have_attribute("data-event", "4")
    open_link(page, app_url, scenario="shared_prompt", step="0", event="30")
    chosen = root.locator(".events [aria-current]")
    expect(chosen).to_have_text(re.compile("^30"))
    expect(chosen).to_be_in_viewport()


def test_play_goes_on_by_itself_until_it_is_paused(page: Page, app_url: str) -> None:
    root = open_link(page, app_url, scenario="growing", step="5")
    press(page, "Play")
    # Three steps or more: looking in from outside may miss one.
    expect(root).to_have_attribute("data-step", re.compile(r"^([89]|\d\d)$"))
    page.keyboard.press("Space")
    expect(page.get_by_test_id("play")).to_have_text("Play")
    here = moment(page)
    page.wait_for_timeout(1500)
    assert moment(page) == here


def test_a_bad_setting_is_a_sentence_and_keeps_the_run(page: Page, app_url: str) -> None:
    open_link(page, app_url, scenario="growing", step="7")
    there = moment(page)
    page.get_by_test_id("stExpandSidebarButton").click()
    page.get_by_label("Slots a page").fill("0")
    page.get_by_role("button", name="Apply").click()
    expect(
        page.get_by_text("Not applied: “Slots a page” must be at least 1, got 0")
    ).to_be_visible()
    settled(page)
    assert moment(page) == there
    # Typed but not applied: nothing has happened yet.
    page.get_by_label("Slots a page").fill("12")
    page.wait_for_timeout(400)
    assert moment(page) == there
    page.get_by_role("button", name="Apply").click()
    expect(page.get_by_role("button", name="Undo changes")).to_be_visible()
    expect(board(page)).not_to_have_attribute("data-state-hash", str(there[2]))
    page.get_by_role("button", name="Undo changes").click()
    expect(page.get_by_role("button", name="Undo changes")).to_have_count(0)


def test_nothing_moves_while_one_steps(page: Page, app_url: str) -> None:
    root = open_link(page, app_url, scenario="burst", step="8", event="1", charts="on")
    parts = root.locator(".page, .seq, .sentence, .strip, .timebar button, .slider input")
    boxes = """all => all.map(e => {
        const r = e.getBoundingClientRect(); return [r.x, r.y, r.width, r.height] })"""
    expect(page.locator(".st-key-occupancy .main-svg").first).to_be_visible()
    # A chart that is drawn again would be another element, and flash white.
    charts = page.locator(".st-key-states .main-svg, .st-key-occupancy .main-svg")
    charts.evaluate_all("all => all.forEach(chart => { chart.dataset.first = '1' })")
    num_charts = charts.count()
    before = parts.evaluate_all(boxes)
    assert len(before) > 50
    for event in range(2, 9):
        press(page, "Step")
        expect(root).to_have_attribute("data-event", str(event))
        assert parts.evaluate_all(boxes) == before
    page.wait_for_url(re.compile("event=8"))
    settled(page)
    assert parts.evaluate_all(boxes) == before
    assert page.locator(".main-svg[data-first='1']").count() == num_charts


PROMPTS = (
    "<script>window.broken = 1</script>",
    "<img src=x onerror='window.broken = 1'>",
    "</span></div><svg onload='window.broken = 1'>",
    "[x](javascript:window.broken=1) :material/home: $x$",
)


def test_a_prompt_is_shown_and_never_run(page: Page, app_url: str) -> None:
    names = ("lily", "max", "tom", "zoe")  # the scenario has the first; new ones are sorted
    requests = {
        name: {"prompt": text, "max_new_tokens": 4}
        for name, text in zip(names, PROMPTS, strict=True)
    }
    link = {"scenario": "growing", "num_pages": "64", "requests": json.dumps(requests)}
    # With everything on screen that might show a prompt.
    root = open_link(page, app_url, step="0", charts="on", panel="attention", **link)
    for number, text in enumerate(PROMPTS):
        card = root.locator(f'.seq[data-s="{number}"]')
        expect(card.locator(".t").first).to_be_visible()
        shown = "".join(card.locator(".t").all_inner_texts())
        assert shown.replace("\u2423", " ").startswith(text[:20])
    page.wait_for_timeout(500)  # a picture that cannot be loaded says so a little later
    assert page.evaluate("window.broken") is None
    expect(page.get_by_test_id("stException")).to_have_count(0)


def test_nonsense_in_the_address_is_a_sentence(page: Page, app_url: str) -> None:
    open_link(page, app_url, scenario="<b>x</b>", step="-3")
    expect(page.get_by_text("there is no scenario '<b>x</b>'")).to_be_visible()
    expect(page.get_by_text("step in the address must be a whole number")).to_be_visible()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_board_wears_the_theme_of_the_reader(page: Page, app_url: str, scheme: str) -> None:
    page.emulate_media(color_scheme=scheme)
    open_link(page, app_url, scenario="growing")
    app = page.get_by_test_id("stApp").evaluate("e => getComputedStyle(e).backgroundColor")
    drawn = board(page).evaluate("e => getComputedStyle(e).backgroundColor")
    assert app == drawn == {"light": "rgb(255, 255, 255)", "dark": "rgb(15, 18, 22)"}[scheme]
