"""Everything on the Step screen can be reached and seen by keyboard, without motion, and told by
a screen reader."""

from __future__ import annotations

import re
from urllib.parse import urlencode

import pytest
from playwright.sync_api import Page, expect

from tests.browser.test_screens import ALL, board_is_drawn, open_screen, settled

MISS = {"scenario": "shared_prompt", "step": "16", "event": "6"}
MOST_TABS = 150

# Looks through the board's shadow root. Each control gets a number, by which it is known again.
DEEP = """
const deep = (root) => [...root.querySelectorAll('*')].flatMap(
    (e) => [e, ...(e.shadowRoot ? deep(e.shadowRoot) : [])]);
const active = () => {
    let e = document.activeElement;
    while (e?.shadowRoot?.activeElement) e = e.shadowRoot.activeElement;
    return e;
};
"""
# How a control and the boxes around it look: Streamlit draws the ring of some around their box.
LOOK = """
const look = (e) => {
    const all = [];
    for (let at = e, i = 0; at && i < 4; at = at.parentElement, i++) {
        const { outline, boxShadow, borderColor, backgroundColor, color } = getComputedStyle(at);
        all.push(outline, boxShadow, borderColor, backgroundColor, color);
    }
    return all.join();
};
"""
CONTROLS = (
    "() => {"
    + DEEP
    + LOOK
    + """
    const isShown = (e) => e.checkVisibility({ visibilityProperty: true })
        && e.getClientRects().length > 0;
    return deep(document)
        .filter((e) => e.matches('button, select, input, textarea, a[href]'))
        .filter((e) => isShown(e) && !e.disabled && e.type !== 'file' && e.tabIndex >= 0)
        .map((e, i) => { e.dataset.control = i; return [`${i}`, [e.outerHTML, look(e)]]; });
}"""
)
FOCUSED = (
    "() => {"
    + DEEP
    + LOOK
    + """
    const e = active(), style = getComputedStyle(e);
    return { control: e.dataset.control ?? null, html: e.outerHTML, look: look(e),
        isOurs: e.closest('.board') !== null,
        outline: style.outlineStyle !== 'none' && style.outlineWidth !== '0px' };
}"""
)
# Of a row of choices Tab reaches the chosen one, the arrow keys the others.
CHOICE = "segmented_control"


@pytest.mark.parametrize("panel", ["attention", "what-if"])
def test_tab_reaches_every_control_and_shows_where_it_is(
    page: Page, app_url: str, panel: str
) -> None:
    page.emulate_media(reduced_motion="reduce")  # or a ring would be looked at as it fades in
    open_screen(page, app_url, charts="on", panel=panel, **MISS)
    controls = dict(page.evaluate(CONTROLS))
    assert len(controls) > 30
    missing = {n for n, (html, _) in controls.items() if CHOICE not in html}
    has_choice = False
    for _ in range(MOST_TABS):
        page.keyboard.press("Tab")
        at = page.evaluate(FOCUSED)
        if at["isOurs"]:
            assert at["outline"], at["html"]
        elif at["control"] in controls:
            html, calm = controls[at["control"]]
            assert at["look"] != calm, html
        missing.discard(at["control"])
        has_choice = has_choice or CHOICE in at["html"]
        if has_choice and not missing:
            break
    assert [controls[n][0][:200] for n in missing] == []
    assert has_choice


def test_what_is_drawn_is_also_said(page: Page, app_url: str) -> None:
    open_screen(page, app_url, **MISS)
    board = page.get_by_test_id("board")
    for canvas in board.locator("canvas:not([aria-hidden=true])").all():
        assert canvas.get_attribute("role") == "img"
        assert canvas.get_attribute("aria-label")
    # The marks above the slider have no name: the slider says the moment, "until" finds the marks.
    expect(board.locator("canvas[aria-hidden=true]")).to_have_count(1)
    page.keyboard.press("ArrowRight")
    spoken = board.locator("[aria-live=polite]")
    expect(spoken).not_to_be_empty()
    shown = page.get_by_test_id("sentence").inner_text()
    # On screen a letter stands before a sequence, and quotes are drawn, not written.
    assert re.sub("[\u201c\u201d]", "", spoken.inner_text()) == re.sub("[A-Z]+ (?=seq:)", "", shown)
    page.keyboard.press("t")
    tables = page.locator("dialog[open] table")
    expect(tables).to_have_count(2)
    expect(tables.nth(1).locator("tbody tr")).to_have_count(48)


def test_a_pool_of_thousands_is_a_picture_with_a_name(page: Page, app_url: str) -> None:
    open_screen(page, app_url, scenario="growing", step="9", num_pages="512")
    canvas = page.locator(".pages canvas")
    assert canvas.get_attribute("role") == "img"
    expect(canvas).to_have_attribute("aria-label", re.compile("512 pages of 4 slots"))


def test_a_page_is_watched_without_a_pointer(page: Page, app_url: str) -> None:
    open_screen(page, app_url, **MISS)
    page.keyboard.press("/")
    page.keyboard.type("p3.1")
    expect(page.get_by_test_id("watch")).to_be_visible()
    page.get_by_test_id("watch").focus()
    page.keyboard.press("Enter")
    expect(page.get_by_test_id("until").locator("option:checked")).to_have_text("change of p3")


def test_a_choice_of_what_to_run_until_does_not_keep_the_keys(page: Page, app_url: str) -> None:
    open_screen(page, app_url, scenario="growing", step="5")
    board = page.get_by_test_id("board")
    until = page.get_by_test_id("until")
    until.focus()
    until.select_option("finish")
    expect(until).to_be_focused()
    page.keyboard.press("n")
    expect(board).to_have_attribute("data-step", "37")
    until.dispatch_event("pointerdown")  # as a pointer does that opens the list
    until.select_option("allocation")
    expect(page.get_by_test_id("until-on")).to_be_focused()
    page.keyboard.press("Home")
    expect(board).to_have_attribute("data-step", "0")
    expect(until).to_have_value("allocation")
    page.keyboard.press("n")
    expect(board).not_to_have_attribute("data-step", "0")
    page.keyboard.press("p")
    expect(board).to_have_attribute("data-step", "0")


@pytest.mark.parametrize("presenter", ["on", "off"])
def test_every_way_of_moving_has_a_key(page: Page, app_url: str, presenter: str) -> None:
    open_screen(page, app_url, scenario="growing", step="5", presenter=presenter)
    board = page.get_by_test_id("board")
    for key, step in (
        ("ArrowRight", "6"),
        ("ArrowLeft", "5"),
        ("End", "37"),
        ("Home", "0"),
        ("n", "37"),
    ):
        page.keyboard.press(key)
        expect(board).to_have_attribute("data-step", step)
    page.keyboard.press("p")
    expect(page.locator(".board .status")).to_have_text("No tick before this moment")
    page.keyboard.press("Home")
    page.keyboard.press("Space")
    expect(page.get_by_test_id("play")).to_have_text("Pause")
    page.keyboard.press("Space")
    expect(page.get_by_test_id("play")).to_have_text("Play")


def test_nothing_moves_by_itself_for_those_who_asked_for_that(page: Page, app_url: str) -> None:
    page.emulate_media(reduced_motion="reduce")
    open_screen(page, app_url, scenario="growing", step="5", **ALL)
    longest = page.evaluate(
        "() => {"
        + DEEP
        + """
        const longest = (text) => Math.max(...text.split(',').map(
            (t) => parseFloat(t) * (t.trim().endsWith('ms') ? 1 : 1000)));
        return Math.max(...deep(document).map((e) => {
            const style = getComputedStyle(e);
            return Math.max(longest(style.animationDuration), longest(style.transitionDuration));
        }));
    }"""
    )
    assert longest <= 1
    page.keyboard.press("Space")
    board = page.get_by_test_id("board")
    expect(board).to_have_attribute("data-step", re.compile(r"^([89]|\d\d)$"), timeout=15_000)


# ---- the browser's own Back --------------------------------------------------------------------


def test_back_goes_to_the_moment_and_the_run_before(page: Page, app_url: str) -> None:
    open_screen(page, app_url, scenario="growing", step="5")
    board = page.get_by_test_id("board")
    for step in ("6", "7"):
        page.keyboard.press("ArrowRight")
        expect(board).to_have_attribute("data-step", step)
        page.wait_for_url(re.compile(f"step={step}"))
        settled(page)
    page.go_back()
    expect(board).to_have_attribute("data-step", "6", timeout=15_000)
    page.wait_for_timeout(500)
    assert "step=6" in page.url
    page.go_forward()
    expect(board).to_have_attribute("data-step", "7", timeout=15_000)
    page.get_by_label("Scenario").click()
    page.get_by_role("option", name=re.compile("^Thrash")).click()
    page.wait_for_url(re.compile("scenario=thrash"))
    settled(page)
    page.go_back()
    page.wait_for_url(re.compile("scenario=growing"))
    expect(board).to_have_attribute("data-step", "7", timeout=15_000)
    board_is_drawn(page)
    # The field of the run before is there at first, then both, then the new one alone.
    page.wait_for_function(
        "[...document.querySelectorAll('input[aria-label=Scenario]')].map((one) => one.value)"
        ".join('|') === 'One sequence grows over pages'",
        timeout=60_000,
    )


def test_back_works_on_a_screen_without_the_board(page: Page, app_url: str) -> None:
    page.goto(f"{app_url}/pages?{urlencode({'scenario': 'growing', 'step': '5'})}")
    settled(page)
    page.get_by_role("button", name=re.compile("^Step")).click()
    expect(page.locator(".position")).to_contain_text("step 6")
    page.wait_for_url(re.compile("step=6"))
    settled(page)
    page.go_back()
    expect(page.locator(".position")).to_contain_text("step 5", timeout=15_000)


def test_a_message_moves_nothing_and_can_be_closed(page: Page, app_url: str) -> None:
    open_screen(page, app_url, scenario="growing", step="9")
    calm = page.get_by_test_id("board").bounding_box()
    open_screen(page, app_url, scenario="growing", step="999")
    message = page.locator(".st-key-messages")
    expect(message.get_by_role("alert")).to_contain_text("step 999 is not recorded")
    assert page.get_by_test_id("board").bounding_box() == calm
    message.get_by_role("button", name="Close").click()
    expect(message).to_have_count(0)
