"""What a key press costs on the board: milliseconds from the key to the painted frame.

    python -m benchmarks.bench_ui [--runs 3] [--presses 100]

The running app in Debian's Chromium, eight sequences, 100 presses at most 100 ms apart on a
finished run, best of three runs by median; beside it an empty Streamlit rerun in the same browser;
how long after the last key the charts have followed; then long runs, opened in the app and from an
exported file, stepped near their start and near their end.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import statistics
import sys
import tempfile
import time
from bisect import bisect
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlencode

from playwright.sync_api import Browser, Page, expect, sync_playwright

from benchmarks.bench_trace import record_thrash
from benchmarks.serving import served_app
from pagedviz.trace.trace import Moment
from pagedviz.ui.board import board_assets
from pagedviz.ui.launch import first_free_port
from pagedviz.views.export import export_html
from pagedviz.views.words import numbered

CHROMIUM = "/usr/bin/chromium"
FLAGS = ("--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking")
POOLS = (64, 512, 4096)
APART = 90  # ms
LONG_STEPS = 5000

# Two more stories beside the six of the burst, all long enough to be stepped through.
STORY = "Once upon a time there was a girl named Zoe. Zoe had a blue ring. One day Zoe ran home."
REQUESTS = {
    name: {"max_new_tokens": 64} for name in ("teller", "kite", "drum", "boat", "lamp", "stone")
} | {f"more {n}": {"prompt": STORY, "arrival_step": 5, "max_new_tokens": 64} for n in (1, 2)}

# Two or three at a time in every step. Few: each has its fields in the sidebar.
LONG_REQUESTS = {
    f"m{n}": {"prompt": "Once upon a time", "max_new_tokens": 480, "arrival_step": 200 * n}
    for n in range(26)
}

WATCH_REGIONS = """() => {
  window.changed = {};
  addEventListener("keydown", () => { window.lastKey = performance.now(); }, true);
  for (const name of ["states", "occupancy", "panels"]) {
    changed[name] = undefined;
    const region = document.querySelector(`.st-key-${name}`);
    const seen = () => { changed[name] = performance.now(); };
    const what = { subtree: true, childList: true, attributes: true, characterData: true };
    new MutationObserver(seen).observe(region, what);
  }
}"""
WATCH = """() => {
  const find = (at) => {
    for (const element of at.querySelectorAll("*")) {
      if (element.dataset?.testid === "board") return element;
      const inside = element.shadowRoot && find(element.shadowRoot);
      if (inside) return inside;
    }
  };
  const board = find(document);
  window.pressed = [];
  window.painted = [];
  addEventListener("keydown", () => pressed.push(performance.now()), true);
  new MutationObserver(() => painted.push(performance.now()))
    .observe(board, { attributes: true, attributeFilter: ["data-step"] });
}"""
EMPTY_APP = """
import streamlit as st
@st.fragment
def part():
    if st.button("Step"):
        st.session_state.n = st.session_state.get("n", 0) + 1
    st.text(f"at {st.session_state.get('n', 0)}")
part()
"""
WATCH_EMPTY = """() => {
  window.pressed = [];
  window.painted = [];
  addEventListener("click", () => pressed.push(performance.now()), true);
  let last = "";
  const look = () => {
    const text = document.querySelector("[data-testid=stText]").textContent;
    if (last && text !== last) {
      const { port1, port2 } = new MessageChannel();
      port1.onmessage = () => painted.push(performance.now());
      port2.postMessage(0);
    }
    last = text;
    requestAnimationFrame(look);
  };
  look();
}"""


APP = [sys.executable, "-m", "pagedviz", "app", "--port", "0"]


@contextmanager
def served(command: list[str], cwd: Path) -> Iterator[str]:
    """Address of a server, for as long as the block runs."""
    with served_app(command, cwd) as app:
        yield app.url


def press(page: Page, keys: list[str]) -> list[float]:
    """Milliseconds from each key to the first painted frame after it."""
    page.evaluate("() => { pressed.length = 0; painted.length = 0; }")
    for key in keys:
        due = time.monotonic() + APART / 1000
        page.keyboard.press(key)
        page.wait_for_timeout(max(0.0, due - time.monotonic()) * 1000)
    page.wait_for_timeout(500)
    pressed, painted = page.evaluate("() => [pressed, painted]")
    if len(painted) < len(pressed):
        print(f"  (busy machine: {len(pressed)} presses shared {len(painted)} frames)")
    # Two presses in one frame, one there and one back, leave nothing to paint.
    frames = ((start, bisect(painted, start)) for start in pressed)
    return [painted[place] - start for start, place in frames if place < len(painted)]


def there_and_back(presses: int) -> list[str]:
    """Twice to and fro, so that a run of a few dozen steps is enough."""
    part = ["ArrowRight"] * (presses // 4), ["ArrowLeft"] * (presses // 4)
    return [*part[0], *part[1], *part[0], *part[1]]


def said(times: list[float]) -> str:
    ordered = sorted(times)
    return (
        f"median {statistics.median(times):5.1f} ms   p95 {ordered[len(ordered) * 95 // 100]:5.1f}"
        f" ms   max {ordered[-1]:5.1f} ms"
    )


def best(page: Page, presses: int, runs: int) -> list[float]:
    press(page, there_and_back(8))  # warm
    return min((press(page, there_and_back(presses)) for _ in range(runs)), key=statistics.median)


def bench_pools(browser: Browser, presses: int, runs: int) -> None:
    with tempfile.TemporaryDirectory() as folder, served(APP, Path(folder)) as url:
        for num_pages in POOLS:
            link = {"scenario": "burst", "step": 12, "num_pages": num_pages}
            link["requests"] = json.dumps(REQUESTS)
            page = browser.new_page(viewport={"width": 1400, "height": 900})
            page.goto(f"{url}/?{urlencode(link)}")
            page.wait_for_selector("[data-testid=board][data-step='12']", timeout=60_000)
            page.wait_for_timeout(3000)
            page.evaluate(WATCH)
            print(
                f"{num_pages:5d} pages, 8 sequences  {said(best(page, presses, runs))}", flush=True
            )
            page.close()


def bench_empty(browser: Browser, presses: int, runs: int) -> None:
    """The same number of clicks on an app that has nothing but a button and a line of text."""
    with tempfile.TemporaryDirectory() as folder:
        script = Path(folder, "empty.py")
        script.write_text(EMPTY_APP, encoding="utf-8")
        options = {
            "server.port": first_free_port("localhost"),
            "server.address": "localhost",
            "server.headless": "true",
            "browser.gatherUsageStats": "false",
            "runner.postScriptGC": "false",
        }
        flags = [f"--{name}={value}" for name, value in options.items()]
        command = [sys.executable, "-m", "streamlit", "run", str(script), *flags]
        with served(command, Path(folder)) as url:
            page = browser.new_page(viewport={"width": 1400, "height": 900})
            start = time.perf_counter()
            page.goto(url)
            button = page.get_by_role("button", name="Step")
            button.wait_for()
            opened = time.perf_counter() - start
            print(
                f"an empty Streamlit app opened in {opened:.2f} s, nothing in the browser's cache"
            )
            page.evaluate(WATCH_EMPTY)
            found: list[list[float]] = []
            for _ in range(runs):
                page.evaluate("() => { pressed.length = 0; painted.length = 0; }")
                for _ in range(presses):
                    button.click()
                    page.wait_for_timeout(150)
                pressed, painted = page.evaluate("() => [pressed, painted]")
                pairs = zip(pressed, painted, strict=False)
                found.append([there - start for start, there in pairs])
            print(
                f"an empty Streamlit rerun   {said(min(found, key=statistics.median))}", flush=True
            )
            page.close()


def bench_follow(browser: Browser, presses: int, runs: int) -> None:
    """From the last of three keys to the last change of what follows them: drawn, not only sent."""
    del runs
    with tempfile.TemporaryDirectory() as folder, served(APP, Path(folder)) as url:
        for panel in ("attention", "page"):
            page = browser.new_page(viewport={"width": 1400, "height": 1400})
            page.goto(f"{url}/?{urlencode({'scenario': 'burst', 'step': 12, 'panel': panel})}")
            page.wait_for_selector("[data-testid=board][data-step='12']", timeout=60_000)
            page.wait_for_timeout(4000)
            page.evaluate(WATCH_REGIONS)
            times: dict[str, list[float]] = {"states": [], "occupancy": [], "panels": []}
            for n in range(max(4, presses // 5)):
                page.evaluate("() => { for (const name in changed) changed[name] = undefined; }")
                for _ in range(3):
                    page.keyboard.press("ArrowRight" if n % 2 else "ArrowLeft")
                    page.wait_for_timeout(60)
                page.wait_for_timeout(2500)
                for name, changed in page.evaluate("() => changed").items():
                    if changed is not None:
                        times[name].append(changed - page.evaluate("() => lastKey"))
            if panel == "attention":
                for name in ("states", "occupancy"):
                    print(f"{name:9} has followed     {said(times[name])}", flush=True)
            print(f"{panel:9} has followed     {said(times['panels'])}", flush=True)
            page.close()


def bench_open(browser: Browser, presses: int, runs: int) -> None:
    """A busy run of 5,000 steps on 64 pages in the app, from the address to the board."""
    link = {"scenario": "thrash", "num_pages": 64, "block_size": 16}
    link["requests"] = json.dumps(LONG_REQUESTS, separators=(",", ":"))
    with tempfile.TemporaryDirectory() as folder, served(APP, Path(folder)) as url:
        medians = []
        for number in range(2):
            page = browser.new_page(viewport={"width": 1400, "height": 900})
            start = time.perf_counter()
            page.goto(f"{url}/?scenario=growing&step=3")
            page.wait_for_selector("[data-testid=board][data-step='3']", timeout=60_000)
            if number:
                opened = time.perf_counter() - start
                print(f"a short run, known to the server: opened in {opened:.2f} s", flush=True)
            page.close()
        for number, step in enumerate((3, 10, LONG_STEPS - 60)):
            page = browser.new_page(viewport={"width": 1400, "height": 900})
            start = time.perf_counter()
            page.goto(f"{url}/?{urlencode(link | {'step': step})}")
            page.wait_for_selector(f"[data-testid=board][data-step='{step}']", timeout=60_000)
            opened = time.perf_counter() - start
            if number == 0:
                print(f"long run, not yet recorded: opened at step {step} in {opened:.2f} s")
                last = page.get_by_test_id("position")
                expect(last).to_have_text(re.compile(rf"of {LONG_STEPS - 1} "), timeout=300_000)
                seconds = time.perf_counter() - start
                print(f"  all {LONG_STEPS} steps recorded after {seconds:.0f} s", flush=True)
                page.close()
                continue
            page.wait_for_timeout(8000)
            page.evaluate(WATCH)
            times = best(page, presses, runs)
            medians.append(statistics.median(times))
            print(f"opened at step {step:5d} in {opened:.2f} s   {said(times)}", flush=True)
            page.close()
        print(f"late / early: {medians[1] / medians[0]:.2f}")


def bench_long(browser: Browser, presses: int, runs: int) -> None:
    trace = record_thrash(LONG_STEPS)
    trace.fold()
    start = time.perf_counter()
    text = export_html(trace, numbered, "long", board_assets(), Moment(10))
    seconds = time.perf_counter() - start
    print(f"{LONG_STEPS} steps, 64 pages: packed in {seconds:.1f} s, {len(text) / 1e6:.1f} MB")
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "long.html")
        file.write_text(text, encoding="utf-8")
        medians = []
        for step in (10, LONG_STEPS - 60):
            page = browser.new_page(viewport={"width": 1400, "height": 900})
            start = time.perf_counter()
            page.goto(f"{file.as_uri()}#step={step}")
            page.wait_for_selector(f"[data-testid=board][data-step='{step}']", timeout=60_000)
            opened = time.perf_counter() - start
            page.wait_for_timeout(8000)
            page.evaluate(WATCH)
            times = best(page, presses, runs)
            medians.append(statistics.median(times))
            print(f"opened at step {step:5d} in {opened:.2f} s   {said(times)}", flush=True)
            page.close()
        print(f"late / early: {medians[1] / medians[0]:.2f}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--presses", type=int, default=100)
    parser.add_argument("--only", choices=("pools", "empty", "follow", "open", "long"))
    options = parser.parse_args()
    parts = {
        "pools": bench_pools,
        "empty": bench_empty,
        "follow": bench_follow,
        "open": bench_open,
        "long": bench_long,
    }
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=list(FLAGS))
        for name, part in parts.items():
            if options.only in (None, name):
                print(f"-- {name}, machine load {os.getloadavg()[0]:.1f}")
                part(browser, options.presses, options.runs)
        browser.close()


if __name__ == "__main__":
    main()
