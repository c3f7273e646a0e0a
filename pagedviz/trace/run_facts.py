"""What a run decided and said step by step, under the names of its requests.

Invariants: nothing here depends on ids, so that two runs of one workload can be put side by side; a
name that a foreign trace gives twice is told apart by a number.
"""

from __future__ import annotations

from typing import NamedTuple

from pagedviz.engine.events import (
    Event,
    PageAllocated,
    PageCopied,
    PageReleased,
    PageShared,
    SequenceAdmitted,
    SequenceFinished,
    SequenceForked,
    SequencePreempted,
    SequenceScheduled,
    SequenceSubmitted,
    SwappedOut,
    TokenSampled,
)
from pagedviz.trace.queries import remembered
from pagedviz.trace.trace import Trace


class Admission(NamedTuple):
    """Tokens that need not be computed: from the prefix cache, and back from the host."""

    num_cached: int
    num_restored: int


class Preemption(NamedTuple):
    """by: the name of whom a page was needed for. num_kept: tokens copied to the host."""

    by: str
    num_lost: int
    num_kept: int


class Decisions(NamedTuple):
    """Of one step, by name. arrived: submitted or forked. scheduled: tokens to compute.
    finished: why."""

    arrived: dict[str, bool]
    admitted: dict[str, Admission]
    scheduled: dict[str, int]
    preempted: dict[str, Preemption]
    finished: dict[str, str]


class Said(NamedTuple):
    """A generated token and the step in which it was; of a fork, of its parent's the fork's step.
    token_id: None where a foreign trace does not tell."""

    token_id: int | None
    step: int


class RunFacts(NamedTuple):
    """decisions, tables: one entry a step; a table only of who gained or lost a page in it, as the
    page ids at the step's end. answers: generated tokens. ends: step and reason. seq_ids: by name.
    """

    decisions: tuple[Decisions, ...]
    tables: tuple[dict[str, tuple[int, ...]], ...]
    answers: dict[str, tuple[Said, ...]]
    ends: dict[str, tuple[int, str]]
    seq_ids: dict[str, int]


@remembered
def run_facts(trace: Trace) -> RunFacts:
    """Gathered in one pass over the events. TraceFormatError if they do not fit together."""
    gathering = _Gathering()
    for step in range(trace.num_steps):
        gathering.add(step, trace.events(step))
    return RunFacts(
        tuple(gathering.decisions),
        tuple(gathering.tables),
        {gathering.names[i]: tuple(said) for i, said in gathering.answers.items()},
        gathering.ends,
        {name: seq_id for seq_id, name in gathering.names.items()},
    )


class _Gathering:
    def __init__(self) -> None:
        self.names: dict[int, str] = {}
        self.answers: dict[int, list[Said]] = {}
        self.ends: dict[str, tuple[int, str]] = {}
        self.decisions: list[Decisions] = []
        self.tables: list[dict[str, tuple[int, ...]]] = []
        self._taken: set[str] = set()
        self._num_prompt: dict[int, int] = {}
        self._table: dict[int, list[int]] = {}

    def add(self, step: int, events: tuple[Event, ...]) -> None:
        made = Decisions({}, {}, {}, {}, {})
        kept = {e.seq_id: e.num_tokens for e in events if isinstance(e, SwappedOut)}
        touched: dict[int, None] = {}
        for event in events:
            match event:
                case SequenceSubmitted():
                    self._enter(event.seq_id, event.name, event.num_prompt_tokens, [], made)
                case SequenceForked():
                    num_prompt = self._num_prompt[event.parent_id]
                    said = self.answers[event.parent_id][: event.num_tokens - num_prompt]
                    inherited = [Said(s.token_id, step) for s in said]
                    self._enter(event.seq_id, event.name, num_prompt, inherited, made)
                case SequenceAdmitted():
                    admission = Admission(event.num_cached, event.num_restored)
                    made.admitted[self.names[event.seq_id]] = admission
                case SequenceScheduled():
                    made.scheduled[self.names[event.seq_id]] = event.num_tokens
                case SequencePreempted():
                    made.preempted[self.names[event.seq_id]] = Preemption(
                        self.names[event.by], event.num_lost, kept.get(event.seq_id, 0)
                    )
                case SequenceFinished():
                    name = self.names[event.seq_id]
                    made.finished[name] = event.reason
                    self.ends[name] = step, event.reason
                case TokenSampled():
                    self.answers[event.seq_id].append(Said(event.token_id, step))
                case PageAllocated() | PageShared():
                    self._table[event.seq_id].append(event.page_id)
                    touched[event.seq_id] = None
                case PageCopied():
                    self._table[event.seq_id][event.logical_index] = event.page_id
                    touched[event.seq_id] = None
                case PageReleased():
                    self._table[event.seq_id].pop()
                    touched[event.seq_id] = None
                case _:
                    pass
        self.decisions.append(made)
        self.tables.append({self.names[i]: tuple(self._table[i]) for i in touched})

    def _enter(
        self, seq_id: int, name: str, num_prompt: int, said: list[Said], made: Decisions
    ) -> None:
        number, unique = 1, name
        while unique in self._taken:
            number += 1
            unique = f"{name} ({number})"
        self._taken.add(unique)
        self.names[seq_id] = unique
        self._num_prompt[seq_id] = num_prompt
        self.answers[seq_id] = said
        self._table[seq_id] = []
        made.arrived[unique] = True
