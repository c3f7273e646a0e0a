"""One file, opened from disk with the network cut off, steps as the app does."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

from pagedviz.model import load_tiny
from pagedviz.scenarios import ScenarioRun, load_scenario, scenario_names
from pagedviz.trace.trace import Moment, Trace
from pagedviz.ui.board import board_assets
from pagedviz.views.export import export_html
from tests.folding import every_hash

# Walks all moments there and back on a board of its own, and tells those whose hash differs.
WALK = """async expected => {
    const { Run, unpack } = await import("board/run.js");
    const data = JSON.parse(document.getElementById("run").textContent);
    const run = new Run(await unpack(data.overview));
    for (const chunk of data.chunks) run.add(await unpack(chunk));
    const wrong = [];
    let state, place;
    for (const [step, event, hash] of [...expected, ...expected.toReversed()]) {
        const there = run.place({ step, event });
        state = run.seek(state, place, there, step);
        place = there;
        if (state.hash !== hash) wrong.push([step, event, state.hash]);
    }
    return wrong;
}"""


@pytest.fixture
def offline(browser: Browser) -> Iterator[Page]:
    context = browser.new_context(viewport={"width": 1400, "height": 900}, offline=True)
    page = context.new_page()
    problems: list[str] = []
    page.on("pageerror", lambda error: problems.append(str(error)))
    page.on("console", lambda line: problems.append(line.text) if line.type == "error" else None)
    yield page
    context.close()
    assert problems == []


def exported(folder: Path, name: str, title: str | None = None) -> tuple[Trace, str]:
    model = load_tiny()
    assert model.tokenizer is not None
    trace = ScenarioRun(load_scenario(name), model).run()
    text = export_html(
        trace,
        model.tokenizer.token_text,
        title or name,
        board_assets(),
        Moment(min(8, trace.num_steps - 1)),
    )
    file = folder / "run.html"
    file.write_text(text, encoding="utf-8")
    return trace, file.as_uri()


@pytest.mark.parametrize("name", scenario_names())
def test_the_browser_computes_the_hash_of_python_at_every_event_both_ways(
    offline: Page, tmp_path: Path, name: str
) -> None:
    trace, address = exported(tmp_path, name)
    offline.goto(address)
    expect(offline.get_by_test_id("board")).to_have_attribute("data-step", "8")
    expected = [
        (moment.step, moment.event, f"{value:016x}") for moment, _, value in every_hash(trace)
    ]
    assert len(expected) > 100
    assert offline.evaluate(WALK, expected) == []


def test_it_steps_plays_searches_and_opens_at_a_moment(offline: Page, tmp_path: Path) -> None:
    trace, address = exported(tmp_path, "shared_prompt")
    offline.goto(f"{address}#step=5&event=2")
    root = offline.get_by_test_id("board")
    expect(root).to_have_attribute("data-event", "2")
    expect(root).to_have_attribute("data-state-hash", f"{trace.state_hash(5, 2):016x}")
    offline.keyboard.press("ArrowRight")
    expect(root).to_have_attribute("data-event", "3")
    offline.keyboard.press("Space")
    expect(root).to_have_attribute("data-step", "6", timeout=10_000)
    offline.keyboard.press("Space")
    offline.keyboard.press("/")
    offline.get_by_test_id("query").fill("shares")
    root.locator(".found button").first.click()
    expect(offline.get_by_test_id("sentence")).to_contain_text("instead of computing it")


def test_a_title_cannot_leave_its_place(offline: Page, tmp_path: Path) -> None:
    title = "</title></script><script>window.broken = 1</script>"
    _, address = exported(tmp_path, "growing", title)
    offline.goto(address)
    expect(offline.get_by_test_id("board")).to_have_attribute("data-step", "8")
    assert offline.evaluate("window.broken") is None
    assert offline.locator("h1").inner_text() == title
