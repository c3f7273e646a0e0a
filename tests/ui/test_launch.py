"""`launch` serves the app from any folder, says where in one line, and ends without a traceback."""

from __future__ import annotations

import socket
import sys
from pathlib import Path

import pytest

from pagedviz.ui import launch
from tests.serving import running_app

ROOT = Path(__file__).resolve().parents[2]


def test_it_prints_its_address_in_one_line_and_ctrl_c_ends_it_quietly(tmp_path: Path) -> None:
    serve = [sys.executable, "-c", "from pagedviz.ui.launch import launch; launch(port=0)"]
    with running_app(serve, tmp_path, {"PYTHONPATH": str(ROOT)}) as app:
        assert app.get("/_stcore/health") == "ok"
        assert '<div id="root">' in app.get("/")
        code, rest = app.interrupt()
    assert app.first_line == f"pagedviz runs at {app.url} (Ctrl-C stops it)\n"
    assert rest.strip() == "pagedviz has stopped"
    assert code == 0


def test_a_busy_port_is_one_sentence_with_the_port() -> None:
    with socket.socket() as other:
        other.bind(("localhost", 0))
        other.listen()
        port = other.getsockname()[1]
        with pytest.raises(launch.PortTaken, match=f"^port {port} on localhost is taken by"):
            launch.launch(port=port)


def test_without_a_port_the_first_free_one_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.socket() as other:
        other.bind(("localhost", 0))
        other.listen()
        port = other.getsockname()[1]
        monkeypatch.setattr(launch, "DEFAULT_PORTS", range(port, port + 1))
        with pytest.raises(launch.LaunchError, match=f"^ports {port} to {port} on localhost are"):
            launch.launch()
    assert launch.first_free_port("localhost") == port


@pytest.mark.parametrize(
    ("host", "port", "sentence"),
    [
        ("localhost", 70000, "port 70000 does not exist"),
        ("localhost", -1, "port -1 does not exist"),
        ("192.0.2.1", 0, "'192.0.2.1' is not an address of this machine"),
        ("no such host", 0, "'no such host' is not an address of this machine"),
    ],
)
def test_a_wrong_address_is_one_sentence(host: str, port: int, sentence: str) -> None:
    with pytest.raises(launch.LaunchError, match=f"^{sentence}"):
        launch.launch(host, port)


@pytest.mark.parametrize(
    ("host", "url"),
    [
        ("localhost", "http://localhost:8501"),
        ("0.0.0.0", "http://localhost:8501"),
        ("::", "http://localhost:8501"),
        ("::1", "http://[::1]:8501"),
        ("192.168.1.5", "http://192.168.1.5:8501"),
    ],
)
def test_the_address_printed_can_be_opened_on_this_machine(host: str, url: str) -> None:
    assert launch.address(host, 8501) == url
