"""Reads the keys of one table of a scenario or workload file, each checked for type and range.

Invariants: where the allowed keys are given an unknown one is refused, with the key it resembles; a
value of the wrong type is never converted (no true for 1, no "3" for 3); every message is one
sentence that says where.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from typing import Any

from pagedviz.engine.errors import ScenarioError

_SHOWN = 60


class Table:
    """One table of a file. where: how a message names it, "" for the top of the file. allowed: the
    keys it may have, None = any."""

    def __init__(self, where: str, values: object, allowed: Sequence[str] | None = None) -> None:
        self._where = where
        if not isinstance(values, Mapping):
            raise self.error(f"a table of keys is expected, got {show(values)}")
        if allowed is not None:
            for key in values:
                if key not in allowed:
                    raise self.error(f"unknown key {show(key)}{suggest(key, allowed)}")
        self._values: Mapping[str, Any] = values

    def error(self, message: str) -> ScenarioError:
        return ScenarioError(f"{self._where}: {message}" if self._where else message)

    def __contains__(self, key: str) -> bool:
        return key in self._values

    def take(self, key: str) -> Any:
        """The value as it is; ScenarioError if it is missing."""
        if key not in self._values:
            raise self.error(f'"{key}" is missing')
        return self._values[key]

    def table(self, key: str) -> Table:
        """A table inside this one, empty if it is not there."""
        return Table(f'"{key}"', self._values.get(key, {}))

    def whole(self, key: str, minimum: int, maximum: int, default: int | None = None) -> int:
        """A whole number in [minimum, maximum]."""
        if key not in self._values and default is not None:
            return default
        value = self.take(key)
        if not isinstance(value, int) or isinstance(value, bool):
            raise self.error(f'"{key}" must be a whole number, got {show(value)}')
        if not minimum <= value <= maximum:
            raise self.error(f'"{key}" must be from {minimum} to {maximum}, got {show(value)}')
        return value

    def number(self, key: str, default: float) -> float:
        value = self._values.get(key, default)
        if not isinstance(value, int | float) or isinstance(value, bool):
            raise self.error(f'"{key}" must be a number, got {show(value)}')
        return value

    def flag(self, key: str, default: bool | None = None) -> bool:
        if key not in self._values and default is not None:
            return default
        value = self.take(key)
        if not isinstance(value, bool):
            raise self.error(f'"{key}" must be true or false, got {show(value)}')
        return value

    def text(self, key: str, max_length: int, default: str | None = None) -> str:
        """A text with something in it that any file can hold, unless `default` is taken."""
        if key not in self._values and default is not None:
            return default
        value = self.take(key)
        if not isinstance(value, str):
            raise self.error(f'"{key}" must be a text, got {show(value)}')
        if not value.strip():
            raise self.error(f'"{key}" is empty')
        if len(value) > max_length:
            raise self.error(
                f'"{key}" has {len(value)} characters, at most {max_length} are allowed'
            )
        try:
            value.encode("utf-8")
        except UnicodeEncodeError:
            raise self.error(f'"{key}" holds half a character (a lone surrogate)') from None
        return value

    def line(self, key: str, max_length: int) -> str:
        """A text of one line without control characters: it is printed inside other lines."""
        value = self.text(key, max_length)
        if not value.isprintable():
            raise self.error(f'"{key}" must be one line of printable text, got {show(value)}')
        return value

    def list(self, key: str, max_length: int, default: list[Any] | None = None) -> list[Any]:
        if key not in self._values and default is not None:
            return default
        value = self.take(key)
        if not isinstance(value, list):
            raise self.error(f'"{key}" must be a list, got {show(value)}')
        if len(value) > max_length:
            raise self.error(f'"{key}" has {len(value)} entries, at most {max_length} are allowed')
        return value

    def token_ids(self, key: str, max_length: int) -> tuple[int, ...]:
        """One or more token ids, each in [0, 2**32)."""
        values = self.list(key, max_length)
        if not values:
            raise self.error(f'"{key}" is empty: at least one token is needed')
        for position, value in enumerate(values):
            if not isinstance(value, int) or isinstance(value, bool):
                raise self.error(
                    f'"{key}": token {position} must be a whole number, got {show(value)}'
                )
            if not 0 <= value < 1 << 32:
                raise self.error(
                    f'"{key}": token {position} must be from 0 to {(1 << 32) - 1}, '
                    f"got {show(value)}"
                )
        return tuple(values)


def show(value: object) -> str:
    """A value as it may stand in a message: short, one line."""
    if isinstance(value, int) and not isinstance(value, bool) and value.bit_length() > 128:
        return f"a number of {value.bit_length()} bits"
    text = ascii(value) if isinstance(value, str) else repr(value)
    return text if len(text) <= _SHOWN else f"{text[: _SHOWN - 3]}..."


def suggest(word: object, known: Sequence[str]) -> str:
    """` (did you mean x?); allowed: x, y, z` for a word that is not among the known ones."""
    close = get_close_matches(str(word)[:_SHOWN], known, n=1)
    hint = f" (did you mean {close[0]}?)" if close else ""
    return f"{hint}; allowed: {', '.join(known)}"
