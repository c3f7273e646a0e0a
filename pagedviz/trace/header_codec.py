"""The header line of a trace file: what is checked before anything else is read.

Invariants: an unknown version is refused with both numbers; every field is checked; reading gives
back the header that was written.
"""

from __future__ import annotations

from dataclasses import asdict, fields
from typing import Any

from pagedviz.engine.config import EngineConfig
from pagedviz.engine.errors import ConfigError, TraceFormatError
from pagedviz.trace.header import Bookmark, KvShape, TraceHeader
from pagedviz.trace.json_values import (
    check_count,
    check_name,
    check_number,
    check_positive,
    check_text,
    show,
)

FORMAT = "pagedviz-trace"
FORMAT_VERSION = 1
CHECKSUM = "crc32"
KEYS = (
    "format",
    "version",
    "producer",
    "num_pages",
    "block_size",
    "settings",
    "scenario",
    "scenario_settings",
    "model",
    "kv",
    "bookmarks",
    "checksum",
)
MAX_BOOKMARKS = 50
MAX_BOOKMARK_NAME = 60
_MAX_DEPTH = 8
# Scenario settings hold whole prompts.
_MAX_TEXT = 100_000


def write_header(header: TraceHeader) -> dict[str, Any]:
    """The header as our own files have it: with the promise of a footer."""
    item: dict[str, Any] = {
        "format": FORMAT,
        "version": FORMAT_VERSION,
        "producer": check_name(header.producer),
        "num_pages": header.num_pages,
        "block_size": header.block_size,
    }
    if header.settings is not None:
        item["settings"] = asdict(header.settings)
    if header.scenario is not None:
        item["scenario"] = check_name(header.scenario)
    if header.scenario_settings is not None:
        item["scenario_settings"] = _check_tree(dict(header.scenario_settings))
    if header.model is not None:
        item["model"] = check_name(header.model)
    if header.kv is not None:
        shape = header.kv._asdict()
        item["kv"] = {key: value for key, value in shape.items() if value is not None}
    if header.bookmarks:
        item["bookmarks"] = [list(mark) for mark in header.bookmarks]
        _read_bookmarks(item["bookmarks"])
    return item | {"checksum": CHECKSUM}


def read_header(item: object) -> tuple[TraceHeader, bool]:
    """The header and whether a footer must follow. TraceFormatError."""
    if not isinstance(item, dict) or item.get("format") != FORMAT:
        raise TraceFormatError(f'not a trace: the first line must say "format": "{FORMAT}"')
    version = item.get("version")
    if type(version) is not int or version != FORMAT_VERSION:
        raise TraceFormatError(
            f"this is version {show(version)} of the trace format; version {FORMAT_VERSION} is read"
        )
    _only(item, KEYS, "header")
    for key in ("num_pages", "block_size"):
        if key not in item:
            raise TraceFormatError(f'the header lacks "{key}"')
    if item.get("checksum", CHECKSUM) != CHECKSUM:
        raise TraceFormatError(f'checksum {show(item["checksum"])}: only "{CHECKSUM}" is known')
    try:
        header = TraceHeader(
            num_pages=check_positive(item["num_pages"]),
            block_size=check_positive(item["block_size"]),
            producer=check_name(item.get("producer", "unknown")),
            settings=_read_settings(item["settings"]) if "settings" in item else None,
            scenario=check_name(item["scenario"]) if "scenario" in item else None,
            scenario_settings=_read_scenario_settings(item),
            model=check_name(item["model"]) if "model" in item else None,
            kv=_read_kv(item["kv"]) if "kv" in item else None,
            bookmarks=_read_bookmarks(item["bookmarks"]) if "bookmarks" in item else (),
        )
    except ConfigError as error:
        raise TraceFormatError(f"header: {error}") from None
    return header, "checksum" in item


def _only(item: dict[str, Any], known: tuple[str, ...], what: str) -> None:
    for key in item:
        if key not in known:
            raise TraceFormatError(f"{what}: unknown key {show(key)}; known: {', '.join(known)}")


def _read_settings(item: object) -> EngineConfig:
    if not isinstance(item, dict):
        raise TraceFormatError(f'"settings" must be an object, got {show(item)}')
    _only(item, tuple(field.name for field in fields(EngineConfig)), "settings")
    if "num_pages" not in item:
        raise TraceFormatError('"settings" lacks "num_pages"')
    return EngineConfig(**item)


def _read_scenario_settings(item: dict[str, Any]) -> dict[str, Any] | None:
    if "scenario_settings" not in item:
        return None
    settings = item["scenario_settings"]
    if not isinstance(settings, dict):
        raise TraceFormatError(f'"scenario_settings" must be an object, got {show(settings)}')
    _check_tree(settings)
    return settings


def _read_kv(item: object) -> KvShape:
    if not isinstance(item, dict):
        raise TraceFormatError(f'"kv" must be an object, got {show(item)}')
    _only(item, KvShape._fields, "kv")
    for name in KvShape._fields[:3]:
        if name not in item:
            raise TraceFormatError(f'"kv" lacks "{name}"')
    return KvShape(**{key: check_positive(value) for key, value in item.items()})


def _read_bookmarks(item: object) -> tuple[Bookmark, ...]:
    """Whether the moments exist is known only when all steps have been read."""
    if not isinstance(item, list) or len(item) > MAX_BOOKMARKS:
        raise TraceFormatError(
            f'"bookmarks" must be a list of at most {MAX_BOOKMARKS}, got {show(item)}'
        )
    return tuple(map(_read_bookmark, item))


def _read_bookmark(item: object) -> Bookmark:
    if not isinstance(item, list) or len(item) != len(Bookmark._fields):
        raise TraceFormatError(f"a bookmark is [step, event or null, name], got {show(item)}")
    step, event, name = item
    if not check_text(name, MAX_BOOKMARK_NAME).strip():
        raise TraceFormatError(f"a bookmark must have a name, got {show(name)}")
    return Bookmark(check_count(step), None if event is None else check_count(event), name)


def _check_tree(value: Any, depth: int = 0) -> Any:
    """Any JSON value, not nested deeply, all numbers finite, all texts short."""
    if depth > _MAX_DEPTH:
        raise TraceFormatError(f'"scenario_settings" is nested more than {_MAX_DEPTH} deep')
    if isinstance(value, dict):
        for key, inner in value.items():
            check_name(key)
            _check_tree(inner, depth + 1)
    elif isinstance(value, list | tuple):
        for inner in value:
            _check_tree(inner, depth + 1)
    elif isinstance(value, str):
        check_text(value, _MAX_TEXT)
    elif value is not None and not isinstance(value, bool):
        check_number(value)
    return value
