"""Engine: submit requests, step, look.

    step = schedule (decide and reserve) -> execute (compute K/V and logits) -> commit (append)

A request may become several sequences: parallel samples and beams are forks that share its pages.
Invariants: only `schedule` and `commit` change paging state; the same calls give the same events on
every machine; with no model the output tokens are given at submit and only the books are kept.
"""

from __future__ import annotations

from collections.abc import Callable
from collections.abc import Sequence as SequenceOf
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from pagedviz.engine.beams import BeamSearch
from pagedviz.engine.block_manager import BlockManagerConfig
from pagedviz.engine.config import EngineConfig
from pagedviz.engine.errors import EngineFailed, IllegalTransition
from pagedviz.engine.events import (
    SAMPLED,
    WRITTEN,
    Emit,
    InvariantViolated,
    SequenceSubmitted,
    StateChanged,
)
from pagedviz.engine.host_pool import HostPool
from pagedviz.engine.ids import AdapterKey, SeqId
from pagedviz.engine.language_model import LanguageModel
from pagedviz.engine.live_checker import Checker, NoChecker
from pagedviz.engine.live_state import Audited
from pagedviz.engine.pages import KvPageConfig
from pagedviz.engine.prefix_cache import NoPrefixCache
from pagedviz.engine.profiles import PROFILES, Profile
from pagedviz.engine.requests import (
    check_fits,
    check_fork,
    check_fork_scripts,
    check_forks,
    check_request,
)
from pagedviz.engine.sampling import SamplingParams, sample_token, top_logprobs
from pagedviz.engine.scheduler import StepPlan
from pagedviz.engine.sequence import Sequence
from pagedviz.engine.sequence_manager import SequenceManager
from pagedviz.engine.snapshot import Snapshot
from pagedviz.engine.snapshot_builder import build_snapshot
from pagedviz.engine.sub_batches import check_adapter, sub_batches


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


class Engine:
    def __init__(
        self,
        config: EngineConfig,
        model: LanguageModel | None = None,
        emit: Emit | None = None,
        checker: Checker | None = None,
        *,
        profile: Profile | None = None,
    ) -> None:
        """profile: other parts than those of the profile that `config` names."""
        self.config = config
        self.checker = NoChecker() if checker is None else checker
        self._tell = emit
        emit = self.checker.listen(emit)
        self.model = model
        self.num_steps = 0
        self.max_seq_len = config.max_seq_len
        page_config = KvPageConfig(block_size=config.block_size)
        if model is not None:
            page_config = KvPageConfig(
                block_size=config.block_size,
                num_heads=model.num_kv_heads,
                head_dim=model.head_dim,
                num_layers=model.num_layers,
            )
            self.max_seq_len = min(config.max_seq_len or model.max_seq_len, model.max_seq_len)
        self.profile = profile or PROFILES[config.profile]
        cache = self.profile.cache if config.prefix_caching else NoPrefixCache
        self.block_manager = self.profile.block_manager(
            self.profile.pool(config.num_pages, page_config),
            BlockManagerConfig(max_sequences=None, max_pages_per_seq=None),
            cache(config.block_size),
            emit,
            self.profile.frees_unhashed_first,
        )
        self.sequences = SequenceManager(self.block_manager)
        self.host_pool = HostPool(config.host_pages, self.block_manager.pool)
        self.scheduler = self.profile.scheduler(config, self.block_manager, emit, self.host_pool)
        self._families = self.profile.families(
            self.sequences, self.block_manager, self.scheduler, self.host_pool, emit
        )
        self._searches: list[BeamSearch] = []
        self._emit = emit
        self._eos_ids = frozenset(() if model is None else model.eos_token_ids)
        self.reads: dict[int, int] = {}
        """By number of each sequence of the last step: how many slots the model has read for it."""
        self._is_failed = False
        self._has_idled = False

    # ---- commands --------------------------------------------------------------------------

    def submit(
        self,
        prompt_ids: SequenceOf[int],
        sampling: SamplingParams | None = None,
        max_new_tokens: int = 16,
        *,
        adapter: str | None = None,
        name: str | None = None,
        forced_ids: SequenceOf[int] | None = None,
        num_samples: int = 1,
        beam_width: int = 1,
        forced_forks: SequenceOf[SequenceOf[int]] = (),
    ) -> SeqId:
        """Queue a request; it is considered from the next step on.

        forced_ids: output tokens to take instead of sampling; required without a model.
        num_samples: continuations, each with a seed of its own, of one computed prompt; those after
        the first take the tokens of `forced_forks`. beam_width: hypotheses of a beam search. Raises
        ConfigError for an empty prompt, an unknown token, an adapter the model does not have, or a
        request that could never fit.
        """
        self._check_alive()
        if self.model is not None:
            check_adapter(adapter, self.model.adapter_names)
        check_request(self.model, self.max_seq_len, prompt_ids, max_new_tokens, forced_ids)
        check_forks(self.model, self.config, sampling, num_samples, beam_width)
        check_fork_scripts(self.model, max_new_tokens, num_samples, forced_forks)
        check_fits(self.config, self.max_seq_len, len(prompt_ids) + max_new_tokens)
        sequence = Sequence(
            self.sequences.next_id(),
            prompt_ids,
            sampling,
            None if adapter is None else AdapterKey(adapter),
            max_new_tokens,
            name=name,
            forced_ids=forced_ids,
            max_seq_len=self.max_seq_len,
            eos_ids=self._eos_ids,
        )
        sequence.num_seats = max(num_samples, beam_width)
        sequence.fork_scripts = tuple(forced_forks)
        if beam_width > 1:
            sequence.beams = BeamSearch(sequence, beam_width)
            self._searches.append(sequence.beams)
        sequence.chain = self.block_manager.cache.chain(sequence.token_ids, adapter)
        self.sequences.add(sequence)
        self.scheduler.waiting.append(sequence)
        self._has_idled = False
        if self._emit is not None:
            prompt = tuple(sequence.token_ids)
            self._emit(
                SequenceSubmitted(
                    sequence.id,
                    sequence.name,
                    len(prompt),
                    max_new_tokens,
                    prompt,
                    adapter,
                    num_samples,
                    beam_width,
                )
            )
        return sequence.id

    def fork(
        self,
        seq_id: SeqId,
        sampling: SamplingParams | None = None,
        *,
        name: str | None = None,
        forced_ids: SequenceOf[int] | None = None,
    ) -> SeqId:
        """A sequence that goes on from another's tokens and holds its pages too, the partial tail
        included; whoever writes there first gets a copy.

        Raises SequenceNotFound, IllegalTransition for one that has finished, ConfigError if no
        more sequences may run.
        """
        self._check_alive()
        parent = self.sequences.get(seq_id)
        num_seats = sum(sequence.num_seats for sequence in self.scheduler.running)
        check_fork(self.model, self.config, parent, num_seats, forced_ids)
        self._has_idled = False
        return self._families.fork(parent, sampling, name=name, forced_ids=forced_ids).id

    def abort(self, seq_id: SeqId) -> None:
        """End a sequence and all forked from it now, and release their pages. SequenceNotFound,
        IllegalTransition if all of them have ended."""
        self._check_alive()
        sequence = self.sequences.get(seq_id)
        if not self._families.abort(sequence):
            raise IllegalTransition(f"{sequence.id} has finished and cannot be aborted")
        self._has_idled = False

    def change_limits(self, max_tokens_per_step: int, chunk_size: int | None) -> None:
        """Another budget and chunk size from the next step on. ConfigError."""
        self._check_alive()
        self.config = self.scheduler.config = replace(
            self.config, max_tokens_per_step=max_tokens_per_step, chunk_size=chunk_size
        )

    def _check_alive(self) -> None:
        if self._is_failed:
            raise EngineFailed(
                f"step {self.num_steps} failed in the model and left its tokens half computed; "
                "start a new engine"
            )

    # ---- stepping --------------------------------------------------------------------------

    @property
    def has_unfinished(self) -> bool:
        return bool(self.scheduler.running or self.scheduler.waiting)

    @property
    def is_stalled(self) -> bool:
        """Sequences wait, the last step did nothing and nothing has been commanded since: no later
        step will differ."""
        return bool(self.scheduler.waiting) and self._has_idled

    def step(self) -> StepOutcome:
        """One iteration: every running sequence advances by one token or one chunk."""
        self._check_alive()
        self.block_manager.cache.step = self.num_steps
        self.reads.clear()
        check = self.checker.after_failure
        try:
            plan = self.scheduler.schedule()
            self._is_failed = True  # until execute has returned
            logits = self._execute(plan)
            self._is_failed = False
            outcome = self._commit(plan, logits)
            self.num_steps += 1
            self._has_idled = not (plan.sequences or plan.preempted or outcome.logprobs)
            check = self.checker.after_step
        finally:
            # Also of a step that raises: why it does, a rule may have to say.
            self._check(check)
        return outcome

    def _check(self, check: Callable[[Audited], list[InvariantViolated]]) -> None:
        audited = Audited(
            self.num_steps, self.block_manager, self.sequences, self.scheduler, self.reads
        )
        for violated in check(audited):
            if self._tell is not None:
                self._tell(violated)

    def _execute(self, plan: StepPlan) -> NDArray[np.float32] | None:
        """Compute the K/V and logits of a plan, [S, vocab]; changes no paging state."""
        if self.model is None or not plan.sequences:
            return None
        parts = {}
        for rows in sub_batches(sequence.adapter_id for sequence in plan.sequences):
            parts[tuple(rows)] = self._forward(
                self.model, [plan.sequences[i] for i in rows], [plan.num_tokens[i] for i in rows]
            )
        if len(parts) == 1:
            return next(iter(parts.values()))
        logits = np.empty((len(plan.sequences), self.model.vocab_size), dtype=np.float32)
        for chosen, part in parts.items():
            logits[list(chosen)] = part
        return logits

    def _forward(
        self, model: LanguageModel, sequences: list[Sequence], counts: list[int]
    ) -> NDArray[np.float32]:
        """Compute the next `counts` tokens of sequences of one adapter: logits [S, vocab]."""
        token_ids: list[int] = []
        context_lens: list[int] = []
        for sequence, num_tokens in zip(sequences, counts, strict=True):
            start = sequence.num_computed
            token_ids += sequence.token_ids[start : start + num_tokens]
            context_lens.append(start + num_tokens)
        pool = self.block_manager.pool
        tables = [self.block_manager.page_table(s.id).page_ids for s in sequences]
        adapter = sequences[0].adapter_id
        reads: list[int] = []
        logits = model.forward(
            np.array(token_ids, dtype=np.int64),  # [T]
            counts,
            context_lens,
            tables,
            pool.keys,
            pool.values,
            adapter=None if adapter is None else adapter.name,
            reads=reads,
        )
        self.reads.update(zip([s.number for s in sequences], reads, strict=True))
        for page_ids, stop in zip(tables, context_lens, strict=True):
            pool.mark_filled(page_ids, stop)
        return logits

    def _commit(self, plan: StepPlan, logits: NDArray[np.float32] | None) -> StepOutcome:
        """Book what was computed, append the sampled tokens, let the finished go."""
        stops = [s.num_computed + n for s, n in zip(plan.sequences, plan.num_tokens, strict=True)]
        outcome = StepOutcome(plan, [], [], {}, [], stops, logits)
        emit, sampled = self._emit, outcome.sampled
        if emit is not None:
            for sequence, num_tokens in zip(plan.sequences, plan.num_tokens, strict=True):
                emit((WRITTEN, sequence.number, sequence.num_computed, num_tokens))
        if not self.scheduler.hashes_planned:
            self.block_manager.hash_pages(
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
        if self._searches:
            self._advance_beams(outcome)
        if outcome.finished:
            self.scheduler.running = [s for s in self.scheduler.running if s.is_active]
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
        for search in self._searches:
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
        self._searches = [search for search in self._searches if search.beams]

    # ---- looking ---------------------------------------------------------------------------

    def snapshot(self) -> Snapshot:
        """The whole state as a frozen value; see snapshot.py."""
        return build_snapshot(
            self.num_steps,
            self.block_manager,
            self.sequences,
            tuple(s.id for s in self.scheduler.waiting),
            tuple(s.id for s in self.scheduler.running),
        )
