"""LiveChecker: after every step of an engine, do the rules of the paged cache still hold?

    events of the step -> facts --+
    the engine's own structures --+--> all hold? --yes--> done (the usual case)
                                             `--no---> the slow rules of invariants.py say what is
                                                       wrong with which page and which sequence

Invariants: it reads the structures themselves at every step and believes none of the numbers that
it compares; it changes nothing; while it is paused it costs nothing and knows nothing.
"""

from __future__ import annotations

from time import perf_counter
from typing import Protocol

from pagedviz.engine import live_rules
from pagedviz.engine.events import Emit, Emitted, InvariantViolated
from pagedviz.engine.invariants import Violation, check_events
from pagedviz.engine.live_findings import (
    audited_snapshot,
    explain,
    one_by_place,
    violated_event,
)
from pagedviz.engine.live_state import Audited, LiveState, Roll
from pagedviz.engine.own_prefixes import OwnPrefixes
from pagedviz.engine.step_facts import StepFacts
from pagedviz.engine.step_start import StepStart

# Up to so many pages, every step is checked in full; of twice as many every second step, and so on.
FULL_UP_TO = 1000


class Checker(Protocol):
    """What an engine asks after its steps."""

    def listen(self, emit: Emit | None) -> Emit | None:
        """What the engine is to emit to, so that `emit` and this both hear it."""
        ...

    def after_step(self, engine: Audited) -> list[InvariantViolated]:
        """What the step has broken; what was broken already before it is not told again."""
        ...

    def after_failure(self, engine: Audited) -> list[InvariantViolated]:
        """What a step that raises has broken until then."""
        ...


class NoChecker:
    """Nothing is checked."""

    def listen(self, emit: Emit | None) -> Emit | None:
        return emit

    def after_step(self, engine: Audited) -> list[InvariantViolated]:
        return []

    def after_failure(self, engine: Audited) -> list[InvariantViolated]:
        return []


class LiveChecker:
    """One for each engine. more_arrivals: requests are still to come, so that a step in which
    everybody waits is not the end (rule 7)."""

    def __init__(self) -> None:
        self.more_arrivals = False
        self.is_paused = False
        self.last_cost_us: float | None = None
        """What the newest check took, in microseconds; None before the first and while paused."""
        self.num_checked = 0
        self.total_cost_us = 0.0
        """How many checks there were, and what they took together."""
        self.violations: list[Violation] = []
        """All that is broken after the last step, by rule."""
        self._has_gap = False
        self._events: list[Emitted] = []
        self._roll = Roll()
        self._own: OwnPrefixes | None = None
        self._start: StepStart | None = None
        self._before: LiveState | None = None
        self._every = 1
        self._told: set[tuple[int, int | None, int | None]] = set()

    # ---- listening ---------------------------------------------------------------------------

    def listen(self, emit: Emit | None) -> Emit:
        return _Listener(self._events, emit)

    def pause(self) -> None:
        """Check nothing until `resume`."""
        self.is_paused = self._has_gap = True
        self.last_cost_us = None
        self._start = None

    def resume(self) -> None:
        """Check from the next step on; the first time only the state, for want of a start."""
        self.is_paused = False

    # ---- checking ----------------------------------------------------------------------------

    def after_step(self, engine: Audited) -> list[InvariantViolated]:
        self._every = -(-len(engine.block_manager.pool.page_ids) // FULL_UP_TO)
        turn = engine.num_steps % self._every
        if self.is_paused or turn:
            self._events.clear()
            self._start = self._before = None
            if not self.is_paused and turn == self._every - 1:
                self._begin(engine)
            return []
        began = perf_counter()
        self.violations = self.check(engine)
        self._events.clear()
        self._count(began)
        return self._tell_new()

    def after_failure(self, engine: Audited) -> list[InvariantViolated]:
        """A step that raises leaves a state half changed, which no rule is about: only what its
        events tell until then is judged, by rules 6, 10 and 11. The next step starts afresh, as
        after a pause."""
        start = self._start
        if start is None and self._is_before_anything(engine):
            start = _before_anything(engine)
        if start is not None and not self.is_paused:
            began = perf_counter()
            facts = StepFacts(start, self._events, engine.reads)
            self.violations = one_by_place(check_events(facts))
            self._count(began)
        self._events.clear()
        self._has_gap = True
        self._start = self._before = None
        return self._tell_new()

    def _count(self, began: float) -> None:
        self.last_cost_us = (perf_counter() - began) * 1e6
        self.num_checked += 1
        self.total_cost_us += self.last_cost_us

    def _tell_new(self) -> list[InvariantViolated]:
        told, self._told = self._told, {(v.rule, v.page_id, v.seq_id) for v in self.violations}
        return [
            violated_event(v) for v in self.violations if (v.rule, v.page_id, v.seq_id) not in told
        ]

    @property
    def coverage(self) -> str:
        """`full`, or in which steps a big pool is checked: `1 of 4 steps`."""
        return "full" if self._every == 1 else f"1 of {self._every} steps"

    def _begin(self, engine: Audited) -> None:
        """Note what the next step starts from, without asking whether it is right."""
        _, state = self._look(engine)
        if state.counts is not None:
            self._start = state.as_start(state.expected_fills(state.counts, None))
            self._before = state

    def _look(self, engine: Audited) -> tuple[OwnPrefixes, LiveState]:
        gone = self._roll.update(engine)
        state = LiveState(engine, self._roll, self._before)
        if self._own is None:
            if self._is_before_anything(engine):
                self._start = _before_anything(engine)
            self._own = OwnPrefixes(state.block_size)
        for sequence in gone:
            self._own.forget(sequence)
        return self._own, state

    def _is_before_anything(self, engine: Audited) -> bool:
        return self._own is None and engine.num_steps <= 1 and not self._has_gap

    def check(self, engine: Audited) -> list[Violation]:
        """Everything that is broken now, or was on the way here; the events since the last call
        count."""
        own, state = self._look(engine)
        start = self._start
        facts = None if start is None else StepFacts(start, self._events, engine.reads)
        counts = state.counts
        fills = _own_fills(state, facts, counts)
        state.is_right = (
            counts is not None
            and self._holds(state, own, counts, fills)
            and (facts is None or self._was_right(state, facts))
        )
        violations: list[Violation] = []
        if not state.is_right:
            violations = explain(state, start, facts, fills, self.more_arrivals)
        self._start = state.as_start(fills)
        self._before = state
        return violations

    def _holds(
        self,
        state: LiveState,
        own: OwnPrefixes,
        counts: list[int],
        fills: list[int],
    ) -> bool:
        before = self._before
        last = before if before is not None and before.is_right else None
        return (
            live_rules.queue_and_counts_hold(state, counts, last)
            and live_rules.generations_stand(state, last)
            and live_rules.tables_cover_tokens(state, counts, fills, last)
            and live_rules.map_is_consistent(state)
            and own.hold(state, counts, fills)
            and live_rules.owners_agree(state)
            and live_rules.everybody_open_is_listed_once(state)
            and live_rules.host_pages_are_free_or_held(state)
            and live_rules.who_left_holds_nothing(state)
        )

    def _was_right(self, state: LiveState, facts: StepFacts) -> bool:
        return (
            facts.is_clean
            and live_rules.hits_left_the_map_alone(state, facts)
            and live_rules.something_makes_progress(state, facts, self.more_arrivals)
        )


class _Listener:
    """Keeps what an engine emits and passes it on. An object, so that a copy of an engine gets a
    listener of its own."""

    __slots__ = ("_emit", "_events")

    def __init__(self, events: list[Emitted], emit: Emit | None) -> None:
        self._events = events
        self._emit = emit

    def __call__(self, emitted: Emitted) -> None:
        self._events.append(emitted)
        if self._emit is not None:
            self._emit(emitted)


def _before_anything(engine: Audited) -> StepStart:
    pool = engine.block_manager.pool
    fills = [0] * len(pool.page_ids)
    return StepStart(pool.config.block_size, {}, {}, {}, fills, {}, {}, False)


def _own_fills(state: LiveState, facts: StepFacts | None, counts: list[int] | None) -> list[int]:
    """[num_pages]: written slots as the events add them up; after a pause, what the owners
    have computed."""
    if facts is None:
        if counts is not None:
            return state.expected_fills(counts, None)
        return [page.fill for page in audited_snapshot(state.engine).pages]
    for page_id in facts.evicted:
        # Nobody can find what it held, and nobody owns it.
        if counts is not None and not counts[page_id] and page_id not in state.hashes:
            facts.fills[page_id] = 0
    return facts.fills
