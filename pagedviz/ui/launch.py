"""Starts the app's web server, for `pagedviz app` and `make app`.

The settings in `.streamlit/config.toml` beside this file hold whatever folder it is started from.
"""

from __future__ import annotations

import errno
import logging
import os
import socket
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from threading import Thread
from typing import Any

import streamlit as st

from pagedviz.engine.errors import PagedVizError
from pagedviz.model import load_tiny
from pagedviz.ui.server_limits import ServerLimits, environment, limits

HERE = Path(__file__).resolve().parent
SCRIPT = HERE / "app.py"
DEFAULT_HOST = "localhost"
EVERY_INTERFACE = "0.0.0.0"
_EVERY = (EVERY_INTERFACE, "::")
# Reserved for documentation (RFC 5737), so no machine has it.
_NOWHERE = ("203.0.113.1", 9)
_LONGEST_HOST = 253  # RFC 1035
DEFAULT_PORTS = range(8501, 8551)


class LaunchError(PagedVizError):
    """The server cannot listen where it was told to."""


class PortTaken(LaunchError):
    def __init__(self, host: str, port: int) -> None:
        super().__init__(
            f"port {port} on {host} is taken by another program; "
            "stop it, or give another port (0 picks a free one)"
        )
        self.port = port


def launch(
    host: str | None = None,
    port: int | None = None,
    workshop: bool = False,
    sessions: int | None = None,
    adapters: Sequence[tuple[str, str]] = (),
) -> None:
    """Serve the app until Ctrl-C; prints its address in one line once it listens.

    `port=None` takes the first free one from 8501 on, `port=0` one that the system picks.
    `workshop` listens on the local network, with limits for a room full of people; `sessions` is
    the most of them at a time. `host=None` is localhost, or every interface for a workshop.
    `adapters`: name and folder of those that the model is to have besides its own.
    Raises LaunchError when the host is not this machine's or the given port cannot be had, and
    LimitsError for limits in the environment that make no sense; ModelError for an adapter.
    """
    granted = _grant(workshop, sessions, adapters)
    if granted.adapters:
        load_tiny(granted.adapters)  # whoever starts the server is told, not its visitors
    host = host or (EVERY_INTERFACE if granted.workshop else DEFAULT_HOST)
    chosen = first_free_port(host) if port is None else port
    try_port(host, chosen)
    # uvicorn would print four lines of its own around ours.
    logging.getLogger("uvicorn.error").addFilter(lambda r: r.levelno >= logging.WARNING)

    @asynccontextmanager
    async def announce(_: st.App) -> AsyncIterator[dict[str, Any]]:
        # Entered when the socket listens already: the address answers, and server.port is the
        # real one even when 0 was asked for.
        # flush: whoever reads a pipe waits for this line.
        port = st.get_option("server.port")
        is_open = granted.workshop and host in _EVERY
        found = network_address() if is_open else None
        where = address(found or host, port)
        if granted.workshop:
            print("Recording the scenarios, so that nobody has to wait for them", flush=True)
            _warm_up(is_for_many=True)
        else:
            Thread(target=_warm_up, name="pagedviz warm-up", daemon=True).start()
        print(f"pagedviz runs at {where} (Ctrl-C stops it)", flush=True)
        if granted.workshop:
            print(workshop_words(granted, is_open and found is None, port), flush=True)
        yield {}

    # Streamlit takes settings from the folder of sys.argv[0] and puts that folder first on
    # sys.path. Ours beside SCRIPT must win over whatever lies beside bin/pagedviz; and with
    # `python -m pagedviz` it would be pagedviz/ itself, where `import trace` finds our package.
    sys.argv = [str(SCRIPT)]
    os.environ.update(environment(granted))  # every session reads them there
    app = st.App(SCRIPT, lifespan=announce)
    try:
        app.run(
            config={
                "server.address": host,
                "server.port": chosen,
                "logger.hideWelcomeMessage": True,  # `announce` says it in one line
            }
        )
    except KeyboardInterrupt:
        print("\npagedviz has stopped", flush=True)


def _warm_up(is_for_many: bool = False) -> None:
    # Imported here, since to read these modules is most of the work.
    from pagedviz.ui.warm_up import warm_up_all, warm_up_first

    (warm_up_all if is_for_many else warm_up_first)()


def _grant(
    workshop: bool, sessions: int | None, adapters: Sequence[tuple[str, str]]
) -> ServerLimits:
    """The limits that the environment and the command line ask for."""
    asked = {"PAGEDVIZ_WORKSHOP": "on"} if workshop else {}
    granted = limits({**os.environ, **asked})
    if sessions is not None:
        granted = replace(granted, sessions=sessions)
    if adapters:
        here = tuple((name, os.path.abspath(folder)) for name, folder in adapters)
        granted = replace(granted, adapters=(*granted.adapters, *here))
    return granted


def workshop_words(granted: ServerLimits, is_lost: bool, port: int) -> str:
    sentence = (
        f"Workshop: up to {granted.sessions} people on this network can open that address; "
        f"{granted.recorded_steps} steps of a run are recorded, charts are "
        f"{'on' if granted.charts else 'off until somebody turns them on'}"
    )
    if not is_lost:
        return sentence
    return (
        f"{sentence}\nThis machine's address on the network could not be found: look it up in the "
        f"system's settings and give out http://<address>:{port}"
    )


def network_address() -> str | None:
    """The address under which others on the local network reach this machine; None if unknown.

    Nobody is contacted: connecting a datagram socket sends nothing, it only asks the routing table
    which of this machine's addresses would be used.
    """
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(_NOWHERE)
        except OSError:  # no route: not on a network
            return None
        found: str = probe.getsockname()[0]
    return None if found.startswith("127.") or found == EVERY_INTERFACE else found


def address(host: str, port: int) -> str:
    """What to type into a browser on this machine to reach a server bound to `host`."""
    if host in _EVERY:
        host = "localhost"
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def first_free_port(host: str) -> int:
    for port in DEFAULT_PORTS:
        try:
            try_port(host, port)
        except PortTaken:
            continue
        return port
    raise LaunchError(
        f"ports {DEFAULT_PORTS.start} to {DEFAULT_PORTS.stop - 1} on {host} are all taken; "
        "stop a running app, or give another port (0 picks a free one)"
    )


def try_port(host: str, port: int) -> None:
    """Bind and let go, so that a port that cannot be had is one sentence and not a server log."""
    if not 0 <= port <= 65535:
        raise LaunchError(f"port {port} does not exist: ports are 0 (pick a free one) to 65535")
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    if len(host) > _LONGEST_HOST:
        raise LaunchError(
            f"the name of a host has at most {_LONGEST_HOST} characters, got {len(host)}; give "
            "localhost, or 0.0.0.0 to be reached from other machines"
        )
    with socket.socket(family) as probe:
        if os.name != "nt":  # there the option means "share a port that is in use"
            # Streamlit binds this way too: a port whose last server has just ended counts as free.
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError as error:
            raise _explain(error, host, port) from error


def _explain(error: OSError, host: str, port: int) -> LaunchError:
    if error.errno == errno.EADDRINUSE:
        return PortTaken(host, port)
    if error.errno == errno.EACCES:
        return LaunchError(f"port {port} is reserved for the system; give one above 1023")
    return LaunchError(
        f"{host!r} is not an address of this machine ({error.strerror}); "
        "give localhost, or 0.0.0.0 to be reached from other machines"
    )
