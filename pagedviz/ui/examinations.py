"""Examined faults, kept for all sessions of a server.

Invariant: what is handed out is shared and only read.
"""

from __future__ import annotations

import streamlit as st

from pagedviz.faults import FAULTS, SCENARIOS, Examination, examine, find_fault
from pagedviz.ui.runs import bundled_model


@st.cache_resource(
    show_spinner="Running the healthy and the faulty engine",
    max_entries=len(FAULTS) * len(SCENARIOS),
)
def examined(name: str, workload: str) -> Examination:
    """A fault by its name, on one of its workloads. ModelError, PagedVizError."""
    return examine(find_fault(name), workload, bundled_model())
