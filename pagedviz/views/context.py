"""What a sentence about an event may use."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from pagedviz.engine.config import EngineConfig
from pagedviz.engine.events import Event
from pagedviz.engine.snapshot import Snapshot
from pagedviz.views.words import TokenText


class Context(NamedTuple):
    """What a sentence may use beside the event.

    following: the next event of the step. candidates: (token_id, log probability) of the sampled
    token's rivals, the best first. Both only add to what is said.
    """

    before: Snapshot
    token_text: TokenText
    settings: EngineConfig | None = None
    following: Event | None = None
    candidates: Sequence[tuple[int, float]] = ()
