"""Runs scenarios and keeps what was recorded, for all sessions of a server.

Invariants: a scenario as it comes is recorded whole before it is shown; a changed one is shown with
its first steps and recorded further by the worker; what is handed out is shared and only read; what
differs from a scenario is part of a run's key, so equal settings share a run; the rules are checked
after every step that is recorded.
"""

from __future__ import annotations

import hashlib
import json
import logging
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import streamlit as st

from pagedviz.engine.errors import ConfigError, ScenarioError
from pagedviz.engine.live_checker import LiveChecker
from pagedviz.faults import Fault, find_fault
from pagedviz.faults.run import FAULTY, HEALTHY, FaultRun
from pagedviz.model import BadModelInput, LanguageModel, ModelError, load_tiny
from pagedviz.scenarios import (
    BranchRun,
    Change,
    Scenario,
    ScenarioRun,
    apply_settings,
    load_scenario,
    parse_changes,
    scenario_names,
)
from pagedviz.scenarios.scenario import ENGINE_KEYS
from pagedviz.trace.trace import Moment, Trace
from pagedviz.ui.recording import Checked, Recorded, Recording
from pagedviz.ui.server_limits import limits
from pagedviz.ui.worker import Job, Worker
from pagedviz.views.words import TokenText, numbered

_log = logging.getLogger(__name__)
MODEL_NAME = "tiny"
# Of a changed run, before it is shown; most runs are shorter.
FIRST_STEPS = 256
FIRST_SECONDS = 1.0
# More pages than this cannot be told apart on a screen.
PAGE_LIMIT = 4096
_CHANGED_RUNS_KEPT = 24


class RunKey(NamedTuple):
    """overrides: JSON of `Scenario.overrides`, "{}" for a scenario as it comes. changes: JSON of
    what is different from some step on, in order; "[]" for a run that is no branch. file: what an
    opened trace file is told apart by; such a run is its visitor's alone. The workload of a fault
    is a run too: scenario is `fault-` and the fault's name, or `healthy-` and it."""

    scenario: str
    overrides: str = "{}"
    changes: str = "[]"
    file: str = ""

    @property
    def is_changed(self) -> bool:
        return self.overrides != "{}" or self.is_branch

    @property
    def is_branch(self) -> bool:
        return self.changes != "[]"

    @property
    def fault(self) -> Fault | None:
        """Whose workload this is, with the fault or without. UnknownFault."""
        for start in (FAULTY, HEALTHY):
            if self.scenario.startswith(start) and not self.file:
                return find_fault(self.scenario.removeprefix(start))
        return None

    @property
    def is_faulty(self) -> bool:
        return self.scenario.startswith(FAULTY) and not self.file

    @property
    def is_scenario(self) -> bool:
        """One that can be run with other settings."""
        return not self.file and self.fault is None

    @property
    def parent(self) -> RunKey:
        """The run that this branch left; of no branch, itself."""
        return self._replace(changes=_json(json.loads(self.changes)[:-1]))

    @property
    def short(self) -> str:
        """For the keys of widgets, which Streamlit turns into names of CSS classes."""
        text = self.overrides + (self.changes if self.is_branch else "") + self.file
        digest = hashlib.blake2s(text.encode(), digest_size=6).hexdigest()
        return f"{self.scenario}-{digest}" if self.is_changed or self.file else self.scenario


@dataclass(frozen=True, slots=True)
class RecordedRun:
    """context: tokens the model can hold. ended: why the recording stopped before everything had
    finished, in one sentence. is_growing: more is being recorded; `trace` stays as it is all the
    same. can_go_on: somebody has stopped that. checked: by whom the rules were checked while it was
    recorded; None if it was recorded elsewhere."""

    key: RunKey
    scenario: Scenario
    trace: Trace
    token_text: TokenText
    context: int
    ended: str | None
    is_growing: bool = False
    can_go_on: bool = False
    checked: Checked | None = None

    @property
    def version(self) -> tuple[int, bool]:
        """What tells apart the states of one run that grows."""
        return self.trace.num_steps, self.is_growing

    @property
    def start(self) -> Moment:
        """Where it is best looked at first."""
        return Moment(min(self.scenario.start_step, self.trace.num_steps - 1))

    @property
    def hints(self) -> list[tuple[int, str]]:
        """Steps worth a look, and why."""
        return [
            (hint.step, hint.text)
            for hint in self.scenario.look_for
            # In a branch something else may happen at those steps.
            if hint.step < self.trace.num_steps and not self.key.is_branch
        ]


def key_for(scenario: str, overrides: Mapping[str, Any], changes: Iterable[Change] = ()) -> RunKey:
    """The key of a bundled scenario with changed settings, or of a branch of it. ScenarioError,
    ConfigError."""
    if scenario.startswith((FAULTY, HEALTHY)):
        return _fault_key(scenario, overrides, changes)
    if scenario not in scenario_names():
        # load_scenario would also read files of the server, which an address may not ask for.
        raise ScenarioError(
            f"there is no scenario {scenario[:40]!r}; there are {', '.join(scenario_names())}"
        )
    changed = apply_settings(load_scenario(scenario), overrides)
    items = [change.as_json() for change in changes]
    return RunKey(scenario, _json(dict(changed.overrides)), _json(items))


def fault_key(name: str, is_faulty: bool = True) -> RunKey:
    """The run of a fault's workload, with the fault or without. UnknownFault."""
    return RunKey(f"{FAULTY if is_faulty else HEALTHY}{find_fault(name).name}")


def _fault_key(scenario: str, overrides: Mapping[str, Any], changes: Iterable[Change]) -> RunKey:
    if overrides or any(True for _ in changes):
        raise ScenarioError(
            f"{scenario[:40]} runs the workload of a fault as it is: leave the settings out"
        )
    key = RunKey(scenario)
    fault = key.fault
    assert fault is not None
    return fault_key(fault.name, key.is_faulty)  # it may have been called by its number


def varied_key(key: RunKey, settings: Mapping[str, Any]) -> RunKey:
    """The run of a key with other settings of the engine: the same workload, and of a branch the
    same changes at the same steps. ScenarioError, ConfigError."""
    if key.file:
        raise ScenarioError(
            "a run that comes from a file cannot be run with other settings: choose a scenario"
        )
    if not key.is_scenario:
        raise ScenarioError(
            "the workload of a fault cannot be run with other settings: choose a scenario"
        )
    for name in settings:
        if name not in ENGINE_KEYS:
            raise ScenarioError(
                f"a run is compared under other settings, and {name[:40]!r} is none; there are "
                f"{', '.join(ENGINE_KEYS)}"
            )
    changes = parse_changes(json.loads(key.changes))
    return key_for(key.scenario, {**json.loads(key.overrides), **settings}, changes)


def _json(value: object) -> str:
    return json.dumps(value, sort_keys=True, ensure_ascii=False)


def recorded_run(key: RunKey, step: int = 0) -> RecordedRun:
    """The run of a key as far as it is recorded by now, `step` included if the run has it.

    Raises PagedVizError or ModelError, one sentence each, if it cannot be run.
    """
    recording = recording_of(key)
    recording.reach(step)
    return as_recorded(key, recording.scenario, recording.now())


def recording_of(key: RunKey) -> Recording:
    """Begun now if nobody asked for it before. Raises as `recorded_run` does."""
    return _changed_recording(key) if key.is_changed else _original_recording(key)


def stop_recording(key: RunKey) -> None:
    recording_of(key).stop()


def pause_check(key: RunKey, is_paused: bool) -> None:
    recording_of(key).pause_check(is_paused)


def go_on_recording(key: RunKey) -> None:
    recording = recording_of(key)
    recording.go_on()
    _worker().add(recording)


@st.cache_resource(show_spinner=False)
def _original_recording(key: RunKey) -> Recording:
    recording = _begin(key)
    recording.reach(limits().recorded_steps)
    return recording


@st.cache_resource(show_spinner="Running the changed scenario", max_entries=_CHANGED_RUNS_KEPT)
def _changed_recording(key: RunKey) -> Recording:
    recording = _begin(key)
    changes = parse_changes(json.loads(key.changes))
    # What cannot be done is to be known before anything is shown.
    recording.reach(max((change.step for change in changes), default=0))
    recording.reach(FIRST_STEPS - 1, FIRST_SECONDS)
    _worker().add(recording)
    return recording


def work_on(job: Job) -> None:
    """Do it in the background, beside the recordings."""
    _worker().add(job)


@st.cache_resource(show_spinner=False)
def _worker() -> Worker:
    return Worker()


@st.cache_resource(show_spinner=False)
def bundled_model() -> LanguageModel:
    """The model that runs everything, shared by all, with the adapters that the server was started
    with. ModelError."""
    adapters = limits().adapters
    if not adapters:
        return load_tiny()
    try:
        return load_tiny(adapters)
    except ModelError as error:
        # The reason names a folder of the server.
        _log.error("%s", error)
        raise BadModelInput(
            "an adapter that this server was started with cannot be loaded; its log says why"
        ) from None


def _begin(key: RunKey) -> Recording:
    fault = key.fault
    if fault is not None:
        faulty = FaultRun(
            fault, bundled_model(), MODEL_NAME, is_faulty=key.is_faulty, checker=LiveChecker()
        )
        return Recording(faulty, min(limits().recorded_steps, fault.words.max_steps))
    scenario = apply_settings(load_scenario(key.scenario), json.loads(key.overrides))
    changes = parse_changes(json.loads(key.changes))
    for settings in ({"num_pages": scenario.engine.num_pages}, *(c.settings for c in changes)):
        num_pages = settings.get("num_pages")
        if isinstance(num_pages, int) and num_pages > PAGE_LIMIT:
            raise ConfigError(
                f"num_pages {num_pages} is more than this screen can draw: {PAGE_LIMIT} pages at "
                "most"
            )
    model = bundled_model()
    if key.is_branch:
        parent = recorded_run(key.parent, changes[-1].step).trace
        run: ScenarioRun = BranchRun(
            scenario, model, MODEL_NAME, parent, changes, checker=LiveChecker()
        )
    else:
        run = ScenarioRun(scenario, model, MODEL_NAME, checker=LiveChecker())
    return Recording(run, limits().recorded_steps)


def as_recorded(key: RunKey, scenario: Scenario, recorded: Recorded) -> RecordedRun:
    """A trace with what the screens want to know about it as a whole. ModelError."""
    trace = recorded.trace
    trace.fold()
    model = bundled_model()
    is_ours = trace.header.model == MODEL_NAME and model.tokenizer is not None
    return RecordedRun(
        key=key,
        scenario=scenario,
        trace=trace,
        token_text=model.tokenizer.token_text if is_ours and model.tokenizer else numbered,
        context=model.max_seq_len,
        ended=recorded.ended,
        is_growing=recorded.is_growing,
        can_go_on=recorded.can_go_on,
        checked=recorded.checked,
    )
