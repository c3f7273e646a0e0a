"""A step as nested plain tuples, which the garbage collector stops looking at.

An event is a NamedTuple and its ids are subclasses of int: both stay on the collector's list for
ever, and a quarter of a million of them make every full collection a visible pause. A plain tuple
of plain numbers and texts leaves the list at the first collection. Invariant: unpacking gives back
equal events.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pagedviz.engine.events import EVENT_TYPES, Emitted, Event, as_event

PackedEvents = tuple[bytes, tuple[tuple[Any, ...], ...]]

_KINDS = {event_type: kind for kind, event_type in enumerate(EVENT_TYPES)}
_PLAIN = frozenset({int, str, type(None)})
_MAKERS = tuple(event_type._make for event_type in EVENT_TYPES)


def pack_events(events: Sequence[Emitted]) -> PackedEvents:
    """(kind of each event, fields of each event)."""
    kinds = bytearray()
    fields: list[tuple[Any, ...]] = []
    for emitted in events:
        if type(emitted) is tuple:
            kinds.append(emitted[0])
            fields.append(emitted[1:])
        else:
            event = as_event(emitted)
            kinds.append(_KINDS[type(event)])
            fields.append(tuple([v if type(v) in _PLAIN else _plain(v) for v in event]))
    return bytes(kinds), tuple(fields)


def _plain(value: Any) -> Any:
    return tuple(map(int, value)) if isinstance(value, tuple) else int(value)


def unpack_events(packed: PackedEvents) -> tuple[Event, ...]:
    kinds, fields = packed
    return tuple([_MAKERS[kind](values) for kind, values in zip(kinds, fields, strict=True)])
