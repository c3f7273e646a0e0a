"""A whole run at a glance, for the time bar and the strips below the board: what does not depend
on the moment looked at.

Invariant: JSON values only; one entry a step, however many events it has.
"""

from __future__ import annotations

from typing import Any

from pagedviz.engine.events import EVENT_TYPES
from pagedviz.trace.costs import resumes
from pagedviz.trace.queries import host_pool, last_tables, occupancy, phases
from pagedviz.trace.trace import Trace
from pagedviz.views.frames import CHUNK_STEPS
from pagedviz.views.lanes import most_at_once
from pagedviz.views.pool_map import MAX_SLOTS_DRAWN, columns_for, detail_for
from pagedviz.views.theme import THEMES, Theme
from pagedviz.views.ticks import ticks

# What "run until" offers, and the events that count. Events that this engine does not emit may be
# in the trace of another version.
UNTIL: dict[str, tuple[str, ...]] = {
    "allocation": ("PageAllocated",),
    "hit": ("PageShared",),
    "eviction": ("PageEvicted",),
    "copy": ("PageCopied",),
    "fork": ("SequenceForked",),
    "preemption": ("SequencePreempted",),
    "swap": ("SwappedOut", "SwappedIn"),
    "finish": ("SequenceFinished",),
    "violation": ("InvariantViolated",),
}


def overview(trace: Trace, is_complete: bool = True) -> dict[str, Any]:
    """is_complete: no more steps will be recorded."""
    header = trace.header
    held, host = occupancy(trace), host_pool(trace)
    return {
        "num_steps": trace.num_steps,
        "is_complete": is_complete,
        "chunk_steps": CHUNK_STEPS,
        "num_events": [trace.num_events(step) for step in range(trace.num_steps)],
        "num_pages": header.num_pages,
        "block_size": header.block_size,
        "host": None if host is None else {"num_pages": host.num_pages},
        "columns": columns_for(header.num_pages),
        "detail": detail_for(header.num_pages),
        "max_slots_drawn": MAX_SLOTS_DRAWN,
        "budget": None if header.settings is None else header.settings.max_tokens_per_step,
        "kinds": [event_type.__name__ for event_type in EVENT_TYPES],
        "until": UNTIL,
        "ticks": [[*tick.moment, tick.kind] for tick in ticks(trace)],
        "most_at_once": most_at_once(trace),
        "lanes": [
            [seq_id, [[phase.state, phase.first_step, phase.last_step] for phase in lane]]
            for seq_id, lane in phases(trace).items()
        ],
        "resumes": [[*back.moment, back.seq_id, back.num_recomputed] for back in resumes(trace)],
        "last_tables": last_tables(trace),
        "occupancy": {
            name: getattr(held, name).tolist()
            for name in ("active", "cached", "free", "waste", "contiguous", "host")
        },
        "themes": {name: _colours(theme) for name, theme in THEMES.items()},
    }


def _colours(theme: Theme) -> dict[str, Any]:
    values = theme._asdict()
    return values | {"hues": [hue._asdict() for hue in theme.hues]}
