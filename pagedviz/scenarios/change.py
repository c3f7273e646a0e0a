"""Change: what is to be different in a run from one of its steps on; the question "what if?".

    {"step": 14, "settings": {"chunk_size": 8}, "aborts": ["tom"], "prompts": {"lily": "Once ..."}}

There are two kinds of settings. The token budget and the chunk decide about the next step only: a
running engine takes them over and nothing behind it changes. Page size, sizes of the pools,
caching, preemption and profile are what an engine is put together from: the run is repeated from
its first step with them, the tokens sampled before `step` are given, and from `step` on the model
samples again.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

from pagedviz.engine.errors import ConfigError, ScenarioError
from pagedviz.scenarios.scenario import MAX_PROMPT_CHARS, MAX_STEP
from pagedviz.scenarios.tables import Table, show
from pagedviz.trace.changed_limits import LIMITS

REBUILDS = ("block_size", "num_pages", "prefix_caching", "preemption", "host_pages", "profile")
"""The settings with which a run is repeated from its start."""

MAX_CHANGES = 8
_MAX_SEQUENCES = 64
_MAX_NAME = 60


@dataclass(frozen=True, slots=True)
class Change:
    """aborts: names of sequences. prompts: name of a sequence -> its new text: it is aborted and
    submitted anew; one that has not arrived yet arrives with the new text."""

    step: int
    settings: Mapping[str, Any] = field(default_factory=dict)
    aborts: tuple[str, ...] = ()
    prompts: Mapping[str, str] = field(default_factory=dict)

    @property
    def rebuilds(self) -> dict[str, Any]:
        """The settings that repeat the run from its start."""
        return {key: value for key, value in self.settings.items() if key in REBUILDS}

    @property
    def limits(self) -> dict[str, Any]:
        """The settings that a running engine takes over."""
        return {key: value for key, value in self.settings.items() if key in LIMITS}

    def as_json(self) -> dict[str, Any]:
        """What parse_changes reads; empty parts are left out."""
        parts = {
            "settings": dict(self.settings),
            "aborts": list(self.aborts),
            "prompts": dict(self.prompts),
        }
        return {"step": self.step, **{key: part for key, part in parts.items() if part}}


def parse_changes(values: object) -> tuple[Change, ...]:
    """Changes in order of their steps, from JSON. ConfigError is one sentence."""
    if not isinstance(values, list) or len(values) > MAX_CHANGES:
        raise ConfigError(
            f"what_if must be a list of at most {MAX_CHANGES} changes, got {show(values)}"
        )
    try:
        json.dumps(values, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        raise ConfigError("what_if holds half a character (a lone surrogate)") from None
    except RecursionError:
        raise ConfigError("what_if is nested too deeply") from None
    try:
        changes = tuple(_parse(number, item) for number, item in enumerate(values, 1))
    except ScenarioError as error:
        raise ConfigError(str(error)) from None
    for before, after in pairwise(changes):
        if after.step < before.step:
            raise ConfigError(
                f"what_if: a change at step {before.step} stands before one at step {after.step}"
            )
    return changes


def _parse(number: int, values: object) -> Change:
    where = f"what_if, change {number}"
    table = Table(where, values, ("step", "settings", "aborts", "prompts"))
    settings = table.take("settings") if "settings" in table else {}
    Table(f"{where}, settings", settings, (*REBUILDS, *LIMITS))
    aborts = _names(table.list("aborts", _MAX_SEQUENCES, default=[]), where)
    prompts = table.take("prompts") if "prompts" in table else {}
    if not isinstance(prompts, Mapping) or len(prompts) > _MAX_SEQUENCES:
        raise table.error(f'"prompts" must be a short table by name, got {show(prompts)}')
    names = _names(list(prompts), where)
    texts = Table(f"{where}, prompts", prompts)
    change = Change(
        table.whole("step", 0, MAX_STEP),
        settings,
        aborts,
        {name: texts.text(name, MAX_PROMPT_CHARS) for name in names},
    )
    if not (settings or aborts or prompts):
        raise table.error("it changes nothing")
    return change


def _names(names: Sequence[object], where: str) -> tuple[str, ...]:
    found = []
    for name in names:
        if not isinstance(name, str) or not 0 < len(name) <= _MAX_NAME:
            raise ScenarioError(f"{where}: the name of a sequence is expected, got {show(name)}")
        found.append(name)
    return tuple(found)
