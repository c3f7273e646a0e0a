"""What the first visitors of a server would wait for, done before they come.

Invariant: it only fills what all sessions share, with what the first of them would put there.
"""

from __future__ import annotations

from collections.abc import Iterable

import pandas

from pagedviz.engine.errors import PagedVizError
from pagedviz.model import ModelError
from pagedviz.scenarios import scenario_names
from pagedviz.ui import router
from pagedviz.ui.board.packing import chunk_of, packed_chunk, packed_overview
from pagedviz.ui.runs import RunKey, recorded_run

# To have read them is all that is wanted: the screens with Plotly; and pandas, which Streamlit asks
# about whatever a component is given.
READ = (router, pandas)


def warm_up_first() -> None:
    """For one visitor, who comes without an address: the libraries and what is shown first."""
    _warm_up(scenario_names()[:1])


def warm_up_all() -> None:
    """For a room full of people: every scenario as it comes."""
    _warm_up(scenario_names())


def _warm_up(names: Iterable[str]) -> None:
    for name in names:
        try:
            run = recorded_run(RunKey(name))
        except (PagedVizError, ModelError):
            continue  # whoever opens it is told why
        packed_overview(run)
        packed_chunk(run, chunk_of(run.scenario.start_step))
