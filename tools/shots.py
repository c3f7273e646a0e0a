"""Takes the screenshots in docs/ from the running app, in Debian's Chromium.

    python tools/shots.py               the pictures of the README and the documents
    python tools/shots.py --all DIR     every moment in both themes and three window sizes

Each picture is of a moment that is looked for by what its sentence says, so that a scenario may
change; the app is then opened at its address and must say the same.
"""

from __future__ import annotations

import argparse
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
SIZES = (README_SIZE, (1280, 720), (1920, 1080), (390, 844))
SCHEMES = ("light", "dark")


class Shot(NamedTuple):
    """The first moment of a scenario, from `step` on, whose sentence contains `says`; at the end
    of a step or right after an event. settings: what differs from the scenario."""

    name: str
    scenario: str
    says: str
    step: int = 0
    is_event: bool = True
    scheme: str = "light"
    settings: tuple[tuple[str, str], ...] = ()


SHOTS = (
    Shot("step", "shared_prompt", "differs", step=2),
    Shot("step-thrash", "thrash", "is evicted", step=28, scheme="dark"),
    Shot("step-burst", "burst", "(32 of 32 in budget)", step=8, is_event=False),
)
MORE = (
    Shot("growing", "growing", "takes", step=4),
    Shot("chat", "chat", "hits", step=8),
    Shot("large", "growing", "computed", 9, is_event=False, settings=(("num_pages", "512"),)),
    Shot("problem", "growing", "computed", 9, is_event=False, settings=(("block_size", "0"),)),
)


def link_to(shot: Shot) -> dict[str, str]:
    """The address of the moment. Raises SystemExit if the scenario does not have it."""
    model = load_tiny()
    assert model.tokenizer is not None
    trace = ScenarioRun(load_scenario(shot.scenario), model).run()
    for step in range(shot.step, trace.num_steps):
        events = range(1, trace.num_events(step) + 1) if shot.is_event else (None,)
        for event in events:
            moment = Moment(step, event)
            if shot.says in moment_sentence(trace, moment, model.tokenizer.token_text):
                return make_link(shot.scenario, {}, moment) | dict(shot.settings)
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


def take(browser: Browser, url: str, shot: Shot, size: tuple[int, int], path: Path) -> None:
    width, height = size
    context = browser.new_context(
        viewport={"width": width, "height": height}, color_scheme=shot.scheme
    )
    try:
        page = context.new_page()
        page.goto(f"{url}/?{urlencode(link_to(shot))}")
        wait_until_drawn(page)
        expect(page.get_by_test_id("sentence")).to_contain_text(shot.says)
        page.screenshot(path=path)
        print(path, flush=True)
    finally:
        context.close()


def wait_until_drawn(page: Page) -> None:
    """Until the script has run and the widgets, whose code arrives later, are there."""
    expect(page.get_by_test_id("board")).to_have_attribute(
        "data-step", re.compile(r"\d"), timeout=PATIENCE
    )
    app = page.get_by_test_id("stApp")
    expect(app).to_have_attribute("data-test-script-state", "notRunning", timeout=PATIENCE)
    for late in (".st-key-states .main-svg", ".st-key-occupancy .main-svg"):
        expect(page.locator(late).first).to_be_attached(timeout=PATIENCE)
    page.evaluate("document.fonts.ready")
    page.wait_for_timeout(600)  # transitions of Streamlit's own widgets


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--all", type=Path, metavar="DIR", help="every theme and size, into DIR")
    everything: Path | None = parser.parse_args().all
    with running_app() as url, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=list(FLAGS))
        if everything is None:
            for shot in SHOTS:
                take(browser, url, shot, README_SIZE, DOCS / f"{shot.name}.png")
        else:
            everything.mkdir(parents=True, exist_ok=True)
            for shot in (*SHOTS, *MORE):
                for scheme in SCHEMES:
                    for size in SIZES:
                        name = f"{shot.name}-{size[0]}x{size[1]}-{scheme}.png"
                        take(browser, url, shot._replace(scheme=scheme), size, everything / name)
        browser.close()


if __name__ == "__main__":
    main()
