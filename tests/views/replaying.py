"""A board that knows nothing but chunks: a dictionary of fields that patches are assigned to.

What the browser does, written a second time, so that both can be held against the trace.
"""

from __future__ import annotations

import base64
import gzip
import json
from itertools import pairwise
from typing import Any

from pagedviz.engine.state_hash import field_hash
from pagedviz.views.phrases import spoken

_MASK = (1 << 64) - 1
_SEQUENCE = (
    *("name", "adapter", "num_prompt_tokens", "max_new_tokens", "num_tokens", "state"),
    *("num_computed", "num_scheduled", "num_cached", "num_preemptions", "finish_reason"),
    *("parent", "num_swapped"),
)


def decoded(text: str) -> dict[str, Any]:
    packed = gzip.decompress(base64.b64decode(text))
    data: dict[str, Any] = json.loads(packed.decode("ascii"))
    return data


def start_fields(start: dict[str, Any]) -> dict[str, int | str]:
    """The fields of a chunk's first state."""
    fields: dict[str, int | str | None] = {"step": start["step"]}
    for name in ("generation", "ref_count", "fill"):
        fields |= {f"page/{i}/{name}": value for i, value in enumerate(start[name])}
    fields |= {f"page/{page_id}/hash": value for page_id, value in start["hash"].items()}
    for page_id, tokens in start["token"].items():
        fields |= {f"page/{page_id}/token/{i}": token for i, token in enumerate(tokens)}
    for name in ("queue", "waiting", "running"):
        ids = start[name]
        fields |= {f"{name}/next/{here}": following for here, following in pairwise(ids)}
        fields |= {f"{name}/head": ids[0]} if ids else {}
    for index, seq in enumerate(start["seq"]):
        prefix = f"seq/{seq['id']}"
        fields[f"{prefix}/index"] = index
        fields |= {f"{prefix}/{name}": seq[name] for name in _SEQUENCE}
        for name in ("token", "page", "generation", "host"):
            fields |= {f"{prefix}/{name}/{i}": value for i, value in enumerate(seq[name])}
    return {path: value for path, value in fields.items() if value is not None}


class Replay:
    """Stands before the first event of the chunk; `on` and `back` go one patch."""

    def __init__(self, chunk: dict[str, Any]) -> None:
        self.chunk = chunk
        self.fields = start_fields(chunk["start"])
        self.hash = sum(field_hash(*field) for field in self.fields.items()) & _MASK
        self.place = 0
        self._ends = [0]
        for size in chunk["sizes"]:
            self._ends.append(self._ends[-1] + size)

    def on(self) -> None:
        self.place += 1
        for path, old, new in self._changes(self.place - 1):
            self._assign(path, old, new)

    def back(self) -> None:
        self.place -= 1
        for path, old, new in reversed(self._changes(self.place)):
            self._assign(path, new, old)

    def say(self, phrase: list[Any]) -> str:
        return spoken(tuple(self.chunk["parts"][phrase[0]]), phrase[1:])

    def _changes(self, patch: int) -> list[tuple[str, Any, Any]]:
        flat = self.chunk["changes"][3 * self._ends[patch] : 3 * self._ends[patch + 1]]
        return [
            (self.chunk["paths"][path], self._value(old), self._value(new))
            for path, old, new in zip(flat[::3], flat[1::3], flat[2::3], strict=True)
        ]

    def _value(self, code: int) -> int | str | None:
        if code < 0:
            return None
        return str(self.chunk["strings"][code >> 1]) if code & 1 else code >> 1

    def _assign(self, path: str, old: Any, new: Any) -> None:
        assert self.fields.get(path) == old, f"{path} is {self.fields.get(path)}, not {old}"
        if old is not None:
            self.hash = (self.hash - field_hash(path, old)) & _MASK
            del self.fields[path]
        if new is not None:
            self.hash = (self.hash + field_hash(path, new)) & _MASK
            self.fields[path] = new
