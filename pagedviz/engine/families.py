"""Families: sequences that were forked from one request, and how one comes and goes.

    request seq:0 --+-- seq:1            a fork holds the pages of its parent, so that only what
                    `-- seq:2 -- seq:5   the two write from then on costs pages of its own

Invariants: a fork is made only between two tokens, when parent and fork have the same tokens and
the same of them computed; whoever leaves releases its pages at once.
"""

from __future__ import annotations

from collections.abc import Sequence as SequenceOf

from pagedviz.engine.beams import BeamSearch
from pagedviz.engine.block_manager import BlockManager
from pagedviz.engine.events import (
    SAMPLED,
    Emit,
    SequenceFinished,
    SequenceForked,
    StateChanged,
)
from pagedviz.engine.host_pool import HostPool
from pagedviz.engine.sampling import SamplingParams
from pagedviz.engine.scheduler import Scheduler
from pagedviz.engine.sequence import Sequence
from pagedviz.engine.sequence_manager import SequenceManager
from pagedviz.engine.sequence_state import FinishReason


class Families:
    def __init__(
        self,
        sequences: SequenceManager,
        block_manager: BlockManager,
        scheduler: Scheduler,
        host_pool: HostPool,
        emit: Emit | None,
    ) -> None:
        self._sequences = sequences
        self._block_manager = block_manager
        self._scheduler = scheduler
        self._host_pool = host_pool
        self._emit = emit

    def fork(
        self,
        parent: Sequence,
        sampling: SamplingParams | None = None,
        *,
        name: str | None = None,
        forced_ids: SequenceOf[int] | None = None,
    ) -> Sequence:
        """A sequence that goes on from a parent. It runs and shares pages if the parent runs and
        another may run; otherwise it waits at the back and has its tokens computed again."""
        root = self._root(parent)
        root.num_forks += 1
        child = parent.fork(
            self._sequences.next_id(),
            sampling,
            name=f"{root.name}/{root.num_forks + 1}" if name is None else name,
            forced_ids=forced_ids,
        )
        scheduler, running = self._scheduler, self._scheduler.running
        is_full = scheduler.limits_running and len(running) >= scheduler.config.max_running
        # Who reserves prompts whole has no pages for the rest of a half-computed one.
        lacks_pages = scheduler.reserves_prompts and not parent.is_decoding
        if child.is_running and (is_full or lacks_pages):
            child.is_running, child.num_computed = False, 0
        self._sequences.add(child)
        emit = self._emit
        if emit is not None:
            emit(
                SequenceForked(
                    child.id,
                    parent.id,
                    child.name,
                    child.max_new_tokens,
                    child.num_tokens,
                    child.num_computed,
                )
            )
        if child.is_running:
            self._block_manager.fork(parent.id, child.id, child.num_computed)
            running.append(child)
            if emit is not None:
                emit(StateChanged(child.id, child.state.name))
        else:
            self._scheduler.waiting.append(child)
        return child

    def fork_samples(self, parent: Sequence) -> list[Sequence]:
        """The further samples of a request whose prompt has just been computed."""
        samples = []
        for number in range(1, parent.num_seats):
            scripts = parent.fork_scripts[number - 1 : number]
            samples.append(
                self.fork(
                    parent,
                    parent.sampling.of_sample(number),
                    forced_ids=scripts[0] if scripts else None,
                )
            )
        parent.num_seats = 1
        return samples

    def advance(self, search: BeamSearch) -> tuple[list[Sequence], list[Sequence]]:
        """Give every beam its next token: the sequences that began, and those that ended."""
        began: list[Sequence] = []
        chosen = search.continuations()
        hypotheses: list[tuple[Sequence, float]] = []
        search.beams[0].num_seats = 1
        # Forks first: they start from the tokens that their beam has now.
        for beam, _, score, is_fork in chosen:
            sequence = self.fork(beam) if is_fork else beam
            sequence.beams = search
            hypotheses.append((sequence, score))
            if is_fork:
                began.append(sequence)
        pruned = [beam for beam in search.beams if all(beam is not c.beam for c in chosen)]
        ended: list[Sequence] = []
        for (sequence, _), continuation in zip(hypotheses, chosen, strict=True):
            state = sequence.state.name
            is_last = sequence.continue_beam(continuation.token_id)
            if self._emit is not None:
                self._emit((SAMPLED, sequence.number, continuation.token_id))
                # One that has lost its pages since it offered has more to compute than a token.
                if not is_last and sequence.state.name != state:
                    self._emit(StateChanged(sequence.id, sequence.state.name))
            if is_last:
                ended.append(sequence)
        for beam in pruned:
            beam.finish(FinishReason.PRUNED)
        for sequence in (*ended, *pruned):
            self._scheduler.discard(sequence)
            self.leave(sequence)
        search.advanced(hypotheses)
        return began, [*ended, *pruned]

    def abort(self, sequence: Sequence) -> list[Sequence]:
        """End a sequence and all that were forked from it; those that had not ended yet."""
        family = {sequence.id}
        ended = []
        # A fork is submitted after its parent, so one pass finds the whole family.
        for member in self._sequences:
            if member.parent_id in family:
                family.add(member.id)
            if member.id in family and member.is_active:
                self._scheduler.discard(member)
                member.finish(FinishReason.ABORTED)
                self.leave(member)
                ended.append(member)
        return ended

    def leave(self, sequence: Sequence) -> None:
        """A sequence has finished: nothing of it stays but its tokens."""
        assert sequence.finish_reason is not None
        self._host_pool.release(sequence.leave_host())
        if self._emit is not None:
            self._emit(SequenceFinished(sequence.id, sequence.finish_reason.value))
            self._emit(StateChanged(sequence.id, sequence.state.name))
        self._block_manager.release(sequence.id)

    def _root(self, sequence: Sequence) -> Sequence:
        while sequence.parent_id is not None:
            sequence = self._sequences.get(sequence.parent_id)
        return sequence
