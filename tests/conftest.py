"""What every test shares: one BLAS thread, fixed random seeds, the oracle folder.

Random tests run a tenth of their cases by default and all of them under PAGEDVIZ_SOAK=1.
"""

import os

# Before anything imports numpy: OpenBLAS reads it once, when it is loaded. Several threads make
# small matrix products slower and may change the last bit of a sum.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import signal
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

# A background job of a shell starts with SIGINT ignored, and so would every command a test starts.
signal.signal(signal.SIGINT, signal.default_int_handler)

ROOT = Path(__file__).resolve().parent.parent
SOAK = os.environ.get("PAGEDVIZ_SOAK") == "1"

# derandomize: the same programs on every machine, so a red run is red everywhere.
settings.register_profile(
    "quick",
    max_examples=200,
    deadline=None,
    derandomize=True,
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.register_profile("soak", parent=settings.get_profile("quick"), max_examples=2000)
settings.load_profile("soak" if SOAK else "quick")


def pytest_report_header() -> str:
    counts = "all" if SOAK else "a tenth"
    return f"pagedviz: {counts} of the random cases; oracle folder: {_find_oracle() or 'none'}"


def _find_oracle() -> Path | None:
    named = os.environ.get("PAGEDVIZ_ORACLE")
    folder = Path(named) if named else ROOT.parent / "shared" / "oracle"
    return folder if folder.is_dir() else None


@pytest.fixture(scope="session")
def oracle_dir() -> Path:
    """Folder with recorded scheduler runs, reference logits and hash vectors."""
    folder = _find_oracle()
    if folder is None:
        pytest.skip(
            "the recorded reference runs are not on this machine: "
            "set PAGEDVIZ_ORACLE to the folder that holds fnv1a.json, schedulers/ and models/"
        )
    return folder


@pytest.fixture(scope="session")
def soak() -> bool:
    """True when random tests should run all their cases (make soak)."""
    return SOAK
