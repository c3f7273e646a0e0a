"""A server of its own for a benchmark, for as long as a block runs."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[1]


class ServedApp(NamedTuple):
    url: str
    pid: int


@contextmanager
def served_app(command: list[str], cwd: Path) -> Iterator[ServedApp]:
    env = {"PATH": "/usr/bin:/bin", "PYTHONPATH": str(ROOT), "OPENBLAS_NUM_THREADS": "1"}
    process = subprocess.Popen(
        command, cwd=cwd, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    assert process.stdout is not None
    try:
        for line in process.stdout:
            if found := re.search(r"http://\S+:\d+", line):
                yield ServedApp(found.group(), process.pid)
                return
        raise SystemExit(f"no address from {' '.join(command)}")
    finally:
        process.terminate()
        process.wait(timeout=20)
