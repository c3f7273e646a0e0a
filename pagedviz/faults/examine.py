"""Examines a fault: the same workload on a healthy and on a faulty engine, and what comes out.

Invariants: the step of the damage is measured, not told: the first in which the faulty engine's
state or memory differ from the healthy one's, or it raises; a fault counts as caught only if its
rules are broken in that very step, no step before breaks any, and the healthy run breaks none.
Slow rules and a dense recompute decide; what the engine's own live check saw is told beside it.
"""

from __future__ import annotations

from typing import NamedTuple

from pagedviz.engine.invariants import Violation
from pagedviz.engine.snapshot import SequenceView
from pagedviz.faults.fault import Fault
from pagedviz.faults.play import Play, PlayedStep
from pagedviz.model import LanguageModel
from pagedviz.trace.truth import TRUTH_RULE

_EXCERPT = 60


class Difference(NamedTuple):
    """What the user gets for one request from the faulty and from the healthy engine."""

    name: str
    wrong: str
    right: str


class Examination(NamedTuple):
    """scenario: `books` or `words`. damage: the step in which the runs part, None if they never
    do. caught: the first faulty step with a violation."""

    fault: Fault
    scenario: str
    healthy: Play
    faulty: Play
    damage: int | None
    caught: PlayedStep | None

    @property
    def violations(self) -> tuple[Violation, ...]:
        """Those of the step that caught it, the fault's own rule first."""
        if self.caught is None:
            return ()
        first = self.fault.rules[0]
        return tuple(sorted(self.caught.violations, key=lambda v: (v.rule != first, v.rule)))

    @property
    def rules(self) -> tuple[int, ...]:
        return tuple(dict.fromkeys(violation.rule for violation in self.violations))

    @property
    def seen_live(self) -> int | None:
        """The first step in which the faulty engine's own check named a rule. That may be before
        state or memory differ: it reads the lookup map itself, of which these show nothing."""
        return next((step.number for step in self.faulty.steps if step.live), None)

    @property
    def live_rules(self) -> tuple[int, ...]:
        """Those that it named by the end of the step of the damage."""
        damage = -1 if self.damage is None else self.damage
        named = (v.rule for step in self.faulty.steps[: damage + 1] for v in step.live)
        return tuple(sorted(set(named)))

    @property
    def is_caught_live(self) -> bool:
        """Whether that check, which computes nothing densely, named some rule and all rules but 8
        that must catch it."""
        wanted = set(self.fault.rules_for(self.faulty.workload)) - {TRUTH_RULE}
        return bool(self.live_rules) and wanted <= set(self.live_rules)

    @property
    def is_caught(self) -> bool:
        wanted = self.fault.rules_for(self.faulty.workload)
        return (
            self.is_healthy_clean
            and self.caught is not None
            and self.caught.number == self.damage
            and set(wanted) <= set(self.rules)
        )

    @property
    def is_healthy_clean(self) -> bool:
        steps = self.healthy.steps
        return not any(step.violations or step.live or step.error for step in steps)

    @property
    def page_id(self) -> int | None:
        """The page that a violation names, or else the newest one of the sequence that it names."""
        named = (violation.page_id for violation in self.violations)
        newest = (self._newest_page(violation) for violation in self.violations)
        return next((page_id for page_id in (*named, *newest) if page_id is not None), None)

    def _newest_page(self, violation: Violation) -> int | None:
        if violation.seq_id is None or self.caught is None:
            return None
        page_ids = self.caught.after.sequence(violation.seq_id).page_ids
        return page_ids[-1] if page_ids else None

    @property
    def difference(self) -> Difference | None:
        """The first request that the user is served worse, None if all is alike."""
        return first_difference(self.healthy, self.faulty)


def examine(fault: Fault, scenario: str, model: LanguageModel | None) -> Examination:
    """Run one of a fault's workloads twice; `model` is needed for those that have one."""
    workload = fault.workloads[scenario]
    healthy = Play(workload, model).run()
    faulty = Play(workload, model, fault.part).run()
    caught = next((step for step in faulty.steps if step.violations), None)
    return Examination(fault, scenario, healthy, faulty, _parting(healthy, faulty), caught)


def _parting(healthy: Play, faulty: Play) -> int | None:
    for right, wrong in zip(healthy.steps, faulty.steps, strict=False):
        if (right.after, right.memory, right.error) != (wrong.after, wrong.memory, wrong.error):
            return right.number
    lengths = len(healthy.steps), len(faulty.steps)
    return None if lengths[0] == lengths[1] else min(lengths)


def first_difference(healthy: Play, faulty: Play) -> Difference | None:
    """Texts first, then what was computed for nothing, which costs the user time."""
    wrongs = {sequence.name: sequence for sequence in faulty.sequences}
    pairs = [(right, wrongs.get(right.name)) for right in healthy.sequences]
    for right, wrong in pairs:
        if wrong is None or _served(healthy, right) != _served(faulty, wrong):
            return Difference(
                right.name,
                "no answer" if wrong is None else _tell(faulty, wrong),
                _tell(healthy, right),
            )
    for right, wrong in pairs:
        counts = healthy.num_scheduled(right), faulty.num_scheduled(wrong or right)
        if counts[0] != counts[1]:
            return Difference(right.name, _tell_count(counts[1]), _tell_count(counts[0]))
    return None


def _served(play: Play, sequence: SequenceView) -> tuple[str, str | None]:
    return play.answer(sequence), sequence.finish_reason


def _tell(play: Play, sequence: SequenceView) -> str:
    if sequence.finish_reason is None and play.error is not None:
        return f"the engine stops: {play.error}"
    text = " ".join(play.answer(sequence).split())
    shown = repr(text if len(text) <= _EXCERPT else text[:_EXCERPT] + "...")
    if sequence.finish_reason is None:
        return f"{shown} and no end" if text else "no answer, it waits"
    if sequence.finish_reason == "aborted":
        return f"{shown}, aborted"
    return shown


def _tell_count(num_tokens: int) -> str:
    return f"{num_tokens} token{'s' * (num_tokens != 1)} computed"
