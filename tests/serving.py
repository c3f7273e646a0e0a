"""Starts the app as a separate process for a test and stops it again.

The port is one that the system picks: tests run beside each other and beside a running app.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import threading
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

STARTUP_SECONDS = 60


@dataclass
class RunningApp:
    process: subprocess.Popen[str]
    url: str
    printed: str
    """Up to the line with the address, and that line."""

    def get(self, path: str) -> str:
        with urllib.request.urlopen(self.url + path, timeout=10) as response:
            assert response.status == 200
            return response.read().decode()

    def interrupt(self) -> tuple[int, str]:
        """Ctrl-C; the exit code and everything printed after the address."""
        self.process.send_signal(signal.SIGINT)
        watchdog = threading.Timer(20, self.process.kill)
        watchdog.start()
        assert self.process.stdout is not None
        # Not communicate(): it reads past the buffer in which the next line may lie already.
        rest = self.process.stdout.read()
        watchdog.cancel()
        return self.process.wait(timeout=20), rest


def environment(extra: Mapping[str, str] | None = None) -> dict[str, str]:
    """This process's, without what changes how Python starts: PYTHONPATH would stand in for an
    installation, PYTHONUNBUFFERED would hide a missing flush."""
    return {k: v for k, v in os.environ.items() if not k.startswith("PYTHON")} | dict(extra or {})


@contextmanager
def running_app(
    command: Sequence[str], cwd: Path, extra_environment: Mapping[str, str] | None = None
) -> Iterator[RunningApp]:
    """Run `command` until the block ends; it must print its address."""
    process = subprocess.Popen(
        command,
        cwd=cwd,
        env=environment(extra_environment),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    assert process.stdout is not None
    # A server that hangs silently would block readline for ever.
    watchdog = threading.Timer(STARTUP_SECONDS, process.kill)
    watchdog.start()
    try:
        printed, found = "", None
        while found is None:
            line = process.stdout.readline()
            printed += line
            if not line:
                raise AssertionError(f"no address:\n{printed}")
            found = re.search(r"http://\S+:\d+", line)
        watchdog.cancel()
        yield RunningApp(process, found.group(), printed)
    finally:
        watchdog.cancel()
        if process.poll() is None:
            process.kill()
        process.wait(timeout=10)
        process.stdout.close()
