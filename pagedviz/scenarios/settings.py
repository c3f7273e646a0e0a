"""Changes the settings and prompts of a scenario, checked by the rules of its file.

Invariants: the scenario given is left as it was; `Scenario.overrides` holds exactly what differs
from the file, as JSON values, so that a link or a trace can carry it; applying it to the scenario
of the file gives the same scenario again.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, replace
from typing import Any

from pagedviz.engine.config import EngineConfig
from pagedviz.engine.errors import ConfigError, ScenarioError
from pagedviz.engine.sampling import SamplingParams
from pagedviz.scenarios.scenario import (
    ENGINE_KEYS,
    REQUEST_KEYS,
    Scenario,
    parse_scenario,
)
from pagedviz.scenarios.tables import Table, show

# Keys that None takes away; the others always have a value.
_OPTIONAL = frozenset((*ENGINE_KEYS, *REQUEST_KEYS)) - {"num_pages", "name", "max_new_tokens"}
# A key that is given replaces the one that says the same in another way.
_RIVALS = {
    "prompt": ("prompt_ids",),
    "prompt_ids": ("prompt",),
    "follows": ("arrival_step",),
    "arrival_step": ("follows", "after"),
}
# What a file means that leaves a key out.
_ENGINE_DEFAULTS = {f.name: f.default for f in fields(EngineConfig) if f.name in ENGINE_KEYS}
_REQUEST_DEFAULTS = {f.name: f.default for f in fields(SamplingParams)} | {
    "arrival_step": 0,
    "after": 1,
    "num_samples": 1,
    "beam_width": 1,
}

_Values = dict[str, Any]


def apply_settings(scenario: Scenario, overrides: Mapping[str, Any]) -> Scenario:
    """A scenario with some values changed: engine settings by their names, and `requests`.

        {"block_size": 8, "chunk_size": None,
         "requests": {"lily": {"prompt": "...", "max_new_tokens": 9},   changed, or added at the end
                      "tom": None}}                                     taken out

    None takes the default of an optional key. ConfigError is one sentence that names the key.
    """
    file = {
        "engine": dict(scenario.table["engine"]),
        "requests": {item["name"]: dict(item) for item in scenario.table["requests"]},
    }
    try:
        values = _apply(_apply(file, scenario.overrides), overrides)
        # A request that was taken out and put back stands where it stood.
        names = dict.fromkeys([*file["requests"], *values["requests"]])
        requests = [values["requests"][name] for name in names if name in values["requests"]]
        table = {**scenario.table, "engine": values["engine"], "requests": requests}
        changed = parse_scenario(table, scenario.name)
    except ScenarioError as error:
        raise ConfigError(str(error)) from None
    return replace(changed, table=scenario.table, overrides=_difference(file, values))


def _apply(values: _Values, overrides: Mapping[str, Any]) -> _Values:
    table = Table("settings", overrides, (*ENGINE_KEYS, "requests"))
    settings = {key: table.take(key) for key in ENGINE_KEYS if key in table}
    requests = dict(values["requests"])
    changes = overrides.get("requests", {})
    if not isinstance(changes, Mapping):
        raise ScenarioError(f'settings: "requests" must be a table by name, got {show(changes)}')
    for name, change in changes.items():
        if change is None:
            requests.pop(name, None)
            continue
        Table(f"request {show(name)}", change, REQUEST_KEYS[1:])  # its name is the key
        requests[name] = _changed(requests.get(name, {"name": name}), change)
    return {"engine": _changed(values["engine"], settings), "requests": requests}


def _changed(values: Mapping[str, Any], changes: Mapping[str, Any]) -> _Values:
    result = dict(values)
    for key, value in changes.items():
        if value is not None:
            for rival in _RIVALS.get(key, ()):
                result.pop(rival, None)
            result[key] = value
        elif key in _OPTIONAL:
            result.pop(key, None)
        else:
            raise ScenarioError(f'"{key}" must have a value')
    return result


def _difference(old: _Values, new: _Values) -> _Values:
    changes = _changes(old["engine"], new["engine"])
    requests: _Values = {name: None for name in old["requests"] if name not in new["requests"]}
    for name, values in new["requests"].items():
        change = _changes(old["requests"].get(name, {"name": name}), values)
        if change:
            requests[name] = change
    return {**changes, "requests": requests} if requests else changes


def _changes(old: Mapping[str, Any], new: Mapping[str, Any]) -> _Values:
    defaults = _ENGINE_DEFAULTS if "num_pages" in new else _REQUEST_DEFAULTS
    missing = object()
    # None first: what takes its place is then applied last and stays.
    changes: _Values = {
        key: None for key, value in old.items() if key not in new and value != defaults.get(key)
    }
    for key, value in new.items():
        if value != old.get(key, defaults.get(key, missing)):
            changes[key] = value
    return changes
