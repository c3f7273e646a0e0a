"""What the prefix cache saved over a whole run and what preemptions cost, in tokens.

Invariant: tokens are counted where they matter, at admissions: a lookup that led to no admission
saved nothing.
"""

from __future__ import annotations

from typing import NamedTuple

from pagedviz.engine.events import (
    PrefixLookedUp,
    SequenceAdmitted,
    SequenceForked,
    SequencePreempted,
    SequenceSubmitted,
    TokenSampled,
)
from pagedviz.trace.queries import remembered
from pagedviz.trace.trace import Moment, Trace


class Admission(NamedTuple):
    """A sequence was admitted with `num_tokens` known tokens, `num_hit` of them found in the
    prefix cache. is_resumed: it had been admitted before and was preempted."""

    step: int
    seq_id: int
    num_tokens: int
    num_hit: int
    is_resumed: bool


@remembered
def admissions(trace: Trace) -> tuple[Admission, ...]:
    """Every admission, in order, that could have hit: a disabled cache is never looked up."""
    found: list[Admission] = []
    num_tokens: dict[int, int] = {}
    last_end: dict[int, str] = {}
    admitted: set[int] = set()
    for step, record in enumerate(trace.steps):
        for event in record.events:
            if isinstance(event, SequenceSubmitted):
                num_tokens[event.seq_id] = event.num_prompt_tokens
            elif isinstance(event, SequenceForked):
                num_tokens[event.seq_id] = event.num_tokens
            elif isinstance(event, TokenSampled):
                num_tokens[event.seq_id] += 1
            elif isinstance(event, PrefixLookedUp):
                last_end[event.seq_id] = event.end
            elif isinstance(event, SequenceAdmitted):
                seq_id = event.seq_id
                if last_end.get(seq_id) != "disabled":
                    known, resumed = num_tokens[seq_id], seq_id in admitted
                    found.append(Admission(step, seq_id, known, event.num_cached, resumed))
                admitted.add(seq_id)
    return tuple(found)


class HitRate(NamedTuple):
    """Tokens looked up and found at first admissions; those of resumed sequences apart, because
    finding again what a preemption threw away saves nothing that was not lost before."""

    num_looked_up: int
    num_hit: int
    num_resumed_looked_up: int
    num_resumed_hit: int

    @property
    def rate(self) -> float | None:
        """num_hit / num_looked_up in [0, 1]; None when nothing was looked up."""
        return self.num_hit / self.num_looked_up if self.num_looked_up else None


def hit_rate(trace: Trace) -> HitRate:
    """Prefix cache hits in tokens over the whole run."""
    totals = [0, 0, 0, 0]
    for admission in admissions(trace):
        place = 2 if admission.is_resumed else 0
        totals[place] += admission.num_tokens
        totals[place + 1] += admission.num_hit
    return HitRate(*totals)


class PreemptionCost(NamedTuple):
    """num_lost: computed tokens that preemptions threw away. num_rehit: of them, found again in
    the prefix cache at the resume. num_pending: of them, of sequences that were not resumed up to
    the trace's end. The rest was computed again."""

    num_preemptions: int
    num_lost: int
    num_rehit: int
    num_pending: int

    @property
    def num_recomputed(self) -> int:
        return self.num_lost - self.num_rehit - self.num_pending


class Resume(NamedTuple):
    """After a preemption `seq_id` was admitted again; `moment` is right after it. Of the computed
    tokens it had lost, num_rehit were found in the prefix cache, num_recomputed were not."""

    moment: Moment
    seq_id: int
    num_rehit: int
    num_recomputed: int


@remembered
def resumes(trace: Trace) -> tuple[Resume, ...]:
    """Every resume of a preempted sequence, in order."""
    found: list[Resume] = []
    lost: dict[int, int] = {}
    for step, record in enumerate(trace.steps):
        for number, event in enumerate(record.events, start=1):
            if isinstance(event, SequencePreempted):
                lost[event.seq_id] = event.num_lost
            elif isinstance(event, SequenceAdmitted) and event.seq_id in lost:
                num_lost = lost.pop(event.seq_id)
                rehit = min(num_lost, event.num_cached)
                moment = Moment(step, number)
                found.append(Resume(moment, event.seq_id, rehit, num_lost - rehit))
    return tuple(found)


@remembered
def preemption_cost(trace: Trace) -> PreemptionCost:
    """What preemption by recompute cost, in tokens."""
    losses = [
        event.num_lost
        for record in trace.steps
        for event in record.events
        if isinstance(event, SequencePreempted)
    ]
    back = resumes(trace)
    num_rehit = sum(resume.num_rehit for resume in back)
    num_resumed = num_rehit + sum(resume.num_recomputed for resume in back)
    return PreemptionCost(len(losses), sum(losses), num_rehit, sum(losses) - num_resumed)
