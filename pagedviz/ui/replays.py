"""Recorded runs that are run again for their tensors, one for each run, shared by all sessions.

Invariants: nothing is run before a panel asks; a trace from a file is repeated only if this model
made it and it is short enough, since every step of it costs everybody's time.
"""

from __future__ import annotations

import streamlit as st

from pagedviz.engine.errors import ConfigError
from pagedviz.trace.replay import Replay
from pagedviz.trace.trace import Trace
from pagedviz.ui.runs import MODEL_NAME, STEP_LIMIT, RecordedRun, RunKey, bundled_model

_KEPT = 8


def replay_of(run: RecordedRun) -> Replay:
    """ConfigError, one sentence, if this run cannot be repeated here."""
    header = run.trace.header
    if header.model != MODEL_NAME:
        raise ConfigError(
            "this trace was recorded with another model or none, so its keys, values and attention "
            "cannot be computed here"
        )
    if run.trace.num_steps > STEP_LIMIT:
        raise ConfigError(
            f"this trace has {run.trace.num_steps} steps; keys, values and attention are computed "
            f"for runs of up to {STEP_LIMIT}"
        )
    return _replay(run.key, run.trace)


@st.cache_resource(show_spinner=False, max_entries=_KEPT)
def _replay(key: RunKey, _trace: Trace) -> Replay:
    return Replay(_trace, bundled_model())
