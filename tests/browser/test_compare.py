"""The Compare screen in a real browser: the first differing step, keys, phone, address."""

from __future__ import annotations

import re
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, expect

from pagedviz.engine.events import SequenceAdmitted, SequenceScheduled
from pagedviz.model import load_tiny
from pagedviz.scenarios import ScenarioRun, apply_settings, load_scenario
from tests.browser.test_axe import in_both_themes, still
from tests.browser.test_screens import PATIENCE, go_to, open_screen, query, settled

SIZES = {"scenario": "chat", "block_size": "4", "with": '{"block_size":16}'}


def first_other_decision(scenario: str, left: dict[str, Any], right: dict[str, Any]) -> int:
    """Straight from the events of two runs: who is admitted with what and computes how much."""
    runs = []
    for settings in (left, right):
        changed = apply_settings(load_scenario(scenario), settings)
        trace = ScenarioRun(changed, load_tiny(), "tiny").run()
        made = []
        for record in trace.steps:
            step: list[tuple[int, int]] = []
            for event in record.events:
                if isinstance(event, SequenceAdmitted):
                    step.append((event.seq_id, -event.num_cached))
                elif isinstance(event, SequenceScheduled):
                    step.append((event.seq_id, event.num_tokens))
            made.append(step)
        runs.append(made)
    return next(i for i, (one, other) in enumerate(zip(*runs, strict=False)) if one != other)


def test_compare_finds_the_first_differing_step_of_block_size_4_against_16(
    page: Page, app_url: str, browser: Browser
) -> None:
    open_screen(page, app_url, scenario="chat", block_size="4", step="20")
    go_to(page, "Compare")
    page.get_by_role("button", name="Change the right run").click()
    form = page.get_by_test_id("stPopoverBody")
    form.get_by_role("spinbutton", name="Slots a page").fill("16")
    form.get_by_role("combobox", name="Prefix caching").click()
    page.get_by_role("option", name="on", exact=True).click()
    form.get_by_role("button", name="Compare").click()
    expect(page.get_by_test_id("right-run")).to_contain_text("slots a page 16", timeout=PATIENCE)
    expect(page.get_by_test_id("left-run")).to_contain_text("slots a page 4")
    settled(page)
    first = first_other_decision("chat", {"block_size": 4}, {"block_size": 16})
    assert first > 0
    page.keyboard.press("Escape")
    page.get_by_role("button", name=re.compile("^First difference in decisions")).click()
    expect(page.locator(".position")).to_contain_text(f"step {first} of", timeout=PATIENCE)
    differing = page.get_by_test_id("differences")
    expect(differing).to_contain_text(f"Step {first}: B seq:1 (rosa 1) is admitted with 4 tokens")
    expect(differing).to_contain_text("All texts are equal in both runs")
    page.wait_for_url(re.compile(f"step={first}&"))
    assert query(page)["with"] == '{"block_size":16}'
    states = page.locator(".compared .chip").all_inner_texts()
    elsewhere = browser.new_context().new_page()
    elsewhere.goto(page.url)
    settled(elsewhere)
    expect(elsewhere.locator(".position")).to_contain_text(f"step {first} of")
    assert elsewhere.locator(".compared .chip").all_inner_texts() == states
    assert len(set(states)) == 2
    elsewhere.context.close()


def test_keys_step_both_runs(page: Page, app_url: str) -> None:
    open_screen(page, app_url, "compare", **SIZES, step="3")
    position = page.locator(".position")
    for key, step in (("ArrowRight", 4), ("ArrowLeft", 3), ("End", 87), ("Home", 0)):
        page.keyboard.press(key)
        expect(position).to_contain_text(f"step {step} of 87", timeout=PATIENCE)
        for side in ("left-run", "right-run"):
            said = page.get_by_test_id(side).locator(".said")
            words = f"Step {step}" if step < 87 or side == "left-run" else "This run was over"
            expect(said).to_contain_text(words, timeout=PATIENCE)


@pytest.mark.parametrize("size", [(1280, 720), (390, 844)])
def test_a_click_or_a_key_on_the_strip_goes_to_that_step(
    page: Page, app_url: str, size: tuple[int, int]
) -> None:
    page.set_viewport_size({"width": size[0], "height": size[1]})
    open_screen(page, app_url, "compare", **SIZES, step="3")
    position, last = page.locator(".position"), 87
    strip = page.get_by_role("slider", name="Step, on the strip of differences")
    track = page.locator(".comparestrip .track").last
    box = track.bounding_box()
    assert box is not None
    for step in (60, 0, 87, 41):
        x = box["x"] + box["width"] * (step + 0.5) / (last + 1)
        page.mouse.click(x, box["y"] + box["height"] / 2)
        expect(position).to_contain_text(f"step {step} of {last}", timeout=PATIENCE)
        expect(strip).to_have_attribute("aria-valuetext", f"step {step} of {last}")
    expect(strip).to_be_focused()
    for key, step in (("ArrowRight", 42), ("ArrowLeft", 41), ("End", 87), ("Home", 0)):
        page.keyboard.press(key)
        expect(position).to_contain_text(f"step {step} of {last}", timeout=PATIENCE)
    for _ in range(5):
        page.keyboard.press("ArrowRight")
    expect(position).to_contain_text(f"step 5 of {last}", timeout=PATIENCE)
    settled(page)
    expect(position).to_contain_text(f"step 5 of {last}")
    expect(strip).to_have_value("5")
    expect(strip).to_be_focused()


@pytest.mark.parametrize("size", [(1280, 720), (390, 844)])
def test_nothing_is_wider_than_the_window(page: Page, app_url: str, size: tuple[int, int]) -> None:
    page.set_viewport_size({"width": size[0], "height": size[1]})
    open_screen(page, app_url, "compare", scenario="thrash", step="30")
    for part in page.locator(".compared, .comparestrip, .differences, .st-key-firsts").all():
        box = part.bounding_box()
        assert box is not None and box["x"] >= 0 and box["x"] + box["width"] <= size[0]
    left = page.get_by_test_id("left-run").bounding_box()
    right = page.get_by_test_id("right-run").bounding_box()
    assert left is not None and right is not None
    is_beside = abs(left["y"] - right["y"]) < 1
    assert is_beside == (size[0] > 1000)


def test_axe_finds_nothing_with_the_form_open(browser: Browser, app_url: str) -> None:
    context = browser.new_context(viewport={"width": 1280, "height": 720})
    page = context.new_page()
    open_screen(page, app_url, "compare", **SIZES, step="4")
    page.get_by_role("button", name="Change the right run").click()
    expect(page.get_by_role("button", name="Compare", exact=True)).to_be_visible()
    still(page)  # it fades in, and axe would measure it half transparent
    assert in_both_themes(page) == []
    context.close()
