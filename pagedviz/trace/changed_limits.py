"""The settings an engine had at a step: a branch may change its token budget on the way.

    scenario_settings: {"what_if": [{"step": 14, "settings": {"max_tokens_per_step": 8}}]}

Invariant: the header's own settings are those of step 0, so a reader that does not know about
branches is right up to the first change. Entries of another form are not ours and are left alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from pagedviz.engine.config import EngineConfig
from pagedviz.engine.errors import ConfigError
from pagedviz.trace.header import TraceHeader

WHAT_IF = "what_if"
LIMITS = ("max_tokens_per_step", "chunk_size")
"""The settings that a running engine can change: they decide about the next step only."""

_MOST = 64  # a file from elsewhere may list any number


def settings_at(header: TraceHeader, step: int) -> EngineConfig | None:
    """The engine's settings in `step`; None when the trace does not tell any."""
    settings = header.settings
    if settings is None:
        return None
    for first, changes in _changes(header):
        if first <= step:
            try:
                settings = replace(settings, **changes)
            except ConfigError:
                continue
    return settings


def limits_changed_before(header: TraceHeader, step: int) -> EngineConfig | None:
    """The settings in `step`, if they are not those of the step before."""
    now = settings_at(header, step)
    return None if now == settings_at(header, step - 1) else now


def _changes(header: TraceHeader) -> Iterator[tuple[int, dict[str, Any]]]:
    items = (header.scenario_settings or {}).get(WHAT_IF)
    for item in items[:_MOST] if isinstance(items, list | tuple) else ():
        if not isinstance(item, Mapping):
            continue
        step, settings = item.get("step"), item.get("settings")
        if isinstance(step, int) and isinstance(settings, Mapping):
            yield step, {key: settings[key] for key in LIMITS if key in settings}
