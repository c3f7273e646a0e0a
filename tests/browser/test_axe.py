"""axe finds nothing to complain about, on any screen, in both themes.

axe does not see into a canvas; that each has a name and that a table says the same is tested in
test_keyboard.py.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Page, expect

from pagedviz.views.theme import DARK, LIGHT
from tests.browser.test_screens import ALL, open_screen, settled

TAGS = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]
STREAMLITS = [
    # The box around its file picker has a role and a name at once; what is in it is sound.
    '[data-testid="stFileUploaderDropzone"]',
]
SHADOW_HOST = '[data-testid="stBidiComponentIsolated"]'
MISS = {"scenario": "shared_prompt", "step": "16", "event": "6"}


def violations(page: Page, within: str | None = None) -> list[str]:
    """within: an element of the board; None is the whole page."""
    context: Any = {"exclude": [[selector] for selector in STREAMLITS]}
    if within is not None:
        context["include"] = [{"fromShadowDom": [SHADOW_HOST, within]}]
    options = {"resultTypes": ["violations"], "runOnly": TAGS}
    found = Axe().run(page, context=context, options=options).response["violations"]
    return [
        f"{rule['id']}: {node['html'][:150]} {node['target']}"
        for rule in found
        for node in rule["nodes"][:3]
    ]


@pytest.fixture(scope="module")
def wide(browser: Browser, app_url: str) -> Iterator[Page]:
    """One window for the tests here; it changes its theme without being loaded again."""
    context = browser.new_context(viewport={"width": 1280, "height": 720})
    yield context.new_page()
    context.close()


def rgb(color: str) -> str:
    """#RRGGBB as a browser computes it."""
    return f"rgb({', '.join(str(int(color[i : i + 2], 16)) for i in (1, 3, 5))})"


def still(page: Page) -> None:
    """Nothing is on its way in or out any more."""
    page.wait_for_function(
        "document.getAnimations().every((one) => one.playState !== 'running'"
        " || one.effect.getComputedTiming().iterations === Infinity)"
    )


def in_both_themes(page: Page, within: str | None = None) -> list[str]:
    found = []
    for scheme, theme in (("dark", DARK), ("light", LIGHT)):
        page.emulate_media(color_scheme=scheme, reduced_motion="reduce")
        # At once, without the server: it hears of a new theme at the next rerun.
        app = page.get_by_test_id("stApp")
        expect(app).to_have_css("background-color", rgb(theme.background))
        if page.get_by_test_id("board").count():
            expect(page.get_by_test_id("board")).to_have_attribute("data-theme", theme.name)
        if page.locator(".panel").count():
            expect(page.locator(".panel").first).to_have_css("color", rgb(theme.text))
        settled(page)
        found += [f"{scheme} {violation}" for violation in violations(page, within)]
    return found


def test_a_page_without_names_is_found_out(browser: Browser) -> None:
    context = browser.new_context()
    page = context.new_page()
    page.set_content("<html><body><button></button><img src=''><input></body></html>")
    assert len(violations(page)) >= 4
    context.close()


def test_the_step_screen(wide: Page, app_url: str) -> None:
    open_screen(wide, app_url, **ALL, **MISS)
    assert in_both_themes(wide) == []


def test_what_opens_over_the_board(wide: Page, app_url: str) -> None:
    open_screen(wide, app_url, **MISS)
    for key, panel in (
        ("?", "key-sheet"),
        ("/", "search-panel"),
        ("b", "bookmarks"),
        ("t", "table-panel"),
    ):
        wide.keyboard.press(key)
        expect(wide.locator("dialog[open]")).to_have_attribute("data-testid", panel)
        if panel == "search-panel":
            wide.get_by_test_id("query").fill("p3")
            expect(wide.get_by_test_id("watch")).to_be_visible()
        # The board behind it is looked at without one.
        assert in_both_themes(wide, "dialog[open]") == [], panel
        wide.keyboard.press("Escape")
        expect(wide.locator("dialog[open]")).to_have_count(0)


@pytest.mark.parametrize(
    ("scenario", "step", "event", "panel", "charts"),
    [("samples", "1", "1", "page", "on"), ("swap", "6", "5", "none", "off")],
    ids=["copies and a page", "a host pool and no panel"],
)
def test_copies_and_a_host_pool(
    wide: Page, app_url: str, scenario: str, step: str, event: str, panel: str, charts: str
) -> None:
    """Attention was looked at with the Step screen."""
    link = {"scenario": scenario, "step": step, "event": event}
    open_screen(wide, app_url, panel=panel, charts=charts, **link)
    assert in_both_themes(wide) == []


def test_a_branch_a_message_and_the_panel_of_what_if(wide: Page, app_url: str) -> None:
    what_if = '[{"step":20,"settings":{"chunk_size":8}}]'
    open_screen(wide, app_url, scenario="thrash", step="999", what_if=what_if, panel="what-if")
    expect(wide.get_by_text("is not recorded")).to_be_visible()
    assert in_both_themes(wide) == []


@pytest.mark.parametrize(
    "screen", ["pages", "prefix_cache", "compare", "break_it", "trace", "model"]
)
def test_the_other_screens(wide: Page, app_url: str, screen: str) -> None:
    open_screen(wide, app_url, screen, scenario="thrash", step="30", event="10")
    assert in_both_themes(wide) == []


@pytest.mark.parametrize(
    ("link", "button"),
    [(MISS, "Apply"), ({"scenario": "fault-doubled-token"}, "Open a scenario")],
    ids=["of a scenario", "of a faulty engine"],
)
def test_the_sidebar(page: Page, app_url: str, link: dict[str, str], button: str) -> None:
    """In a window of its own, because a window remembers that it is open."""
    page.set_viewport_size({"width": 1280, "height": 720})
    open_screen(page, app_url, **link)
    page.get_by_test_id("stExpandSidebarButton").click()
    expect(page.get_by_role("button", name=re.compile(f"^{button}"))).to_be_visible()
    settled(page)
    still(page)  # it slides in, and axe would measure it half transparent
    assert in_both_themes(page) == []
