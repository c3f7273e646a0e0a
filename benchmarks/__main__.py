"""`python -m benchmarks [NAME ...]`: every benchmark in a process of its own, one BLAS thread."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent
# Need a browser, minutes and a quiet machine, so they run only when they are named.
BY_NAME_ONLY = {"load", "ui"}
NAMES = sorted(path.stem.removeprefix("bench_") for path in HERE.glob("bench_*.py"))


def main(names: list[str]) -> int:
    unknown = [name for name in names if name not in NAMES]
    if unknown:
        print(f"no benchmark {unknown[0]!r}; there are: {', '.join(NAMES)}", file=sys.stderr)
        return 2
    load = os.getloadavg()[0] if hasattr(os, "getloadavg") else 0.0
    print(f"machine: {os.cpu_count()} cores, load {load:.2f}, Python {sys.version.split()[0]}")
    # Before NumPy is imported, hence a process each; a full collection in one cannot slow another.
    env = os.environ | {"OPENBLAS_NUM_THREADS": "1"}
    failed = 0
    for name in names or [name for name in NAMES if name not in BY_NAME_ONLY]:
        print(f"--- {name}", flush=True)
        command = [sys.executable, "-m", f"benchmarks.bench_{name}"]
        failed |= subprocess.run(command, env=env, cwd=HERE.parent).returncode
    return int(failed != 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
