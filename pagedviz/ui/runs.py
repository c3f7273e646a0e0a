"""Runs scenarios and keeps what was recorded, for all sessions of a server.

Invariants: a run is recorded whole before it is shown, up to STEP_LIMIT steps; runs are shared and
only read; what differs from a scenario is part of a run's key, so equal settings share a run.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import streamlit as st

from pagedviz.engine.errors import ConfigError, ScenarioError
from pagedviz.model import LanguageModel, load_tiny
from pagedviz.scenarios import (
    Scenario,
    ScenarioRun,
    apply_settings,
    load_scenario,
    scenario_names,
)
from pagedviz.trace.trace import Trace
from pagedviz.views.words import TokenText, numbered

STEP_LIMIT = 1000
# More pages than this cannot be told apart on a screen.
PAGE_LIMIT = 4096
_CHANGED_RUNS_KEPT = 24


class RunKey(NamedTuple):
    """overrides: JSON of `Scenario.overrides`, "{}" for a scenario as it comes."""

    scenario: str
    overrides: str = "{}"

    @property
    def is_changed(self) -> bool:
        return self.overrides != "{}"

    @property
    def short(self) -> str:
        """For the keys of widgets, which Streamlit turns into names of CSS classes."""
        digest = hashlib.blake2s(self.overrides.encode(), digest_size=6).hexdigest()
        return f"{self.scenario}-{digest}" if self.is_changed else self.scenario


@dataclass(frozen=True, slots=True)
class RecordedRun:
    """context: tokens the model can hold. ended: why the recording stopped before everything had
    finished, in one sentence."""

    key: RunKey
    scenario: Scenario
    trace: Trace
    token_text: TokenText
    context: int
    ended: str | None


def key_for(scenario: str, overrides: Mapping[str, Any]) -> RunKey:
    """The key of a bundled scenario with changed settings. ScenarioError, ConfigError."""
    if scenario not in scenario_names():
        # load_scenario would also read files of the server, which an address may not ask for.
        raise ScenarioError(
            f"there is no scenario {scenario[:40]!r}; there are {', '.join(scenario_names())}"
        )
    changed = apply_settings(load_scenario(scenario), overrides)
    text = json.dumps(dict(changed.overrides), sort_keys=True, ensure_ascii=False)
    return RunKey(scenario, text)


def recorded_run(key: RunKey) -> RecordedRun:
    """The run of a key, recorded now if nobody asked for it before.

    Raises PagedVizError or ModelError, one sentence each, if it cannot be run.
    """
    return _changed_run(key) if key.is_changed else _original_run(key)


@st.cache_resource(show_spinner="Running the scenario")
def _original_run(key: RunKey) -> RecordedRun:
    return _record(key)


@st.cache_resource(show_spinner="Running the changed scenario", max_entries=_CHANGED_RUNS_KEPT)
def _changed_run(key: RunKey) -> RecordedRun:
    return _record(key)


@st.cache_resource(show_spinner="Loading the model")
def _model() -> LanguageModel:
    return load_tiny()


def _record(key: RunKey) -> RecordedRun:
    scenario = apply_settings(load_scenario(key.scenario), json.loads(key.overrides))
    if scenario.engine.num_pages > PAGE_LIMIT:
        raise ConfigError(
            f"num_pages {scenario.engine.num_pages} is more than this screen can draw: "
            f"{PAGE_LIMIT} pages at most"
        )
    model = _model()
    run = ScenarioRun(scenario, model, "tiny")
    while not run.is_done and run.trace.num_steps < STEP_LIMIT:
        run.step()
        if run.engine.is_stalled and len(run.seq_ids) == len(scenario.requests):
            break
    trace = run.trace
    trace.fold()
    tokenizer = model.tokenizer
    return RecordedRun(
        key=key,
        scenario=scenario,
        trace=trace,
        token_text=numbered if tokenizer is None else tokenizer.token_text,
        context=model.max_seq_len,
        ended=_ended(run),
    )


def _ended(run: ScenarioRun) -> str | None:
    if run.is_done:
        return None
    final = run.trace.final
    if run.trace.num_steps >= STEP_LIMIT:
        left = len(final.waiting) + len(final.running)
        return (
            f"Recording stopped at its limit of {STEP_LIMIT} steps; {left} sequences have not "
            "finished"
        )
    return (
        f"Recording stopped at step {run.trace.num_steps - 1}: {len(final.waiting)} waiting and "
        "nothing runs, so no later step would differ"
    )
