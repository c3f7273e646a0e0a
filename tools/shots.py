"""Takes screenshots of the running app in Debian's Chromium.

    python tools/shots.py               the pictures of the README and the documents, into docs/
    python tools/shots.py --all DIR     every screen in both themes and three window sizes

A picture of a moment looks for it by what its sentence says, so that a scenario may change; the
app is then opened at its address and must say the same.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlencode

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # run as a script from anywhere

from playwright.sync_api import Browser, Page, expect, sync_playwright

from pagedviz.model import load_tiny
from pagedviz.scenarios import ScenarioRun, load_scenario
from pagedviz.trace.trace import Moment
from pagedviz.ui.links import make_link
from pagedviz.views.board import moment_sentence

ROOT = Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs"
CHROMIUM = "/usr/bin/chromium"
FLAGS = ("--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking")
PATIENCE = 60_000  # ms
README_SIZE = (1400, 900)
SIZES = ((1280, 720), (1920, 1080), (390, 844))
SCHEMES = ("light", "dark")


class Shot(NamedTuple):
    """The first moment of a scenario, from `step` on, whose sentence contains `says`, or that
    step's end. extra: more parameters of the address. screen: last part of the address, "" is
    Step. key: pressed when all is drawn. scroll_to: a selector to bring to the top. opens_setup:
    with the sidebar."""

    name: str
    scenario: str
    says: str = ""
    step: int = 0
    is_event: bool = True
    scheme: str = "light"
    extra: tuple[tuple[str, str], ...] = ()
    screen: str = ""
    key: str = ""
    scroll_to: str = ""
    opens_setup: bool = False


PANELS = ".st-key-panels"
MISS = ("shared_prompt", "differs", 2)
COPY = ("samples", "are copied to", 1)
SWAP = ("swap", "host pages, so that", 6)
WHAT_IF = json.dumps([{"step": 20, "settings": {"chunk_size": 8}}])
FAULT_RUN = (("scenario", "fault-doubled-token"), ("step", "24"))
SIZES_4_16 = (("block_size", "4"), ("with", json.dumps({"block_size": 16})))
DOCUMENTS = (
    Shot("step", *MISS),
    Shot("step-thrash", "thrash", "is evicted", step=28, scheme="dark"),
    Shot("step-burst", "burst", "(32 of 32 in budget)", step=8, is_event=False),
    Shot("prefix-cache", *MISS, screen="prefix_cache"),
    Shot("compare", "shared_prompt", step=20, extra=SIZES_4_16, screen="compare"),
    Shot("break-it", "growing", screen="break_it"),
)
SCREENS = (
    Shot("growing", "growing", "takes", step=4),
    Shot("chat", "chat", "hits", step=8),
    Shot("large", "growing", "computed", 9, is_event=False, extra=(("num_pages", "512"),)),
    Shot("problem", "growing", "computed", 9, is_event=False, extra=(("block_size", "0"),)),
    Shot("finished", "shared_prompt", step=999, is_event=False),
    Shot("samples", *COPY),
    Shot("samples-beams", "samples", step=7, is_event=False),
    Shot("samples-presenter", *COPY, extra=(("presenter", "on"),)),
    Shot("samples-finished", "samples", step=999, is_event=False),
    Shot("swap", *SWAP),
    Shot("swap-out", "swap", step=6, is_event=False),
    Shot("swap-presenter", *SWAP, extra=(("presenter", "on"),)),
    Shot("swap-table", *SWAP, key="t"),
    Shot("swap-setup", *SWAP, opens_setup=True),
    Shot("keys", *MISS, key="?"),
    Shot("search", *MISS, key="/"),
    Shot("moments", *MISS, key="b"),
    Shot("table", *MISS, key="t"),
    Shot("setup", *MISS, opens_setup=True),
    Shot("panel-attention", *MISS, scroll_to=PANELS),
    Shot("panel-page", *MISS, extra=(("panel", "page"),), scroll_to=PANELS),
    Shot("panel-what-if", *MISS, extra=(("panel", "what-if"),), scroll_to=PANELS),
    Shot("panel-proof", "thrash", step=12, extra=(("panel", "proof"),), scroll_to=PANELS),
    Shot("panel-none", *MISS, extra=(("panel", "none"),), scroll_to=PANELS),
    Shot("branch", "thrash", step=24, is_event=False, extra=(("what_if", WHAT_IF),)),
    Shot("pages", "thrash", "is evicted", 28, screen="pages"),
    Shot("pages-large", "growing", step=9, extra=(("num_pages", "512"),), screen="pages"),
    Shot("prefix-cache-thrash", "thrash", "is evicted", 28, screen="prefix_cache"),
    Shot("prefix-cache-start", "growing", screen="prefix_cache"),
    Shot("swap-charts", *SWAP, extra=(("panel", "none"),), scroll_to=".st-key-occupancy"),
    Shot("swap-pages", *SWAP, screen="pages"),
    Shot("swap-trace", *SWAP, screen="trace"),
    Shot("swap-model", *SWAP, screen="model"),
    Shot("compare-itself", "thrash", step=30, is_event=False, screen="compare"),
    Shot("fault-run", "growing", extra=FAULT_RUN),
    Shot("fault-run-violation", "growing", extra=FAULT_RUN, scroll_to=".st-key-violation"),
    Shot("fault-chosen", "growing", extra=(("fault", "doubled-token"),), screen="break_it"),
    Shot("trace", "thrash", "is evicted", 28, screen="trace"),
    Shot("model", "growing", screen="model"),
)


def link_to(shot: Shot) -> dict[str, str]:
    """The address of the moment. Raises SystemExit if the scenario does not have it."""
    model = load_tiny()
    assert model.tokenizer is not None
    trace = ScenarioRun(load_scenario(shot.scenario), model).run()
    last = trace.num_steps - 1
    if not shot.says:
        return make_link(shot.scenario, {}, Moment(min(shot.step, last))) | dict(shot.extra)
    for step in range(shot.step, last + 1):
        events = range(1, trace.num_events(step) + 1) if shot.is_event else (None,)
        for event in events:
            moment = Moment(step, event)
            if shot.says in moment_sentence(trace, moment, model.tokenizer.token_text):
                return make_link(shot.scenario, {}, moment) | dict(shot.extra)
    raise SystemExit(f"{shot.name}: no moment of {shot.scenario} says {shot.says!r}")


@contextmanager
def running_app() -> Iterator[str]:
    """Address of the app, started for as long as the block runs."""
    app = subprocess.Popen(
        [sys.executable, "-m", "pagedviz", "app", "--port", "0"],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert app.stdout is not None
        found = re.search(r"http://\S+:\d+", app.stdout.readline())
        if found is None:
            raise SystemExit("the app did not start")
        yield found.group()
    finally:
        app.terminate()
        app.wait(timeout=20)


def take(page: Page, url: str, shot: Shot, link: dict[str, str], path: Path) -> None:
    page.goto(f"{url}/{shot.screen}?{urlencode(link)}")
    has_charts = ("presenter", "on") not in shot.extra
    wait_until_drawn(page, has_board=not shot.screen, has_charts=has_charts)
    if shot.says and not shot.screen:
        expect(page.get_by_test_id("sentence")).to_contain_text(shot.says)
    if shot.key:
        page.keyboard.press(shot.key)
        expect(page.locator("dialog[open]")).to_be_visible()
    if shot.opens_setup:
        page.get_by_test_id("stExpandSidebarButton").click()
        expect(page.get_by_role("button", name="Apply")).to_be_visible()
        page.wait_for_timeout(500)  # the sidebar slides in
    if shot.scroll_to:
        page.locator(shot.scroll_to).evaluate("part => part.scrollIntoView()")
        page.wait_for_timeout(1500)  # heatmaps are drawn when they come into view
    page.screenshot(path=path)
    page.evaluate("localStorage.clear()")  # Streamlit opens a sidebar again that was left open
    print(path, flush=True)


def wait_until_drawn(page: Page, has_board: bool, has_charts: bool) -> None:
    """Until the script has run and the widgets, whose code arrives later, are there."""
    app = page.get_by_test_id("stApp")
    if has_board:
        expect(page.get_by_test_id("board")).to_have_attribute(
            "data-step", re.compile(r"\d"), timeout=PATIENCE
        )
        for late in (
            () if not has_charts else (".st-key-states .main-svg", ".st-key-occupancy .main-svg")
        ):
            expect(page.locator(late).first).to_be_attached(timeout=PATIENCE)
    else:
        expect(page.locator(".panel").first).to_be_visible(timeout=PATIENCE)
    expect(app).to_have_attribute("data-test-script-state", "notRunning", timeout=PATIENCE)
    expect(page.get_by_test_id("stSkeleton")).to_have_count(0, timeout=PATIENCE)
    page.evaluate("document.fonts.ready")
    page.wait_for_timeout(600)  # transitions of Streamlit's own widgets


@contextmanager
def window(browser: Browser, size: tuple[int, int], scheme: str) -> Iterator[Page]:
    width, height = size
    context = browser.new_context(
        viewport={"width": width, "height": height}, color_scheme=scheme, locale="en-GB"
    )
    try:
        yield context.new_page()
    finally:
        context.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--all", type=Path, metavar="DIR", help="every screen, into DIR")
    parser.add_argument("--only", metavar="NAME", help="only shots whose name contains this")
    options = parser.parse_args()
    everything: Path | None = options.all
    shots = DOCUMENTS if everything is None else (*DOCUMENTS, *SCREENS)
    shots = tuple(shot for shot in shots if (options.only or "") in shot.name)
    links = {shot: link_to(shot) for shot in shots}
    with running_app() as url, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=list(FLAGS))
        if everything is None:
            for shot in shots:
                with window(browser, README_SIZE, shot.scheme) as page:
                    take(page, url, shot, links[shot], DOCS / f"{shot.name}.png")
        else:
            everything.mkdir(parents=True, exist_ok=True)
            for size in SIZES:
                for scheme in SCHEMES:
                    with window(browser, size, scheme) as page:
                        for shot in shots:
                            name = f"{shot.name}-{size[0]}x{size[1]}-{scheme}.png"
                            take(page, url, shot, links[shot], everything / name)
        browser.close()


if __name__ == "__main__":
    main()
