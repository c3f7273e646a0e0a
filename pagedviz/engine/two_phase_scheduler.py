"""TwoPhaseScheduler: a step either prefills or decodes, as nano-vllm does.

    prefill   whoever waits and fits, front first; only the first may be cut into chunks
    decode    only when nothing can be prefilled: running sequences in order, a token each

Invariants: a sequence gets the pages of all its known tokens at once, at its first chunk; at most
`max_running` sequences take part in a step, more may be running; pages become findable once they
are computed, so that requests of one step share nothing.
"""

from __future__ import annotations

from pagedviz.engine.events import SCHEDULED
from pagedviz.engine.scheduler import Scheduler, StepPlan
from pagedviz.engine.sequence import Sequence


class TwoPhaseScheduler(Scheduler):
    hashes_planned = False
    reserves_prompts = True
    limits_running = False

    def schedule(self) -> StepPlan:
        plan = StepPlan([], [], {}, [], [])
        self._prefill(plan)
        if not plan.sequences:
            self._decode(plan)
        self._free_idle_beams(plan)
        return plan

    def _prefill(self, plan: StepPlan) -> None:
        budget = self.config.max_tokens_per_step
        # One whose prompt was cut goes on before anybody else starts.
        for sequence in self.running:
            known = len(sequence.token_ids)
            if sequence.is_idle_beam or sequence.is_decoding:
                continue
            wanted = min(known - sequence.num_computed, budget)
            budget -= wanted
            self._plan(sequence, sequence.num_computed, wanted, plan)
            break
        while self.waiting and self._admit(self.waiting[0], plan, budget):
            budget -= plan.num_tokens[-1]

    def _admit(self, sequence: Sequence, plan: StepPlan, budget: int) -> bool:
        needed = self._block_manager.pages_needed
        if not budget or len(plan.sequences) >= self.config.max_running:
            reason = "max_running" if budget else "budget"
            self._defer(sequence, reason, needed(sequence.id, sequence.num_tokens))
            return False
        hits, start = self._look_up(sequence)
        num_pages = needed(sequence.id, sequence.num_tokens, hits)
        wanted = self._count_wanted(sequence, start, budget)
        if num_pages > self._block_manager.pool.free_count:
            self._defer(sequence, "pages", num_pages)
            return False
        if start + wanted < sequence.num_tokens and plan.sequences:
            self._defer(sequence, "budget", num_pages)
            return False
        self._start(sequence, hits, start, wanted, sequence.num_tokens, plan)
        return True

    def _count_wanted(self, sequence: Sequence, start: int, budget: int) -> int:
        return min(sequence.num_tokens - start, budget)

    def _decode(self, plan: StepPlan) -> None:
        # Who takes part keeps the front of the list, so that all get their turn.
        for sequence in tuple(self.running):
            if len(plan.sequences) >= self.config.max_running:
                break
            start = sequence.num_computed
            if not sequence.is_running or sequence.is_idle_beam:
                continue  # preempted by one ahead of it, or a beam that waits for the others
            if self._reserve(sequence, start, start + 1, plan):
                self._plan(sequence, start, 1, plan)

    def _plan(self, sequence: Sequence, start: int, wanted: int, plan: StepPlan) -> None:
        plan.sequences.append(sequence)
        plan.num_tokens.append(wanted)
        if self._emit is not None:
            self._emit((SCHEDULED, sequence.number, start, wanted))
