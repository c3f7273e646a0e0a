"""The rules of the paged cache as one table, and the two calls that check them.

Invariants: the checks need the read model and the events only, never an engine; a violation names
the rule, whom it is about, and both numbers. Numbers that are missing from the table stand for
rules that need a model.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

from pagedviz.engine import state_rules, step_rules
from pagedviz.engine.events import Event
from pagedviz.engine.rules import RULES
from pagedviz.engine.snapshot import Snapshot
from pagedviz.engine.state_rules import Finding
from pagedviz.engine.step_facts import StepFacts
from pagedviz.engine.step_rules import CheckedStep
from pagedviz.engine.step_start import StepStart


class Violation(NamedTuple):
    """A broken rule: its number and name, what is wrong with both numbers, and whom it is about."""

    rule: int
    name: str
    message: str
    page_id: int | None = None
    seq_id: int | None = None

    def __str__(self) -> str:
        return f"rule {self.rule} ({self.name}): {self.message}"


_STATE_RULES: dict[int, Callable[[Snapshot], Iterator[Finding]]] = {
    1: state_rules.pages_are_free_cached_or_active,
    2: state_rules.ref_counts_count_tables,
    3: state_rules.tables_point_at_their_own_pages,
    5: state_rules.hashes_tell_the_content,
    7: state_rules.everybody_open_is_listed_once,
    12: state_rules.who_left_holds_nothing,
}
_STEP_RULES: dict[int, Callable[[CheckedStep], Iterator[Finding]]] = {
    7: step_rules.something_makes_progress,
    9: step_rules.hits_leave_the_map_alone,
    11: step_rules.owners_agree,
}
_EVENT_RULES: dict[int, Callable[[StepFacts], Iterator[Finding]]] = {
    6: step_rules.hashed_pages_are_never_written,
    10: step_rules.scheduled_tokens_are_known,
    11: step_rules.attention_reads_own_written_slots,
}


def check_snapshot(snapshot: Snapshot, *, reserves_prompts: bool = False) -> list[Violation]:
    """What breaks rules 1 to 5 and 12 at the end of a step, or before the first.

    reserves_prompts: a prompt has all its pages from its first chunk on (rule 4).
    """
    found = [
        _violation(number, finding)
        for number, rule in _STATE_RULES.items()
        for finding in rule(snapshot)
    ]
    found += [
        _violation(4, finding)
        for finding in state_rules.tables_cover_what_is_computed(snapshot, reserves_prompts)
    ]
    return sorted(found, key=lambda violation: violation.rule)


def check_step(
    before: Snapshot,
    events: Sequence[Event],
    after: Snapshot,
    *,
    more_arrivals: bool = False,
    reserves_prompts: bool = False,
    reads: Mapping[int, int] | None = None,
) -> list[Violation]:
    """What a step breaks, by rule number: in the state it ends with, and on the way there.

    before, after: the ends of the previous step and of this one. events: all between them, those
    of requests submitted or aborted before the step included; they must fold from `before`.
    more_arrivals: requests, commands, or recorded steps in which something is scheduled are still
    to come, so that a step in which everybody waits is not yet the end (rule 7).
    reserves_prompts: as for check_snapshot. reads: how many slots attention has read for each
    sequence, if the model tells (rule 11).
    """
    start = StepStart.of(before)
    facts = StepFacts(start, events, reads)
    return check_facts(start, facts, after, more_arrivals, reserves_prompts)


def check_facts(
    start: StepStart,
    facts: StepFacts,
    after: Snapshot,
    more_arrivals: bool,
    reserves_prompts: bool,
) -> list[Violation]:
    """`check_step` for a caller that has folded the step's events already."""
    step = CheckedStep(start, facts, after, more_arrivals)
    on_the_way = [
        _violation(number, finding)
        for number, rule in _STEP_RULES.items()
        for finding in rule(step)
    ]
    return (
        check_snapshot(after, reserves_prompts=reserves_prompts) + on_the_way + check_events(facts)
    )


def check_events(facts: StepFacts) -> list[Violation]:
    """What breaks rules 6, 10 and 11 on the way through a step, be it one that broke off."""
    return [
        _violation(number, finding)
        for number, rule in _EVENT_RULES.items()
        for finding in rule(facts)
    ]


def _violation(number: int, finding: Finding) -> Violation:
    return Violation(number, RULES[number].name, finding.message, finding.page_id, finding.seq_id)
