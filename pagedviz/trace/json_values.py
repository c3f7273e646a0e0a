"""Single JSON values of a trace file: parsed strictly, checked for type and range.

Invariants: a whole number is a JSON integer (no 1.0, no true) that JavaScript holds exactly; a
text is short and can be encoded; anything else is a TraceFormatError that shows the value.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any, NoReturn

from pagedviz.engine.errors import TraceFormatError

Check = Callable[[object], Any]

MAX_INTEGER = (1 << 53) - 1
MAX_LIMIT = (1 << 31) - 1
MAX_TOKEN_ID = (1 << 32) - 1
MAX_NAME = 1000
MAX_WORD = 64
STATES = ("waiting", "prefilling", "decoding", "preempted", "finished")

_HEX_64 = re.compile(r"[0-9a-f]{16}\Z")


def parse_json(line: bytes) -> object:
    """One line of strict JSON: no NaN, no key twice, no nesting without end."""
    try:
        text = line.decode("utf-8")
    except UnicodeDecodeError as error:
        raise TraceFormatError(f"not UTF-8 at byte {error.start}") from None
    try:
        value: object = json.loads(
            text, object_pairs_hook=_unique_keys, parse_constant=_refuse_constant
        )
    except RecursionError:
        raise TraceFormatError("nested too deeply") from None
    except json.JSONDecodeError as error:
        raise TraceFormatError(f"not JSON at character {error.pos + 1}: {error.msg}") from None
    except ValueError:
        # Python refuses to read integers of thousands of digits.
        raise TraceFormatError("a number is too long") from None
    return value


def _unique_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    result = dict(pairs)
    if len(result) != len(pairs):
        keys = [key for key, _ in pairs]
        twice = next(key for key in keys if keys.count(key) > 1)
        raise TraceFormatError(f"the key {show(twice)} is there twice")
    return result


def _refuse_constant(name: str) -> NoReturn:
    raise TraceFormatError(f"{name} is not a number a trace may hold")


def show(value: object) -> str:
    """A value as a message may quote it: JSON, short, one line."""
    text = json.dumps(value, ensure_ascii=True, default=repr)
    return text if len(text) <= 40 else f"{text[:37]}..."


def check_integer(value: object, minimum: int, maximum: int) -> int:
    if type(value) is int and minimum <= value <= maximum:
        return value
    if isinstance(value, int) and not isinstance(value, bool):
        if minimum <= value <= maximum:
            return int(value)
        raise TraceFormatError(f"{_short(value)} is not in {minimum} to {maximum}")
    raise TraceFormatError(f"a whole number is expected, got {show(value)}")


def _short(value: int) -> str:
    return str(value) if abs(value) < 1 << 64 else "a number of over 64 bits"


def check_count(value: object) -> int:
    return check_integer(value, 0, MAX_INTEGER)


check_id = check_count


def check_positive(value: object) -> int:
    return check_integer(value, 1, MAX_INTEGER)


def check_limit(value: object) -> int:
    """A number of tokens a request may ask for: 32 bits, so that sums over a trace fit in 64."""
    return check_integer(value, 1, MAX_LIMIT)


def check_token(value: object) -> int:
    return check_integer(value, 0, MAX_TOKEN_ID)


def check_hash(value: object) -> int:
    """A 64-bit hash as 16 lower-case hexadecimal digits: JSON's numbers would round it."""
    if not isinstance(value, str) or not _HEX_64.match(value):
        raise TraceFormatError(f"16 hexadecimal digits are expected, got {show(value)}")
    return int(value, 16)


def check_text(value: object, max_length: int) -> str:
    if not isinstance(value, str):
        raise TraceFormatError(f"a text is expected, got {show(value)}")
    if len(value) > max_length:
        raise TraceFormatError(f"a text of {len(value)} characters; at most {max_length} may be")
    try:
        value.encode("utf-8")
    except UnicodeEncodeError:
        raise TraceFormatError(f"{show(value)} is half a character") from None
    return value


def check_name(value: object) -> str:
    return check_text(value, MAX_NAME)


def check_word(value: object) -> str:
    return check_text(value, MAX_WORD)


def check_state(value: object) -> str:
    if value not in STATES:
        raise TraceFormatError(f"{show(value)} is not one of {', '.join(STATES)}")
    return str(value)


def check_number(value: object) -> float:
    """A finite number; 1e999 reads as infinity."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise TraceFormatError(f"a number is expected, got {show(value)}")
    number = float(value) if abs(value) < 1 << 64 else float("inf")
    if not abs(number) < float("inf"):
        raise TraceFormatError("a finite number is expected")
    return number
