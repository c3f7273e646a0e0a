"""What a key press costs on the board: milliseconds from the key to the painted frame.

    python -m benchmarks.bench_ui [--runs 3] [--presses 100]

The running app in Debian's Chromium, eight sequences, 100 presses at most 100 ms apart on a
finished run, best of three runs by median; beside it an empty Streamlit rerun in the same browser;
then one long run, opened from an exported file, stepped near its start and near its end.
"""

from __future__ import annotations

import argparse
import json
import re
import statistics
import subprocess
import sys
import tempfile
import time
from bisect import bisect
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlencode

from playwright.sync_api import Browser, Page, sync_playwright

from benchmarks.bench_trace import record_thrash
from pagedviz.trace.trace import Moment
from pagedviz.ui.board import board_assets
from pagedviz.ui.launch import first_free_port
from pagedviz.views.export import export_html
from pagedviz.views.words import numbered

ROOT = Path(__file__).resolve().parents[1]
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


@contextmanager
def served(command: list[str], cwd: Path) -> Iterator[str]:
    """Address of a server, for as long as the block runs."""
    env = {"PATH": "/usr/bin:/bin", "PYTHONPATH": str(ROOT), "OPENBLAS_NUM_THREADS": "1"}
    process = subprocess.Popen(
        command, cwd=cwd, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    assert process.stdout is not None
    try:
        for line in process.stdout:
            if found := re.search(r"http://\S+:\d+", line):
                yield found.group()
                return
        raise SystemExit(f"no address from {' '.join(command)}")
    finally:
        process.terminate()
        process.wait(timeout=20)


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
    command = [sys.executable, "-m", "pagedviz", "app", "--port", str(first_free_port("localhost"))]
    with tempfile.TemporaryDirectory() as folder, served(command, Path(folder)) as url:
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
            page.goto(url)
            button = page.get_by_role("button", name="Step")
            button.wait_for()
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
    parser.add_argument("--only", choices=("pools", "empty", "long"))
    options = parser.parse_args()
    parts = {"pools": bench_pools, "empty": bench_empty, "long": bench_long}
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=list(FLAGS))
        for name, part in parts.items():
            if options.only in (None, name):
                part(browser, options.presses, options.runs)
        browser.close()


if __name__ == "__main__":
    main()
