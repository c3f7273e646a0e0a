"""`pagedviz schedule`: what the scheduler decides for workload files, one JSON line a step."""

from __future__ import annotations

import json
from collections.abc import Sequence

from pagedviz.scenarios import load_workload, replay


def schedule(workloads: Sequence[str], profile: str) -> None:
    """Print the records of each file in turn, as the engine of a profile decides. ScenarioError,
    Stall."""
    for path in workloads:
        for record in replay(load_workload(path, profile)):
            print(json.dumps(record))
