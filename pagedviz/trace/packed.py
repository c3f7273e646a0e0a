"""A step as two byte strings: what kinds its events are, and everything else as JSON.

An event is a NamedTuple of ids: some hundred bytes each, and the garbage collector looks at every
one of them for as long as the run is kept. As bytes a step costs a tenth, and the collector does
not see it. Invariant: unpacking gives back equal events and candidates.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from pagedviz.engine.events import (
    EVENT_TYPES,
    Emitted,
    Event,
    PrefixLookedUp,
    SequenceSubmitted,
    SwappedOut,
    as_event,
)

Candidates = tuple[tuple[int, float], ...]

KIND_OF = {event_type: kind for kind, event_type in enumerate(EVENT_TYPES)}
_MAKERS = tuple(event_type._make for event_type in EVENT_TYPES)
# Of these a field is a tuple, which comes back from JSON as a list.
_WITH_TUPLES = frozenset(
    KIND_OF[event_type] for event_type in (SequenceSubmitted, PrefixLookedUp, SwappedOut)
)


class PackedStep(NamedTuple):
    """kinds: a byte for each event, its place in EVENT_TYPES. rest: JSON, the fields of each event
    and the candidates."""

    kinds: bytes
    rest: bytes


def pack_step(
    events: Sequence[Emitted], logprobs: Mapping[int, Candidates] | None = None
) -> PackedStep:
    kinds = bytearray()
    fields: list[Sequence[Any]] = []
    for emitted in events:
        if type(emitted) is tuple:
            kinds.append(emitted[0])
            fields.append(emitted[1:])
        else:
            event = as_event(emitted)
            kinds.append(KIND_OF[type(event)])
            fields.append(event)
    # Ids are written as the numbers they are.
    what = [fields, logprobs] if logprobs else [fields]
    text = json.dumps(what, separators=(",", ":"), default=int)
    return PackedStep(bytes(kinds), text.encode("ascii"))


def unpack_events(packed: PackedStep) -> tuple[Event, ...]:
    return _events(packed.kinds, json.loads(packed.rest)[0])


def unpack_step(
    packed: PackedStep,
) -> tuple[tuple[Event, ...], Mapping[int, Candidates] | None]:
    """The events in order and, per sequence that sampled, the candidates."""
    fields, *more = json.loads(packed.rest)
    events = _events(packed.kinds, fields)
    if not more:
        return events, None
    return events, {
        int(seq_id): tuple((token_id, logprob) for token_id, logprob in best)
        for seq_id, best in more[0].items()
    }


def _events(kinds: bytes, fields: list[list[Any]]) -> tuple[Event, ...]:
    for place, kind in enumerate(kinds):
        if kind in _WITH_TUPLES:
            fields[place] = [tuple(v) if type(v) is list else v for v in fields[place]]
    return tuple([_MAKERS[kind](values) for kind, values in zip(kinds, fields, strict=True)])
