"""Recorded runs that are run again for their tensors, one for each run, shared by all sessions.

Invariants: nothing is run before a panel asks; a trace from a file is repeated only if this model
made it, and no further than STEP_LIMIT, since every step costs everybody's time.
"""

from __future__ import annotations

import streamlit as st

from pagedviz.engine.errors import ConfigError
from pagedviz.trace.replay import Replay
from pagedviz.trace.trace import Trace
from pagedviz.ui.runs import MODEL_NAME, RecordedRun, RunKey, bundled_model

STEP_LIMIT = 1000
_KEPT = 8


def replay_of(run: RecordedRun, step: int) -> Replay:
    """To be asked about `step`. ConfigError, one sentence, if that cannot be repeated here."""
    header = run.trace.header
    if header.model != MODEL_NAME:
        raise ConfigError(
            "this trace was recorded with another model or none, so its keys, values and attention "
            "cannot be computed here"
        )
    if step > STEP_LIMIT:
        raise ConfigError(
            f"this is step {step}; keys, values and attention are computed up to step {STEP_LIMIT}"
        )
    if run.is_growing:
        raise ConfigError(
            "keys, values and attention are computed when the recording has ended or was stopped"
        )
    return _replay(run.key, run.trace.num_steps, run.trace)


@st.cache_resource(show_spinner=False, max_entries=_KEPT)
def _replay(key: RunKey, num_steps: int, _trace: Trace) -> Replay:
    return Replay(_trace, bundled_model())
