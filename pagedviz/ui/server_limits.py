"""What this server grants: read from the environment, in this one place.

    PAGEDVIZ_WORKSHOP        on, off      a room full of people: smaller defaults for all below
    PAGEDVIZ_RECORDED_STEPS  a number     most steps recorded of one run
    PAGEDVIZ_SESSIONS        a number     most people at a time; not set: any number
    PAGEDVIZ_CHARTS          on, off      whether charts are shown before somebody asks
    PAGEDVIZ_ADAPTERS        JSON         folders of more LoRA adapters, by name

Invariant: whoever starts the server sets it up by `environment`, so writer and reader agree.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass

from pagedviz.engine.errors import PagedVizError

_PREFIX = "PAGEDVIZ_"
_SWITCH = {"on": True, "off": False}


class LimitsError(PagedVizError):
    """A setting of the server that makes no sense."""


@dataclass(frozen=True, slots=True)
class ServerLimits:
    """recorded_steps: most steps recorded of one run. sessions: most at a time, None = any number.
    charts: shown unless a visitor turns them off. workshop: many people on one network.
    adapters: name and folder of each; visitors see the names."""

    recorded_steps: int = 5000
    sessions: int | None = None
    charts: bool = True
    workshop: bool = False
    adapters: tuple[tuple[str, str], ...] = ()


# The library behind the charts is 4.7 MB for each laptop on the one Wi-Fi.
WORKSHOP = ServerLimits(recorded_steps=1000, sessions=60, charts=False, workshop=True)


def limits(environment: Mapping[str, str] = os.environ) -> ServerLimits:
    """LimitsError, one sentence, for a variable that cannot be read."""
    base = WORKSHOP if _switch(environment, "WORKSHOP", False) else ServerLimits()
    return ServerLimits(
        recorded_steps=_number(environment, "RECORDED_STEPS") or base.recorded_steps,
        sessions=_number(environment, "SESSIONS") or base.sessions,
        charts=_switch(environment, "CHARTS", base.charts),
        workshop=base.workshop,
        adapters=_folders(environment),
    )


def environment(granted: ServerLimits) -> dict[str, str]:
    """The variables that `limits` reads these from."""
    names = {on: name for name, on in _SWITCH.items()}
    found = {
        "WORKSHOP": names[granted.workshop],
        "RECORDED_STEPS": str(granted.recorded_steps),
        "CHARTS": names[granted.charts],
    }
    if granted.sessions is not None:
        found["SESSIONS"] = str(granted.sessions)
    if granted.adapters:
        found["ADAPTERS"] = json.dumps(dict(granted.adapters))
    return {_PREFIX + name: value for name, value in found.items()}


def _number(environment: Mapping[str, str], name: str) -> int | None:
    text = environment.get(_PREFIX + name)
    if text is None:
        return None
    is_short = len(text) <= len("1000000") and text.isascii() and text.isdecimal()
    if not (is_short and 0 < int(text) <= 1_000_000):
        raise LimitsError(
            f"{_PREFIX}{name} must be a whole number from 1 to 1000000, got {text[:40]!r}"
        )
    return int(text)


def _folders(environment: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    try:
        found = json.loads(environment.get(_PREFIX + "ADAPTERS", "{}"))
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict) or not all(isinstance(path, str) for path in found.values()):
        # What it says instead may be a path, which is no visitor's business.
        raise LimitsError(f"{_PREFIX}ADAPTERS must be a JSON object of folders by name")
    return tuple(found.items())


def _switch(environment: Mapping[str, str], name: str, default: bool) -> bool:
    text = environment.get(_PREFIX + name)
    if text is None:
        return default
    if text not in _SWITCH:
        raise LimitsError(f"{_PREFIX}{name} must be on or off, got {text!r}")
    return _SWITCH[text]
