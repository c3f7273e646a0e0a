"""Read single values of a parsed `config.json` or `adapter_config.json`, with their type and range.

Invariant: a value of the wrong type is never converted; every error is a `ConfigUnsupported` that
names the key and shows the value.
"""

from collections.abc import Mapping

from pagedviz.model.errors import ConfigUnsupported


def integer(
    raw: Mapping[str, object], name: str, low: int, high: int, default: int | None = None
) -> int:
    """A whole number from `low` to `high`; null and missing mean `default`."""
    value = raw.get(name)
    if value is None and default is not None:
        return default
    if type(value) is not int or not low <= value <= high:  # bool is an int: not here
        raise ConfigUnsupported(
            f"{name} must be a whole number from {low} to {high:,}, not {short(value)}."
        )
    return value


def positive(raw: Mapping[str, object], name: str, default: float | None = None) -> float:
    """A finite number above 0; null and missing mean `default`."""
    value = raw.get(name)
    if value is None and default is not None:
        return default
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ConfigUnsupported(f"{name} must be a number above 0, not {short(value)}.")
    if not 0 < value < 1e30:  # NaN is not, either
        raise ConfigUnsupported(f"{name} must be a finite number above 0, not {short(value)}.")
    return float(value)


def flag(raw: Mapping[str, object], name: str) -> bool:
    """true or false; null and missing mean false."""
    value = raw.get(name)
    if value is not None and not isinstance(value, bool):
        raise ConfigUnsupported(f"{name} must be true or false, not {short(value)}.")
    return bool(value)


def short(value: object) -> str:
    """A value as it may stand in a message."""
    return "missing" if value is None else repr(value)[:60]
