"""Starts the app's web server, for `pagedviz app` and `make app`.

The settings in `.streamlit/config.toml` beside this file hold whatever folder it is started from.
"""

from __future__ import annotations

import errno
import logging
import os
import socket
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import streamlit as st

from pagedviz.engine.errors import PagedVizError

HERE = Path(__file__).resolve().parent
SCRIPT = HERE / "app.py"
DEFAULT_HOST = "localhost"
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


def launch(host: str = DEFAULT_HOST, port: int | None = None) -> None:
    """Serve the app until Ctrl-C; prints its address in one line once it listens.

    `port=None` takes the first free one from 8501 on, `port=0` one that the system picks.
    Raises LaunchError when the host is not this machine's or the given port cannot be had.
    """
    chosen = first_free_port(host) if port is None else port
    try_port(host, chosen)
    # uvicorn would print four lines of its own around ours.
    logging.getLogger("uvicorn.error").addFilter(lambda r: r.levelno >= logging.WARNING)

    @asynccontextmanager
    async def announce(_: st.App) -> AsyncIterator[dict[str, Any]]:
        # Entered when the socket listens already: the address answers, and server.port is the
        # real one even when 0 was asked for.
        # flush: whoever reads a pipe waits for this line.
        where = address(host, st.get_option("server.port"))
        print(f"pagedviz runs at {where} (Ctrl-C stops it)", flush=True)
        yield {}

    # Streamlit takes settings from the folder of sys.argv[0] and puts that folder first on
    # sys.path. Ours beside SCRIPT must win over whatever lies beside bin/pagedviz; and with
    # `python -m pagedviz` it would be pagedviz/ itself, where `import trace` finds our package.
    sys.argv = [str(SCRIPT)]
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


def address(host: str, port: int) -> str:
    """What to type into a browser on this machine to reach a server bound to `host`."""
    if host in ("0.0.0.0", "::"):  # every interface of this machine
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
