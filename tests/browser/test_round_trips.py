"""Every address opens the same moment in a browser that has never been here.

What is expected is computed here, by the engine itself: neither the server nor its cache is asked.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import parse_qsl, urlencode, urlsplit

import pytest
from playwright.sync_api import Browser, Page, expect

from pagedviz.engine.state_hash import format_state_hash, state_hash_hex
from pagedviz.model import LanguageModel, load_tiny
from pagedviz.scenarios import (
    BranchRun,
    ScenarioRun,
    apply_settings,
    load_scenario,
    parse_changes,
    scenario_names,
)
from pagedviz.trace.trace import Moment, Trace
from pagedviz.ui.links import make_link

SEED = 3
PATIENCE = 60_000
# Settings of the four runs of each scenario, and what the last of them changes at step 6.
VARIANTS: tuple[tuple[dict[str, Any], dict[str, Any]], ...] = (
    ({}, {}),
    ({"block_size": 16, "num_pages": 48}, {}),
    ({"prefix_caching": False, "max_tokens_per_step": 24}, {}),
    ({"chunk_size": 8}, {"settings": {"chunk_size": 3}}),
)
# Without what these tests do not look at, a page is there sooner.
LIGHT = {"charts": "off", "panel": "none", "presenter": "on"}


@pytest.fixture(scope="module")
def model() -> LanguageModel:
    return load_tiny()


def moments(
    name: str, model: LanguageModel, chance: random.Random
) -> Iterator[tuple[dict[str, str], str]]:
    """(parameters, state hash) of a random moment of each variant."""
    for overrides, change in VARIANTS:
        scenario = apply_settings(load_scenario(name), overrides)
        trace: Trace = ScenarioRun(scenario, model, "tiny").run()
        what_if = [{"step": 6, **change}] if change else []
        if what_if:
            trace = BranchRun(scenario, model, "tiny", trace, parse_changes(what_if)).run()
        step = chance.randrange(trace.num_steps)
        event = chance.choice([None, chance.randint(0, trace.num_events(step))])
        value = trace.state_hash(step, event)
        moment, state = Moment(step, event), format_state_hash(value)
        link = make_link(name, scenario.overrides, moment, (), what_if, state)
        yield {**link, **LIGHT}, state_hash_hex(value)


def query(page: Page) -> dict[str, Any]:
    return readable(dict(parse_qsl(urlsplit(page.url).query)))


def readable(link: Mapping[str, str]) -> dict[str, Any]:
    """JSON values, whose keys have no order."""
    return {
        key: json.loads(text) if text[0] in "[{" or text in ("true", "false") else text
        for key, text in link.items()
    }


@pytest.mark.parametrize("name", scenario_names())
def test_a_random_moment_opens_the_same_in_a_fresh_browser(
    browser: Browser, app_url: str, model: LanguageModel, name: str
) -> None:
    chance = random.Random(f"{name} {SEED}")
    opened: list[tuple[Page, dict[str, str], str]] = []
    for link, state_hash in moments(name, model, chance):
        page = browser.new_context().new_page()
        page.goto(f"{app_url}/?{urlencode(link)}", wait_until="commit")
        opened.append((page, link, state_hash))
    for page, link, state_hash in opened:
        board = page.get_by_test_id("board")
        expect(board).to_have_attribute("data-state-hash", state_hash, timeout=PATIENCE)
        expect(board).to_have_attribute("data-step", link["step"])
        expect(board).to_have_attribute("data-event", link.get("event", "end"))
        expect(page.get_by_test_id("hash")).to_have_text(
            f"state {state_hash[:4]} {state_hash[4:8]}"
        )
        # Nothing to say, and the address it publishes is the one that was opened.
        expect(page.get_by_test_id("stAlert")).to_have_count(0)
        assert query(page) == readable(link)
        page.context.close()


def test_a_browser_that_sees_another_state_says_so(page: Page, app_url: str) -> None:
    link = {"scenario": "growing", "step": "9", "state": "0123abcd", **LIGHT}
    page.goto(f"{app_url}/?{urlencode(link)}")
    alert = page.get_by_test_id("stAlert")
    expect(alert).to_contain_text(
        "This machine computed a different token at step 9 or before", timeout=PATIENCE
    )
    expect(alert).to_contain_text("state 0123 abcd")
    expect(page.get_by_test_id("board")).to_have_attribute("data-step", "9")
