"""The shipped Streamlit settings hold however the app is started."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest
import streamlit as st

from pagedviz.ui import launch

ROOT = Path(__file__).resolve().parents[2]
FROM_A_CLONE = ROOT / ".streamlit" / "config.toml"
INSTALLED = launch.SCRIPT.parent / ".streamlit" / "config.toml"

# Replace the last act, serving, by a print of what Streamlit settled on.
LAUNCHED = """
import json, streamlit as st
from streamlit.web.server.starlette import starlette_server
from pagedviz.ui import launch
wanted = NAMES
starlette_server.UvicornRunner.run = lambda self: print(
    json.dumps({key: st.get_option(key) for key in wanted}))
launch.launch(port=0)
"""
WORKSHOP = LAUNCHED.replace("port=0", "port=0, workshop=True")
STREAMLIT_RUN = """
import json, sys, streamlit as st
from streamlit.web import bootstrap, cli
wanted = NAMES
bootstrap.run = lambda *_, **__: print(json.dumps({key: st.get_option(key) for key in wanted}))
sys.argv = ["streamlit", "run", SCRIPT]
cli.main()
"""
# For its banner Streamlit asks another machine what our address is, unless it listens on localhost.
BANNER = "logger.hideWelcomeMessage"
CONTRARY = """
[browser]
gatherUsageStats = true
[runner]
postScriptGC = true
magicEnabled = true
[theme]
base = "light"
[theme.light]
primaryColor = "#ff00ff"
"""


def shipped_settings() -> dict[str, object]:
    """{"section.option": value}"""
    return dict(flatten(tomllib.loads(INSTALLED.read_text(encoding="utf-8")), ""))


def flatten(table: dict[str, object], prefix: str) -> Iterator[tuple[str, object]]:
    for key, value in table.items():
        if isinstance(value, dict):
            yield from flatten(value, f"{prefix}{key}.")
        else:
            yield prefix + key, value


def test_the_clone_and_the_package_carry_the_same_settings() -> None:
    assert FROM_A_CLONE.read_bytes() == INSTALLED.read_bytes()


def test_the_installed_streamlit_knows_every_setting() -> None:
    settings = shipped_settings()
    assert len(settings) > 15
    for key in settings:
        st.get_option(key)  # raises RuntimeError for an unknown name


def test_nothing_is_sent_out_and_no_collection_follows_a_rerun() -> None:
    settings = shipped_settings()
    assert settings["browser.gatherUsageStats"] is False
    assert settings["server.address"] == "localhost"
    assert settings["runner.postScriptGC"] is False
    assert settings["runner.magicEnabled"] is False
    assert "theme.base" not in settings  # set, it would stop following the reader's system


@pytest.mark.parametrize(
    ("program", "cwd_has_other_settings"),
    [
        pytest.param(LAUNCHED, False, id="pagedviz app"),
        pytest.param(LAUNCHED, True, id="pagedviz app, in a folder with other settings"),
        pytest.param(WORKSHOP, True, id="pagedviz app --workshop"),
        pytest.param(
            STREAMLIT_RUN.replace("SCRIPT", repr(str(ROOT / "app.py"))),
            False,
            id="streamlit run app.py",
        ),
        pytest.param(
            STREAMLIT_RUN.replace("SCRIPT", repr(str(launch.SCRIPT))),
            True,
            id="streamlit run, installed",
        ),
    ],
)
def test_they_hold_however_the_app_is_started(
    program: str, cwd_has_other_settings: bool, tmp_path: Path
) -> None:
    if cwd_has_other_settings:
        (tmp_path / ".streamlit").mkdir()
        (tmp_path / ".streamlit" / "config.toml").write_text(CONTRARY)
    # From a file, as bin/pagedviz is one: Streamlit looks for settings beside it.
    started = tmp_path / "bin" / "started.py"
    started.parent.mkdir()
    names = [*shipped_settings(), BANNER]
    started.write_text(program.replace("NAMES", repr(names)))
    done = subprocess.run(
        [sys.executable, str(started)],
        cwd=tmp_path,
        env={"PYTHONPATH": str(ROOT), "HOME": str(tmp_path / "home")},
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    settled = json.loads(done.stdout.splitlines()[-1])
    wanted = shipped_settings() | {BANNER: "launch.launch" in program}
    if program == WORKSHOP:
        wanted["server.address"] = launch.EVERY_INTERFACE
    assert settled == wanted
    assert settled[BANNER] or settled["server.address"] == "localhost"


def test_make_app_is_the_command_that_is_tested_here() -> None:
    recipe = re.search(r"^app:.*\n\t(.*)$", (ROOT / "Makefile").read_text(), re.M)
    assert recipe is not None
    assert recipe[1] == "@$(RUN) -m pagedviz app"
