"""Scheduler: decides what one step computes, and reserves the pages for it.

    waiting (front first) --admit--> running (in order of admission) --finish-->
        ^                                |
        +---------- preempt last --------+

There are no phases: every sequence's computed tokens catch up with its known tokens under one token
budget, running ones first. Invariants: each reservation is one block manager call that happens
whole or not at all; the victim of a preemption is the last of the running list (or a beam with
nothing to do), so nothing already scheduled in this step is undone; the head of the waiting queue
is never overtaken.
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
    SequenceFinished,
    SequencePreempted,
    StateChanged,
    SwappedIn,
    SwappedOut,
)
from pagedviz.engine.host_pool import HostPool
from pagedviz.engine.ids import SeqId
from pagedviz.engine.prefix_entry import Entry
from pagedviz.engine.sequence import Sequence
from pagedviz.engine.sequence_state import FinishReason


class StepPlan(NamedTuple):
    """What one step computes: `num_tokens[i]` tokens of `sequences[i]` from its `num_computed` on.

    num_cached: prefix hits in tokens, of the sequences admitted in this step. preempted: in order;
    given_up: those of them that will not be resumed.
    """

    sequences: list[Sequence]
    num_tokens: list[int]
    num_cached: dict[SeqId, int]
    preempted: list[SeqId]
    given_up: list[SeqId]


class Scheduler:
    """hashes_planned: a page becomes findable when its last slot is planned; otherwise whoever owns
    the scheduler hashes what a step has computed. reserves_prompts: a prompt has all its pages from
    its first chunk on. limits_running: no more than `max_running` sequences are running at once;
    otherwise no more take part in a step."""

    hashes_planned = True
    reserves_prompts = False
    limits_running = True

    def __init__(
        self,
        config: EngineConfig,
        block_manager: BlockManager,
        emit: Emit | None = None,
        host: HostPool | None = None,
    ) -> None:
        self.config = config
        self.running: list[Sequence] = []
        self.waiting: deque[Sequence] = deque()
        self._block_manager = block_manager
        self._host = host or HostPool(0, block_manager.pool)
        self._emit = emit
        self._last_lookup: PrefixLookedUp | None = None

    def discard(self, sequence: Sequence) -> None:
        """Take a sequence out of the list or queue that it is in."""
        (self.running if sequence in self.running else self.waiting).remove(sequence)

    def schedule(self) -> StepPlan:
        plan = StepPlan([], [], {}, [], [])
        budget = self._schedule_running(plan, self.config.max_tokens_per_step)
        while self.waiting and self._admit(self.waiting[0], plan, budget):
            budget -= plan.num_tokens[-1]
        self._free_idle_beams(plan)
        return plan

    def _free_idle_beams(self, plan: StepPlan) -> None:
        """If all that run are beams waiting for others that are not let in, make room for these."""
        if self.waiting and self.running and not plan.sequences and not plan.preempted:
            self._preempt_one(plan, by=self.waiting[0])

    def _schedule_running(self, plan: StepPlan, budget: int) -> int:
        """Plan the running sequences in order; returns the budget left."""
        # Local names, and no call where nothing is due: this runs for every sequence in every step.
        sequences, num_tokens, emit = plan.sequences, plan.num_tokens, self._emit
        preempted = plan.preempted
        chunk_size = self.config.chunk_size or budget
        turned: list[tuple[SeqId, int]] = []
        for sequence in tuple(self.running):
            if not budget:
                break
            if preempted and not sequence.is_running:
                continue
            start = sequence.num_computed
            wanted = len(sequence.token_ids) - start
            if wanted > 1:
                wanted = min(wanted, chunk_size, budget)
            elif not wanted:
                continue  # a beam that waits for the others
            if start + wanted > sequence.table.quiet_until:
                if not self._reserve(sequence, start, start + wanted, plan):
                    break
                turned.append((sequence.id, start + wanted))
            sequences.append(sequence)
            num_tokens.append(wanted)
            budget -= wanted
            if emit is not None:
                emit((SCHEDULED, sequence.number, start, wanted))
        self._block_manager.hash_pages(turned)
        return budget

    def _reserve(self, sequence: Sequence, start: int, stop: int, plan: StepPlan) -> bool:
        """Make room, preempting from the end of the running list; False if it hits itself."""
        while True:
            try:
                self._block_manager.reserve(sequence.id, stop, write_from=start)
                return True
            except OutOfPages:
                if self._preempt_one(plan, by=sequence) is sequence:
                    return False

    def _preempt_one(self, plan: StepPlan, by: Sequence) -> Sequence:
        """Take the pages of the last running sequence, which then comes first in the waiting queue.

        A beam that has nothing to compute until the others of its search have caught up goes before
        all others, and comes last in the queue: it is these that need the pages.
        """
        idle = [sequence for sequence in self.running if sequence.is_idle_beam]
        victim = idle[-1] if idle else self.running[-1]
        self.running.remove(victim)
        behind = self.waiting[-1] if idle and self.waiting else None
        plan.preempted.append(victim.id)
        num_computed = victim.preempt()
        host_ids = self._copy_out(victim, num_computed)
        is_given_up = self.config.preemption == "abort"
        if is_given_up:
            victim.finish(FinishReason.PREEMPTED)
            plan.given_up.append(victim.id)
        else:
            (self.waiting.appendleft if behind is None else self.waiting.append)(victim)
        if self._emit is not None:
            num_lost = 0 if host_ids else num_computed
            place = None if behind is None else behind.id
            self._emit(SequencePreempted(victim.id, by.id, num_lost, place))
            if host_ids:
                self._emit(SwappedOut(victim.id, num_computed, tuple(host_ids)))
            if is_given_up:
                self._emit(SequenceFinished(victim.id, FinishReason.PREEMPTED.value))
            self._emit(StateChanged(victim.id, victim.state.name))
        self._block_manager.release(victim.id)
        return victim

    def _copy_out(self, victim: Sequence, num_computed: int) -> list[int] | None:
        """The host pages that took a victim's K/V; None if it is not to be swapped or the host has
        no room, so that it must be computed again."""
        if self.config.preemption != "swap":
            return None
        num_pages = -(-num_computed // self.config.block_size)
        host_ids = self._host.copy_out(victim.table.page_ids[:num_pages])
        if host_ids:
            victim.leave_on_host(num_computed, host_ids)
        return host_ids

    def _admit(self, sequence: Sequence, plan: StepPlan, budget: int) -> bool:
        """Start the head of the waiting queue, or say why it stays."""
        block_manager, config = self._block_manager, self.config
        seats = sum(s.num_seats for s in self.running) + sequence.num_seats
        if plan.preempted or not budget or seats > config.max_running:
            reason = "preempting_step" if plan.preempted else "max_running" if budget else "budget"
            self._defer(
                sequence, reason, block_manager.pages_needed(sequence.id, sequence.num_tokens)
            )
            return False
        hits, start = self._look_up(sequence)
        wanted = self._count_wanted(sequence, start, budget)
        refusal = self._refusal(sequence, hits, start + wanted)
        if refusal is not None:
            self._defer(sequence, *refusal)
            return False
        self._start(sequence, hits, start, wanted, start + wanted, plan)
        return True

    def _count_wanted(self, sequence: Sequence, start: int, budget: int) -> int:
        """Tokens of a waiting sequence to compute now, of those that a lookup has left."""
        return min(sequence.num_tokens - start, budget, self.config.chunk_size or budget)

    def _look_up(self, sequence: Sequence) -> tuple[list[Entry], int]:
        """The prefix hits of a waiting sequence, and how many tokens it need not compute."""
        hits: list[Entry] = []
        if sequence.chain is not None:
            hits = self._block_manager.cache.walk(sequence.chain, sequence.num_tokens)
        self._report_lookup(sequence, hits)
        num_cached = len(hits) * self.config.block_size
        # A beam may have computed all its tokens before it was swapped out.
        return hits, min(max(num_cached, sequence.num_swapped or 0), sequence.num_tokens - 1)

    def _start(
        self,
        sequence: Sequence,
        hits: list[Entry],
        start: int,
        wanted: int,
        num_reserved: int,
        plan: StepPlan,
    ) -> None:
        """Move the head of the waiting queue to the end of the running list, with pages for its
        first `num_reserved` tokens, and plan `wanted` tokens of it from `start` on."""
        num_cached = len(hits) * self.config.block_size
        self._block_manager.reserve(sequence.id, num_reserved, hits)
        self._copy_in(sequence, num_cached, start)
        if self.hashes_planned:
            self._block_manager.hash_pages([(sequence.id, start + wanted)])
        self.running.append(self.waiting.popleft())
        sequence.admit(num_cached, start - num_cached)
        plan.sequences.append(sequence)
        plan.num_tokens.append(wanted)
        plan.num_cached[sequence.id] = num_cached
        self._last_lookup = None
        if self._emit is not None:
            self._emit(SequenceAdmitted(sequence.id, num_cached, start - num_cached))
            self._emit(StateChanged(sequence.id, sequence.state.name))
            self._emit((SCHEDULED, sequence.number, start, wanted))

    def _copy_in(self, sequence: Sequence, num_cached: int, stop: int) -> None:
        """Bring back the tokens below `stop` that a sequence left on the host, but for those that
        the prefix cache has."""
        if sequence.num_swapped is None:
            return
        host_ids = sequence.leave_host()
        if stop > num_cached:
            first, last = num_cached // self.config.block_size, -(-stop // self.config.block_size)
            page_ids = sequence.table.page_ids
            self._host.copy_in(host_ids[first:last], page_ids[first:last])
            self._block_manager.pool.mark_filled(page_ids, stop)
        self._host.release(host_ids)
        if self._emit is not None:
            self._emit(SwappedIn(sequence.id, num_cached, stop - num_cached))

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
