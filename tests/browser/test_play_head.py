"""The play-head alone, in a page without a server: a run that grows, and requests that get lost."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page

from tests.browser.test_export import exported

KNOWN = 20  # steps that are recorded at first, of a run in which nothing finishes before step 30

# A run until beyond what is recorded by now, `between` other commands, and then all is recorded.
GROWING = """async ([known, between]) => {
    const { PlayHead } = await import("board/play_head.js");
    const { Run, unpack } = await import("board/run.js");
    const data = JSON.parse(document.getElementById("run").textContent);
    const all = await unpack(data.overview);
    const short = {
        ...all, is_complete: false, num_steps: known, num_events: all.num_events.slice(0, known),
        ticks: all.ticks.filter(([step]) => step < known),
    };
    const run = new Run(short);
    const seen = { asked: [], said: [] };
    const head = new PlayHead(
        run, { step: 2, event: null }, false,
        { want() {}, more: (from) => seen.asked.push(from) },
        { show: (m) => (seen.at = m), rested() {}, playing() {}, say: (t) => seen.said.push(t) },
    );
    for (const chunk of data.chunks) run.add(await unpack(chunk));
    head.arrived();
    await head.until(1, "finish");
    seen.first = { at: seen.at, said: seen.said.at(-1) };
    for (const command of between) head[command](false);
    run.grow(all);
    head.grown();
    await new Promise((done) => setTimeout(done, 50));
    head.stop();
    return seen;
}"""

# Two chunks are asked for at once, and only the later one of two requests is answered.
LOST = """async () => {
    const { Run } = await import("board/run.js");
    const { Supply } = await import("board/supply.js");
    const run = new Run({
        num_steps: 1000, chunk_steps: 64, is_complete: true, num_events: Array(1000).fill(0),
    });
    const wanted = [];
    const supply = new Supply(run, { want: (n) => wanted.push(n), more() {} }, 0, () => false);
    const none = { num_steps: 64, changes: [], sizes: [], events: [], tokens: {} };
    const arrives = (number) => {
        run.add({ ...none, first: 64 * number });
        supply.askAhead();
    };
    let isThere = false;
    supply.need(12).then(() => (isThere = true));
    supply.askAhead();
    wanted.push("lost");
    arrives(0);
    const again = wanted.at(-1);
    arrives(12);
    await Promise.resolve();
    supply.stop();
    return { again, isThere };
}"""


@pytest.fixture
def alone(browser: Browser, tmp_path: Path) -> Iterator[Page]:
    context = browser.new_context(offline=True)
    page = context.new_page()
    page.goto(exported(tmp_path, "growing")[1])
    yield page
    context.close()


def test_run_until_goes_on_when_more_is_recorded(alone: Page) -> None:
    seen: dict[str, Any] = alone.evaluate(GROWING, [KNOWN, []])
    assert seen["first"]["at"] == {"step": 2, "event": None}
    assert "so far" in seen["first"]["said"]
    assert seen["asked"] == [KNOWN]
    assert seen["at"]["step"] > 30 and seen["at"]["event"] is not None


@pytest.mark.parametrize(("command", "step"), [("forward", 3), ("back", 1)])
def test_another_command_takes_the_place_of_a_run_until(
    alone: Page, command: str, step: int
) -> None:
    seen: dict[str, Any] = alone.evaluate(GROWING, [KNOWN, [command]])
    assert seen["at"] == {"step": step, "event": None}
    assert seen["said"][-1] == ""


def test_a_lost_request_is_made_again(alone: Page) -> None:
    seen: dict[str, Any] = alone.evaluate(LOST)
    assert seen == {"again": 12, "isThere": True}
