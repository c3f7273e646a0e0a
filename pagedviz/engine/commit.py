"""Commit: book what a step has computed, append the sampled tokens, let the finished go.

    plan, logits -> written slots -> one token a sequence, or a beam's offer -> forks, ends

Invariant: each token is sampled from the logits of its sequence's own row, once, and announced
before whatever follows from it.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from pagedviz.engine.beams import BeamSearch
from pagedviz.engine.block_manager import BlockManager
from pagedviz.engine.events import SAMPLED, WRITTEN, Emit, StateChanged
from pagedviz.engine.families import Families
from pagedviz.engine.ids import SeqId
from pagedviz.engine.sampling import sample_token, top_logprobs
from pagedviz.engine.scheduler import Scheduler, StepPlan
from pagedviz.engine.sequence import Sequence


class StepOutcome(NamedTuple):
    """One step, done.

    sampled: the token each of `plan.sequences` gained, None for a chunk that ended before the last
    known token and for beams. forked: the sequences that began in this step as forks of others.
    logprobs: the likeliest candidates of each sampled token, best first. stops: tokens of each of
    `plan.sequences` that are computed now; logits: of the last of these, float32 [S, vocab], None
    without a model.
    """

    plan: StepPlan
    sampled: list[int | None]
    finished: list[SeqId]
    logprobs: dict[SeqId, tuple[tuple[int, float], ...]]
    forked: list[SeqId]
    stops: list[int]
    logits: NDArray[np.float32] | None


class Commit:
    """searches: the beam searches that go on."""

    def __init__(
        self,
        scheduler: Scheduler,
        block_manager: BlockManager,
        families: Families,
        emit: Emit | None,
    ) -> None:
        self.searches: list[BeamSearch] = []
        self._scheduler = scheduler
        self._block_manager = block_manager
        self._families = families
        self._emit = emit

    def run(self, plan: StepPlan, logits: NDArray[np.float32] | None) -> StepOutcome:
        """logits: [S, vocab], None without a model."""
        stops = [s.num_computed + n for s, n in zip(plan.sequences, plan.num_tokens, strict=True)]
        outcome = StepOutcome(plan, [], [], {}, [], stops, logits)
        emit, sampled = self._emit, outcome.sampled
        if emit is not None:
            for sequence, num_tokens in zip(plan.sequences, plan.num_tokens, strict=True):
                emit((WRITTEN, sequence.number, sequence.num_computed, num_tokens))
        if not self._scheduler.hashes_planned:
            self._block_manager.hash_pages(
                [(s.id, stop) for s, stop in zip(plan.sequences, stops, strict=True)]
            )
        for sequence, num_tokens, stop in zip(plan.sequences, plan.num_tokens, stops, strict=True):
            known = len(sequence.token_ids)
            if num_tokens > 1 or stop < known or known == sequence.num_prompt_tokens:
                self._book_prefill(sequence, stop)
                if stop < known:
                    sampled.append(None)
                    continue
            row = len(sampled)
            if sequence.beams is not None:
                self._offer(sequence, logits, row)
                sampled.append(None)
                continue
            token_id = self._pick(sequence, known, logits, row, outcome)
            if sequence.num_seats > 1:
                self._fork_samples(sequence, logits, row, outcome)
            sampled.append(token_id)
            self._take_token(sequence, token_id, outcome)
        if self.searches:
            self._advance_beams(outcome)
        if outcome.finished:
            self._scheduler.running = [s for s in self._scheduler.running if s.is_active]
        outcome.finished[:0] = plan.given_up
        return outcome

    def _pick(
        self,
        sequence: Sequence,
        known: int,
        logits: NDArray[np.float32] | None,
        row: int,
        outcome: StepOutcome,
    ) -> int:
        """The next token of a sequence whose `known` tokens are all computed."""
        script = sequence.script
        if known < len(script):
            return script[known]
        assert logits is not None
        picked = sample_token(logits[row], sequence.sampling, sequence.num_generated)
        outcome.logprobs[sequence.id] = picked.top_logprobs
        return picked.token_id

    def _take_token(self, sequence: Sequence, token_id: int, outcome: StepOutcome) -> None:
        is_last = sequence.append_token(token_id)
        if self._emit is not None:
            self._emit((SAMPLED, sequence.number, token_id))
        if is_last:
            outcome.finished.append(sequence.id)
            self._families.leave(sequence)

    def _offer(self, beam: Sequence, logits: NDArray[np.float32] | None, row: int) -> None:
        assert logits is not None and beam.beams is not None
        beam.num_computed = len(beam.token_ids)
        beam.beams.offer(beam, top_logprobs(logits[row], beam.beams.width))

    def _book_prefill(self, sequence: Sequence, stop: int) -> None:
        sequence.advance_prefill(stop - sequence.num_computed)
        if self._emit is not None and sequence.is_decoding:
            self._emit(StateChanged(sequence.id, sequence.state.name))

    def _fork_samples(
        self, sequence: Sequence, logits: NDArray[np.float32] | None, row: int, outcome: StepOutcome
    ) -> None:
        """Once a prompt is computed: its further samples, each with its first token."""
        for sample in self._families.fork_samples(sequence):
            outcome.forked.append(sample.id)
            known = len(sample.token_ids)
            self._take_token(sample, self._pick(sample, known, logits, row, outcome), outcome)

    def _advance_beams(self, outcome: StepOutcome) -> None:
        for search in self.searches:
            search.forget_ended()
            if search.is_ready:
                candidates = {beam.id: search.candidates(beam) for beam in search.beams}
                began, ended = self._families.advance(search)
                outcome.forked.extend(sequence.id for sequence in began)
                outcome.finished.extend(sequence.id for sequence in ended)
                for sequence in began:
                    assert sequence.parent_id is not None
                    candidates[sequence.id] = candidates[sequence.parent_id]
                outcome.logprobs.update(candidates)
        self.searches = [search for search in self.searches if search.beams]
