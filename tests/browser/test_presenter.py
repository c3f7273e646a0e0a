"""Presenter: the board alone, large enough for the back row, in the app and in a saved file."""

from __future__ import annotations

import re
from urllib.parse import parse_qs, urlsplit

import pytest
from playwright.sync_api import Page, expect

from tests.browser.test_screens import ALL, PATIENCE, open_screen, settled

# Of each visible text on the board: the class of its element, its size in px.
TEXTS = """root => {
    const found = [];
    const walk = document.createTreeWalker(root, NodeFilter.SHOW_TEXT);
    while (walk.nextNode()) {
        const element = walk.currentNode.parentElement;
        if (!walk.currentNode.data.trim() || !element.checkVisibility()) continue;
        if (element.closest(".unseen")) continue;
        const size = parseFloat(getComputedStyle(element).fontSize);
        found.push([element.className || element.tagName, size]);
    }
    return found;
}"""


@pytest.mark.parametrize("num_pages", [64, 512])
def test_it_fits_the_projector_and_reads_from_the_back_row(
    page: Page, app_url: str, num_pages: int
) -> None:
    page.set_viewport_size({"width": 1280, "height": 720})
    link = {"scenario": "burst", "step": "20", "num_pages": str(num_pages), "presenter": "on"}
    open_screen(page, app_url, **ALL, **link)
    root = page.get_by_test_id("board")
    for scheme in ("light", "dark"):
        page.emulate_media(color_scheme=scheme)
        expect(root).to_have_attribute("data-theme", scheme)
        expect(root).to_have_class("board presenter")
        for hidden in ("stHeader", "stSidebar", "stPlotlyChart"):
            expect(page.get_by_test_id(hidden).locator("visible=true")).to_have_count(0)
        expect(page.locator(".st-key-title, .st-key-panels").locator("visible=true")).to_have_count(
            0
        )
        box = root.bounding_box()
        assert box is not None and box["y"] >= 0 and box["y"] + box["height"] <= 720
        assert box["width"] >= 1200
        sizes = root.evaluate(TEXTS)
        assert min(size for _, size in sizes) >= 16
        assert dict(sizes)["t"] >= 20
        assert (
            page.get_by_test_id("sentence").evaluate(
                "e => parseFloat(getComputedStyle(e).fontSize)"
            )
            >= 24
        )
        for part in (".sequences", ".pages", ".sentence", ".position", ".hash"):
            expect(root.locator(part).first).to_be_in_viewport(ratio=1)
        for name in ("First step", "Back", "Step", "Last step", "Play"):
            expect(page.get_by_role("button", name=name, exact=True)).to_be_in_viewport(ratio=1)


def test_a_key_begins_it_the_address_keeps_it_and_the_same_key_ends_it(
    page: Page, app_url: str
) -> None:
    open_screen(page, app_url, scenario="thrash", step="30", charts="on")
    root = page.get_by_test_id("board")
    there = root.get_attribute("data-state-hash")
    root.evaluate("e => { e.dataset.first = '1' }")
    page.keyboard.press("?")
    expect(page.get_by_test_id("key-sheet")).to_contain_text("presenter, for a lecture")
    page.keyboard.press("Escape")
    page.keyboard.press("l")
    expect(root).to_have_class("board presenter")
    page.wait_for_url(re.compile("presenter=on"))
    expect(page.locator("[data-testid=stPlotlyChart]:visible")).to_have_count(0)
    settled(page)
    page.keyboard.press("ArrowRight")
    expect(root).to_have_attribute("data-step", "31")
    page.wait_for_url(re.compile("step=31"))
    page.keyboard.press("ArrowLeft")
    page.wait_for_url(re.compile("step=30"))
    # The board is where it was, not another one in its place.
    expect(root).to_have_attribute("data-first", "1")
    page.reload()
    expect(root).to_have_class("board presenter", timeout=PATIENCE)
    expect(root).to_have_attribute("data-state-hash", str(there))
    page.get_by_role("button", name="Leave presenter").click()
    expect(root).to_have_class("board")
    page.wait_for_url(lambda url: "presenter" not in parse_qs(urlsplit(url).query))
    expect(page.get_by_test_id("stHeader")).to_be_visible()
    expect(page.locator(".st-key-states")).to_be_visible(timeout=PATIENCE)


# Of each page that somebody holds: its name, the letters of its owners, and whether both are whole
# and beside each other or below.
OWNERS = """root => [...root.querySelectorAll('.page.active')].map((page) => {
    const [name, owners] = ['.label', '.owners'].map((part) => page.querySelector(part));
    const range = new Range();
    const box = (e) => { range.selectNodeContents(e); return range.getBoundingClientRect(); };
    const [one, other, cell] = [box(name), box(owners), page.getBoundingClientRect()];
    const isApart = one.right <= other.left + 1 || one.bottom <= other.top + 1;
    const isInside = [one, other].every((b) => b.left >= cell.left && b.right <= cell.right
        && b.top >= cell.top && b.bottom <= cell.bottom);
    const isWhole = name.scrollWidth <= name.clientWidth;
    return [name.textContent, owners.textContent, isApart && isInside && isWhole, page.title];
})"""


@pytest.mark.parametrize("presenter", ["on", "off"])
def test_a_list_of_owners_is_whole_or_ends_in_a_plus(
    page: Page, app_url: str, presenter: str
) -> None:
    for width, step in ((1280, "1"), (1280, "8"), (390, "8")):
        page.set_viewport_size({"width": width, "height": 720})
        open_screen(page, app_url, scenario="samples", step=step, presenter=presenter)
        shown = page.get_by_test_id("board").evaluate(OWNERS)
        assert any("by A, B, C," in title for *_, title in shown)
        for name, letters, is_clear, title in shown:
            assert is_clear, (name, letters)
            held = re.findall(r"\b[A-Z]\b", title)
            assert letters == "".join(held) or (letters[-1] == "+" and len(held) >= len(letters))
