"""`launch` serves the app from any folder, says where in one line, and ends without a traceback."""

from __future__ import annotations

import json
import shutil
import socket
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from streamlit.testing.v1 import AppTest

from pagedviz.ui import launch
from pagedviz.ui.runs import bundled_model
from pagedviz.ui.server_limits import WORKSHOP, LimitsError, environment, limits
from tests.serving import running_app

ROOT = Path(__file__).resolve().parents[2]


def test_it_prints_its_address_in_one_line_and_ctrl_c_ends_it_quietly(tmp_path: Path) -> None:
    serve = [sys.executable, "-c", "from pagedviz.ui.launch import launch; launch(port=0)"]
    with running_app(serve, tmp_path, {"PYTHONPATH": str(ROOT)}) as app:
        assert app.get("/_stcore/health") == "ok"
        assert '<div id="root">' in app.get("/")
        code, rest = app.interrupt()
    assert app.printed == f"pagedviz runs at {app.url} (Ctrl-C stops it)\n"
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
        ("x" * 300, 0, "the name of a host has at most 253 characters, got 300"),
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


def test_a_workshop_gives_out_an_address_of_the_network_and_says_its_limits(
    tmp_path: Path,
) -> None:
    command = [sys.executable, "-m", "pagedviz", "app", "--workshop", "--port", "0"]
    with running_app(
        [*command, "--sessions", "7"],
        tmp_path,
        {"PYTHONPATH": str(ROOT), "PAGEDVIZ_RECORDED_STEPS": "300"},
    ) as app:
        found = launch.network_address()
        assert found is None or app.url.startswith(f"http://{found}:")
        assert app.printed.startswith("Recording the scenarios")
        assert app.get("/_stcore/health") == "ok"
        code, rest = app.interrupt()
    assert code == 0
    assert rest.startswith("Workshop: up to 7 people on this network can open that address; 300 ")
    assert "charts are off" in rest
    assert ("could not be found" in rest) == (found is None)


def test_without_a_network_a_workshop_says_where_to_look(monkeypatch: pytest.MonkeyPatch) -> None:
    class Lonely(socket.socket):
        def connect(self, address: object) -> None:
            raise OSError(101, "Network is unreachable")

    monkeypatch.setattr(launch.socket, "socket", Lonely)
    assert launch.network_address() is None
    words = launch.workshop_words(WORKSHOP, True, 8501)
    assert "give out http://<address>:8501" in words


def test_the_address_is_found_without_a_packet(monkeypatch: pytest.MonkeyPatch) -> None:
    kinds: list[int] = []

    class Watched(socket.socket):
        def connect(self, address: object) -> None:
            kinds.append(self.type)
            super().connect(address)  # type: ignore[arg-type]

        def send(self, *_: object) -> int:
            raise AssertionError("something was sent")

        sendto = send

    monkeypatch.setattr(launch.socket, "socket", Watched)
    launch.network_address()
    # A datagram socket: its connect is a look into the routing table.
    assert kinds == [socket.SOCK_DGRAM]


@pytest.mark.parametrize(
    ("name", "value"),
    [("SESSIONS", "0"), ("SESSIONS", "many"), ("RECORDED_STEPS", "-1"), ("CHARTS", "maybe")],
)
def test_a_limit_that_makes_no_sense_is_one_sentence(
    name: str, value: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(f"PAGEDVIZ_{name}", value)
    with pytest.raises(LimitsError, match=f"^PAGEDVIZ_{name} must be .*, got {value!r}$"):
        launch.launch(port=0)


@pytest.mark.parametrize("value", ["/srv/secret", "[]", '{"a": 3}', "[" * 100_000])
def test_adapters_that_make_no_sense_are_one_sentence_without_a_path(value: str) -> None:
    with pytest.raises(LimitsError, match=r"^PAGEDVIZ_ADAPTERS must be a JSON object") as caught:
        limits({"PAGEDVIZ_ADAPTERS": value})
    assert "secret" not in str(caught.value)


def test_adapters_reach_the_sessions_by_the_environment() -> None:
    granted = replace(WORKSHOP, adapters=(("mine", "/srv/a b=c"), ("other", "/srv/x")))
    assert limits(environment(granted)) == granted


def test_visitors_see_the_name_of_an_adapter_and_never_its_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "secret"
    shutil.copytree(ROOT / "pagedviz" / "model" / "tiny" / "adapters" / "golden", folder)
    monkeypatch.setenv("PAGEDVIZ_ADAPTERS", json.dumps({"mine": str(folder)}))
    try:
        bundled_model.clear()
        assert "adapter mine" in shown("model")
        bundled_model.clear()
        (folder / "adapter_config.json").unlink()
        text = shown("model")
        assert "started with cannot be loaded; its log says why" in text and "secret" not in text
    finally:
        bundled_model.clear()


def shown(screen: str) -> str:
    app = AppTest.from_file(str(ROOT / "pages" / f"{screen}.py"), default_timeout=60).run()
    assert not app.exception
    return " ".join([*(e.proto.body for e in app.get("html")), *(e.value for e in app.error)])
