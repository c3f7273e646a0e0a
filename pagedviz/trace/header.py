"""TraceHeader: what a trace says about the run as a whole.

Invariant: its numbers fit each other, or it cannot be made.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from pagedviz.engine.config import EngineConfig
from pagedviz.engine.errors import TraceFormatError


class KvShape(NamedTuple):
    """What one token costs: 2 * num_layers * num_kv_heads * head_dim * dtype_bytes bytes."""

    num_layers: int
    num_kv_heads: int
    head_dim: int
    dtype_bytes: int | None = None


class Bookmark(NamedTuple):
    """A moment that somebody gave a name; step and event as in Moment."""

    step: int
    event: int | None
    name: str


@dataclass(frozen=True, slots=True)
class TraceHeader:
    """A foreign trace may know the first two only.

    settings: the engine's. scenario_settings: what differed from the named scenario, as JSON
    values. model: a name to show. kv: shape of the cache. bookmarks: of whoever saved the file.
    """

    num_pages: int
    block_size: int
    producer: str = "unknown"
    settings: EngineConfig | None = None
    scenario: str | None = None
    scenario_settings: Mapping[str, Any] | None = None
    model: str | None = None
    kv: KvShape | None = None
    bookmarks: tuple[Bookmark, ...] = ()

    def __post_init__(self) -> None:
        settings = self.settings
        if settings is None:
            EngineConfig(num_pages=self.num_pages, block_size=self.block_size)
        elif (settings.num_pages, settings.block_size) != (self.num_pages, self.block_size):
            raise TraceFormatError(
                f"the header says {self.num_pages} pages of {self.block_size} slots, its settings "
                f"{settings.num_pages} pages of {settings.block_size}"
            )
