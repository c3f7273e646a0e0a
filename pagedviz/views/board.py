"""Everything the stepping part of the Step screen shows at one moment, as data.

Invariant: a board is a value made from a trace and a moment; how it is drawn is not known here.
"""

from __future__ import annotations

from typing import NamedTuple

from pagedviz.engine.events import SequenceScheduled, TokenSampled
from pagedviz.engine.snapshot import Snapshot
from pagedviz.trace.changed_limits import settings_at
from pagedviz.trace.packed import Candidates
from pagedviz.trace.reducer import Reducer
from pagedviz.trace.trace import Moment, Trace
from pagedviz.views.context import Context
from pagedviz.views.focus import Focus, focus
from pagedviz.views.pool_map import PoolMap, pool_map
from pagedviz.views.sentences import sentence
from pagedviz.views.sequence_view import SequenceRow, sequence_rows
from pagedviz.views.summaries import headline, step_begins, step_summary
from pagedviz.views.theme import places
from pagedviz.views.words import TokenText

QUEUE_SHOWN = 8


class EventLine(NamedTuple):
    """A line of the event list; `number` is the event of the moment right after it."""

    number: int
    text: str


class Queues(NamedTuple):
    """running, waiting: numbers of the sequences, in order. free_pages: the next to be taken, as
    (page_id, label, is_cached). budget: (number of the sequence, tokens it was given in this step)
    in order; budget_total is None when the trace does not tell."""

    running: tuple[int, ...]
    waiting: tuple[int, ...]
    free_pages: tuple[tuple[int, str, bool], ...]
    num_free: int
    budget: tuple[tuple[int, int], ...]
    budget_total: int | None


class Board(NamedTuple):
    """num_steps, num_events: of the run and of the moment's step. places: seq_id -> number in the
    order of submission."""

    moment: Moment
    num_steps: int
    num_events: int
    state_hash: int
    sentence: str
    pool: PoolMap
    sequences: tuple[SequenceRow, ...]
    queues: Queues
    lines: tuple[EventLine, ...]
    places: dict[int, int]


def make_board(trace: Trace, moment: Moment, token_text: TokenText) -> Board:
    """The board of a recorded moment. Raises MomentNotFound."""
    events = trace.events(moment.step)
    snapshot = trace.at(*moment)
    now = moment_focus(trace, moment)
    return Board(
        moment=moment,
        num_steps=trace.num_steps,
        num_events=len(events),
        state_hash=trace.state_hash(*moment),
        sentence=moment_sentence(trace, moment, token_text),
        pool=pool_map(snapshot, token_text, now),
        sequences=sequence_rows(snapshot, token_text, now),
        queues=_queues(trace, moment, snapshot),
        lines=event_lines(trace, moment.step, token_text),
        places=places(snapshot),
    )


def moment_sentence(trace: Trace, moment: Moment, token_text: TokenText) -> str:
    """What the event just past did and why; at the end of a step, all of it in one sentence."""
    step, number = moment
    settings = settings_at(trace.header, step)
    record = trace.record(step)
    if number == 0:
        return step_begins(step, trace.at(step, 0))
    if number is None:
        return step_summary(step, record.events, trace.at(step), settings, token_text)
    event = record.events[number - 1]
    following = record.events[number] if number < len(record.events) else None
    candidates: Candidates = ()
    if isinstance(event, TokenSampled) and record.logprobs is not None:
        candidates = record.logprobs.get(event.seq_id, ())
    before = trace.at(step, number - 1)
    return sentence(event, Context(before, token_text, settings, following, candidates))


def moment_focus(trace: Trace, moment: Moment) -> Focus:
    """What to mark as now: the event just past, or the whole step at its end."""
    step, number = moment
    events = trace.events(step)
    if number is None:
        return focus(events, trace.at(step, 0))
    if number == 0:
        return focus((), trace.at(step, 0))
    return focus(events[number - 1 : number], trace.at(step, number - 1))


def event_lines(trace: Trace, step: int, token_text: TokenText) -> tuple[EventLine, ...]:
    """The events of a step, each in a few words."""
    reducer = Reducer.from_snapshot(trace.at(step, 0))
    lines = []
    for number, event in enumerate(trace.events(step), start=1):
        lines.append(EventLine(number, headline(event, reducer.snapshot(), token_text)))
        reducer.apply(event)
    return tuple(lines)


def _queues(trace: Trace, moment: Moment, snapshot: Snapshot) -> Queues:
    place_of = places(snapshot)
    events = trace.events(moment.step)[: moment.event]
    settings = settings_at(trace.header, moment.step)
    return Queues(
        running=tuple(place_of[seq_id] for seq_id in snapshot.running),
        waiting=tuple(place_of[seq_id] for seq_id in snapshot.waiting),
        free_pages=tuple(
            (page_id, snapshot.pages[page_id].label, snapshot.pages[page_id].state == "cached")
            for page_id in snapshot.free_queue[:QUEUE_SHOWN]
        ),
        num_free=len(snapshot.free_queue),
        budget=tuple(
            (place_of[event.seq_id], event.num_tokens)
            for event in events
            if isinstance(event, SequenceScheduled)
        ),
        budget_total=None if settings is None else settings.max_tokens_per_step,
    )
