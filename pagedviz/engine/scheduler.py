"""Scheduler: decides what one step computes, and reserves the pages for it.

    waiting (front first) --admit--> running (in order of admission) --finish-->
        ^                                |
        +---------- preempt last --------+

There are no phases: every sequence's computed tokens catch up with its known tokens under one token
budget, running ones first. Invariants: each reservation is one block manager call that happens
whole or not at all; the victim of a preemption is the last of the running list, so nothing already
scheduled in this step is undone; the head of the waiting queue is never overtaken.
"""

from __future__ import annotations

from collections import deque
from typing import NamedTuple

from pagedviz.engine.block_manager import BlockManager
from pagedviz.engine.config import EngineConfig
from pagedviz.engine.errors import OutOfPages
from pagedviz.engine.events import (
    SCHEDULED,
    AdmissionDeferred,
    Emit,
    PrefixLookedUp,
    SequenceAdmitted,
    SequencePreempted,
    StateChanged,
)
from pagedviz.engine.ids import SeqId
from pagedviz.engine.prefix_cache import Entry
from pagedviz.engine.sequence import Sequence


class StepPlan(NamedTuple):
    """What one step computes: `num_tokens[i]` tokens of `sequences[i]` from its `num_computed` on.

    num_cached: prefix hits in tokens, of the sequences admitted in this step. preempted: in order.
    """

    sequences: list[Sequence]
    num_tokens: list[int]
    num_cached: dict[SeqId, int]
    preempted: list[SeqId]


class Scheduler:
    def __init__(
        self, config: EngineConfig, block_manager: BlockManager, emit: Emit | None = None
    ) -> None:
        self.config = config
        self.running: list[Sequence] = []
        self.waiting: deque[Sequence] = deque()
        self._block_manager = block_manager
        self._emit = emit
        self._last_lookup: PrefixLookedUp | None = None

    def schedule(self) -> StepPlan:
        plan = StepPlan([], [], {}, [])
        budget = self._schedule_running(plan, self.config.max_tokens_per_step)
        while self.waiting and self._admit(self.waiting[0], plan, budget):
            budget -= plan.num_tokens[-1]
        return plan

    def _schedule_running(self, plan: StepPlan, budget: int) -> int:
        """Plan the running sequences in order; returns the budget left."""
        # Local names, and no call where nothing is due: this runs for every sequence in every step.
        sequences, num_tokens, emit = plan.sequences, plan.num_tokens, self._emit
        chunk_size = self.config.chunk_size or budget
        turned: list[tuple[SeqId, int]] = []
        for sequence in self.running:
            if not budget:
                break
            start = sequence.num_computed
            wanted = len(sequence.token_ids) - start
            if wanted > 1:
                wanted = min(wanted, chunk_size, budget)
            if start + wanted > sequence.table.quiet_until:
                # A preemption shortens the tail of the list that is being walked.
                if start + wanted > sequence.table.capacity and not self._reserve(
                    sequence, start + wanted, plan
                ):
                    break
                turned.append((sequence.id, start + wanted))
            sequences.append(sequence)
            num_tokens.append(wanted)
            budget -= wanted
            if emit is not None:
                emit((SCHEDULED, sequence.number, start, wanted))
        self._block_manager.hash_pages(turned)
        return budget

    def _reserve(self, sequence: Sequence, num_tokens: int, plan: StepPlan) -> bool:
        """Make room, preempting from the end of the running list; False if it hits itself."""
        while True:
            try:
                self._block_manager.reserve(sequence.id, num_tokens)
                return True
            except OutOfPages:
                if self._preempt_last(plan, by=sequence) is sequence:
                    return False

    def _preempt_last(self, plan: StepPlan, by: Sequence) -> Sequence:
        victim = self.running.pop()
        num_lost = victim.preempt()
        if self._emit is not None:
            self._emit(SequencePreempted(victim.id, by.id, num_lost))
            self._emit(StateChanged(victim.id, victim.state.name))
        self._block_manager.release(victim.id)
        self.waiting.appendleft(victim)
        plan.preempted.append(victim.id)
        return victim

    def _admit(self, sequence: Sequence, plan: StepPlan, budget: int) -> bool:
        """Start the head of the waiting queue, or say why it stays."""
        block_manager, config = self._block_manager, self.config
        block_size = config.block_size
        if plan.preempted or not budget or len(self.running) >= config.max_running:
            reason = "preempting_step" if plan.preempted else "max_running" if budget else "budget"
            self._defer(
                sequence, reason, block_manager.pages_needed(sequence.id, sequence.num_tokens)
            )
            return False
        hits: list[Entry] = []
        if sequence.chain is not None:
            hits = block_manager.cache.walk(sequence.chain, sequence.num_tokens)
        num_cached = len(hits) * block_size
        self._report_lookup(sequence, hits)
        wanted = min(sequence.num_tokens - num_cached, budget, config.chunk_size or budget)
        refusal = self._refusal(sequence, hits, num_cached + wanted)
        if refusal is not None:
            self._defer(sequence, *refusal)
            return False
        block_manager.reserve(sequence.id, num_cached + wanted, hits)
        block_manager.hash_pages([(sequence.id, num_cached + wanted)])
        self.running.append(self.waiting.popleft())
        sequence.admit(num_cached)
        plan.sequences.append(sequence)
        plan.num_tokens.append(wanted)
        plan.num_cached[sequence.id] = num_cached
        self._last_lookup = None
        if self._emit is not None:
            self._emit(SequenceAdmitted(sequence.id, num_cached))
            self._emit(StateChanged(sequence.id, sequence.state.name))
            self._emit((SCHEDULED, sequence.number, num_cached, wanted))
        return True

    def _refusal(
        self, sequence: Sequence, hits: list[Entry], num_tokens: int
    ) -> tuple[str, int] | None:
        """Why the pages do not suffice for an admission, and how many would."""
        free = self._block_manager.pool.free_count
        needed = self._block_manager.pages_needed(sequence.id, num_tokens, hits)
        if needed > free:
            return "pages", needed
        if self.config.full_prompt_gate:
            # The gate reserves nothing: it only keeps out what would soon be preempted.
            needed = self._block_manager.pages_needed(sequence.id, sequence.num_tokens, hits)
            if needed > free:
                return "full_prompt_gate", needed
        needed += self.config.watermark_pages if self.running else 0
        return ("watermark", needed) if needed > free else None

    def _defer(self, sequence: Sequence, reason: str, pages_needed: int) -> None:
        if self._emit is not None:
            free = self._block_manager.pool.free_count
            self._emit(AdmissionDeferred(sequence.id, reason, pages_needed, free))

    def _report_lookup(self, sequence: Sequence, hits: list[Entry]) -> None:
        """Emit the outcome of a lookup, once for a sequence that keeps finding the same."""
        if self._emit is None:
            return
        cache = self._block_manager.cache
        if sequence.chain is None:
            lookup = PrefixLookedUp(sequence.id, 0, "disabled")
        else:
            end = cache.explain(sequence.chain, sequence.num_tokens, hits)
            lookup = PrefixLookedUp(
                sequence.id,
                len(hits) * self.config.block_size,
                end.reason,
                tuple(entry.oldest_page for entry in hits),
                end.position,
                end.cached_token,
                end.prompt_token,
                end.step,
            )
        if lookup != self._last_lookup:
            self._last_lookup = lookup
            self._emit(lookup)
