"""Recorded runs that are run again for their tensors, one for each run, shared by all sessions.

Invariants: nothing is run before a panel asks; a trace from a file is repeated only if this model
made it; while somebody waits no further than STEP_LIMIT, since every step costs everybody's time:
the way to a later one is run again in the background.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import streamlit as st
from numpy.typing import NDArray

from pagedviz.engine.errors import ConfigError
from pagedviz.engine.profiles import Profile
from pagedviz.faults.run import fault_model, fault_profile
from pagedviz.model import LanguageModel, dense_logits
from pagedviz.trace.replay import Replay
from pagedviz.trace.trace import Trace
from pagedviz.trace.truth import Truth, check_recorded_step
from pagedviz.ui.approach import Approach
from pagedviz.ui.runs import MODEL_NAME, RecordedRun, RunKey, bundled_model, work_on
from pagedviz.ui.sweeps import Sweep, Swept

STEP_LIMIT = 1000
_KEPT = 8
_TRUTHS_KEPT = 512
_SWEEPS_KEPT = 8


class TooFar(ConfigError):
    """A step that would take too long to be waited for."""


def replay_of(run: RecordedRun, step: int) -> Replay:
    """To be asked about `step`. ConfigError, one sentence, if that cannot be repeated here; TooFar
    if nobody has been near it yet."""
    replay = _repeated(run)
    if step > STEP_LIMIT and not replay.is_near(step):
        raise TooFar(
            f"this is step {step}; what was not recorded is computed at once up to step "
            f"{STEP_LIMIT}; \u201cProof\u201d computes its way to a later one"
        )
    return replay


def approach_of(run: RecordedRun, step: int) -> Approach:
    """The way to a far step, which goes on while somebody asks. ConfigError as `replay_of`."""
    approach = _approach(run.key, run.trace.num_steps, step, _repeated(run))
    approach.want()
    work_on(approach)
    return approach


@st.cache_resource(show_spinner=False, max_entries=_KEPT)
def _approach(key: RunKey, num_steps: int, step: int, _replay: Replay) -> Approach:
    return Approach(_replay, step)


def _repeated(run: RecordedRun) -> Replay:
    header = run.trace.header
    if header.model != MODEL_NAME:
        raise ConfigError(
            "this trace was recorded with another model or none, so its keys, values, attention "
            "and logits cannot be computed here"
        )
    if run.is_growing:
        raise ConfigError(
            "keys, values, attention and logits are computed when the recording has ended or was "
            "stopped"
        )
    return _replay(run.key, run.trace.num_steps, run.trace)


@st.cache_resource(show_spinner=False, max_entries=_KEPT)
def _replay(key: RunKey, num_steps: int, _trace: Trace) -> Replay:
    return new_replay(key, _trace)


def new_replay(key: RunKey, trace: Trace) -> Replay:
    """An engine of its own that repeats a run. As `Replay` raises."""
    model, profile = _parts(key)
    return Replay(trace, model, profile=profile)


def _parts(key: RunKey) -> tuple[LanguageModel, Profile | None]:
    """What a run was made with: a faulty one has to be made by the same faulty engine again."""
    fault = key.fault
    if fault is None:
        return bundled_model(), None
    return (
        fault_model(fault, key.is_faulty, bundled_model()),
        fault_profile(fault, key.is_faulty),
    )


# ---- rule 8 ------------------------------------------------------------------------------------


def truths_of(run: RecordedRun, step: int) -> tuple[Truth, ...]:
    """How far the paged logits of a step are from dense ones. Raises as `replay_of` does."""
    replay = replay_of(run, step)
    return _truths(run.key, run.trace.num_steps, step, replay)


@st.cache_resource(show_spinner=False, max_entries=_TRUTHS_KEPT)
def _truths(key: RunKey, num_steps: int, step: int, _replay: Replay) -> tuple[Truth, ...]:
    return check_recorded_step(_replay, step, dense)


def dense(token_ids: Sequence[int], adapter: str | None) -> NDArray[np.float32]:
    """[T, vocab], without pages."""
    return dense_logits(bundled_model(), token_ids, adapter=adapter)


def sweep_of(run: RecordedRun) -> Swept:
    """What the sweep of a run has found by now; it goes on while somebody asks."""
    sweep = _sweep(run.key, run.trace.num_steps, run.trace)
    found = sweep.look()
    work_on(sweep)
    return found


@st.cache_resource(show_spinner=False, max_entries=_SWEEPS_KEPT)
def _sweep(key: RunKey, num_steps: int, _trace: Trace) -> Sweep:
    return Sweep(num_steps, lambda: new_replay(key, _trace), dense)
