"""The running app in a real browser, shared by all browser tests, with every request on record.

A test's `page` is a fresh context; the test fails if anything in it asked for another machine.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect, sync_playwright

from tests.browser.recording import left_this_machine
from tests.serving import running_app

ROOT = Path(__file__).resolve().parents[2]
CHROMIUM = Path("/usr/bin/chromium")
# What is waited for comes in its own time on a busy machine; only a failing test waits this long.
expect.set_options(timeout=60_000)
# Chromium keeps the last list only, so this is Playwright's own and two more: for each window
# Chromium draws the suggestions of its address bar in two pages of their own, which takes a fifth
# of a test's time and is never seen.
WITHOUT = (
    *("AvoidUnnecessaryBeforeUnloadCheckSync", "DestroyProfileOnBrowserClose", "HttpsUpgrades"),
    *("HttpsFirstBalancedModeAutoEnable", "LensOverlay", "MediaRouter", "PaintHolding"),
    *("ThirdPartyStoragePartitioning", "AvoidCorsURLLoaderRestartOnRedirect", "OptimizationHints"),
    *("NetworkTimeServiceQuerying", "AimEnabled", "PreconnectToSearch"),
    *("WebUIOmniboxPopup", "WebUIOmniboxAimPopup"),
)
# Without the last four, Chromium itself looks for Google's servers when it starts.
FLAGS = [
    "--no-sandbox",  # root may not have one
    "--disable-gpu",
    f"--disable-features={','.join(WITHOUT)}",
    "--no-first-run",
    "--disable-quic",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    here = Path(__file__).parent
    for item in items:
        if here in item.path.parents:
            item.add_marker("browser")


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    if not CHROMIUM.exists():
        missing = f"{CHROMIUM} is not installed (Debian: apt-get install chromium)"
        if os.environ.get("CI") == "true":
            pytest.fail(missing)
        pytest.skip(missing)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=str(CHROMIUM), args=FLAGS)
        yield browser
        browser.close()


@pytest.fixture(scope="session")
def app_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Address of a server that runs for the whole session, from a folder that is not ours."""
    command = [sys.executable, "-m", "pagedviz", "app", "--port", "0"]
    cwd = tmp_path_factory.mktemp("elsewhere")
    with running_app(command, cwd, {"PYTHONPATH": str(ROOT)}) as app:
        yield app.url


@pytest.fixture
def requests_made() -> list[str]:
    """Every address that the test's `page` has asked for, web sockets included."""
    return []


@pytest.fixture
def page(browser: Browser, requests_made: list[str]) -> Iterator[Page]:
    context = browser.new_context(viewport={"width": 1400, "height": 900})
    context.on("request", lambda request: requests_made.append(request.url))
    page = context.new_page()
    page.on("websocket", lambda socket: requests_made.append(socket.url))
    yield page
    context.close()
    assert left_this_machine(requests_made) == []
