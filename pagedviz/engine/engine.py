"""Engine: submit requests, step, look.

    step = schedule (decide and reserve) -> execute (compute K/V and logits) -> commit (append)

A request may become several sequences: parallel samples and beams are forks that share its pages.
Invariants: only `schedule` and `commit` change paging state; the same calls give the same events on
every machine; with no model the output tokens are given at submit and only the books are kept.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from collections.abc import Sequence as SequenceOf
from dataclasses import replace

from pagedviz.engine.beams import BeamSearch
from pagedviz.engine.commit import Commit, StepOutcome
from pagedviz.engine.config import EngineConfig
from pagedviz.engine.errors import EngineFailed, IllegalTransition
from pagedviz.engine.events import Emit, InvariantViolated, SequenceSubmitted
from pagedviz.engine.execution import Execution
from pagedviz.engine.holding import BlockManagerConfig
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
from pagedviz.engine.sampling import SamplingParams
from pagedviz.engine.sequence import Sequence
from pagedviz.engine.sequence_manager import SequenceManager
from pagedviz.engine.snapshot import Snapshot
from pagedviz.engine.snapshot_builder import build_snapshot
from pagedviz.engine.sub_batches import check_adapter


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
        self._execution = Execution(model, self.block_manager)
        self._commit = Commit(self.scheduler, self.block_manager, self._families, emit)
        self._emit = emit
        self._eos_ids = frozenset(() if model is None else model.eos_token_ids)
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
            self._commit.searches.append(sequence.beams)
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
        self._execution.reads.clear()
        check = self.checker.after_failure
        try:
            plan = self.scheduler.schedule()
            self._is_failed = True  # until execute has returned
            logits = self._execution.run(plan)
            self._is_failed = False
            outcome = self._commit.run(plan, logits)
            self.num_steps += 1
            self._has_idled = not (plan.sequences or plan.preempted or outcome.logprobs)
            check = self.checker.after_step
        finally:
            # Also of a step that raises: why it does, a rule may have to say.
            self._check(check)
        return outcome

    def _check(self, check: Callable[[Audited], list[InvariantViolated]]) -> None:
        audited = Audited(
            self.num_steps,
            self.block_manager,
            self.sequences,
            self.scheduler,
            self.reads,
            self.host_pool,
        )
        for violated in check(audited):
            if self._tell is not None:
                self._tell(violated)

    # ---- looking ---------------------------------------------------------------------------

    @property
    def reads(self) -> Mapping[int, int]:
        """By number of each sequence of the last step: how many slots the model has read for it."""
        return self._execution.reads

    def snapshot(self) -> Snapshot:
        """The whole state as a frozen value; see snapshot.py."""
        return build_snapshot(self.num_steps, self.block_manager, self.sequences, self.scheduler)
