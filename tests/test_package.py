"""`pip install .` gives a pagedviz that runs from any folder, with all its files."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.serving import environment, running_app

ROOT = Path(__file__).resolve().parents[1]
pytestmark = pytest.mark.package

NOT_SOURCE = (".git", ".venv", "*.egg-info", "build", "dist", "__pycache__", ".*_cache")


@dataclass
class Installed:
    bin: Path
    elsewhere: Path
    source_files: list[Path]  # as pagedviz/...

    @property
    def python(self) -> str:
        return str(self.bin / "python")

    def run(self, command: Sequence[str]) -> str:
        done = subprocess.run(
            command,
            cwd=self.elsewhere,
            env=environment(),
            capture_output=True,
            text=True,
            timeout=120,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Installed:
    """pagedviz in an environment of its own, with the versions of requirements.txt."""
    folder = tmp_path_factory.mktemp("clean")
    # A copy, so that building leaves no build/ in the repository and picks up none.
    source = folder / "source"
    shutil.copytree(ROOT, source, ignore=shutil.ignore_patterns(*NOT_SOURCE))
    subprocess.run([sys.executable, "-m", "venv", folder / "venv"], check=True)
    pip = [folder / "venv" / "bin" / "pip", "install", "--quiet", "--disable-pip-version-check"]
    subprocess.run([*pip, "-c", source / "requirements.txt", source], check=True, env=environment())
    files = [
        path.relative_to(source) for path in (source / "pagedviz").rglob("*") if path.is_file()
    ]
    shutil.rmtree(source)
    elsewhere = folder / "elsewhere"
    elsewhere.mkdir()
    return Installed(folder / "venv" / "bin", elsewhere, files)


def test_every_file_of_the_package_is_installed(installed: Installed) -> None:
    where = installed.run(
        [installed.python, "-c", "import pagedviz; print(pagedviz.__path__[0])"]
    ).strip()
    site = Path(where).parent
    assert Path("pagedviz/ui/.streamlit/config.toml") in installed.source_files
    missing = [path for path in installed.source_files if not (site / path).is_file()]
    assert missing == []


def test_it_needs_nothing_that_its_metadata_does_not_name(installed: Installed) -> None:
    assert "No broken requirements" in installed.run([installed.python, "-m", "pip", "check"])


@pytest.mark.parametrize("how", ["script", "module"])
def test_help_works_from_another_folder(installed: Installed, how: str) -> None:
    out = installed.run([*command(installed, how), "--help"])
    assert out.startswith("usage: pagedviz")


@pytest.mark.parametrize("how", ["script", "module"])
def test_the_app_runs_from_another_folder(installed: Installed, how: str) -> None:
    serve = [*command(installed, how), "app", "--port", "0"]
    with running_app(serve, installed.elsewhere) as app:
        assert app.get("/_stcore/health") == "ok"
        assert '<div id="root">' in app.get("/")
        code, rest = app.interrupt()
    assert code == 0, rest
    assert "Traceback" not in rest


def test_the_installed_screen_draws_without_an_error(installed: Installed) -> None:
    # The page above is only a frame: this runs the script behind it, data files included.
    draw = (
        "from streamlit.testing.v1 import AppTest; from pagedviz.ui import launch;"
        "at = AppTest.from_file(str(launch.SCRIPT), default_timeout=60).run();"
        "assert not at.exception, at.exception;"
        "print(len(at.main.children), 'elements')"
    )
    assert "elements" in installed.run([installed.python, "-c", draw])


def command(installed: Installed, how: str) -> list[str]:
    return {
        "script": [str(installed.bin / "pagedviz")],
        "module": [installed.python, "-m", "pagedviz"],
    }[how]
