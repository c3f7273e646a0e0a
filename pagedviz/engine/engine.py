"""Engine: submit requests, step, look.

    step = schedule (decide and reserve) -> execute (compute K/V and logits) -> commit (append)

Invariants: only `schedule` and `commit` change paging state; the same calls give the same events on
every machine; with no model the output tokens are given at submit and only the books are kept.
"""

from __future__ import annotations

from collections.abc import Sequence as SequenceOf
from dataclasses import replace
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from pagedviz.engine.block_manager import BlockManager, BlockManagerConfig
from pagedviz.engine.config import EngineConfig, check_int
from pagedviz.engine.errors import ConfigError, EngineFailed, IllegalTransition
from pagedviz.engine.events import (
    SAMPLED,
    WRITTEN,
    Emit,
    SequenceFinished,
    SequenceSubmitted,
    StateChanged,
)
from pagedviz.engine.ids import AdapterKey, SeqId
from pagedviz.engine.pages import KvPageConfig, KvPagePool
from pagedviz.engine.prefix_cache import NoPrefixCache, SharedPrefixCache
from pagedviz.engine.prefix_hash import MAX_TOKEN_ID
from pagedviz.engine.sampling import SamplingParams, sample_token
from pagedviz.engine.scheduler import Scheduler, StepPlan
from pagedviz.engine.sequence import FinishReason, Sequence, check_token_ids
from pagedviz.engine.sequence_manager import SequenceManager
from pagedviz.engine.snapshot import Snapshot
from pagedviz.engine.snapshot_builder import build_snapshot
from pagedviz.engine.sub_batches import check_adapter, sub_batches


class LanguageModel(Protocol):
    """What the engine needs of a transformer. It knows nothing of scheduling."""

    @property
    def num_layers(self) -> int: ...
    @property
    def num_kv_heads(self) -> int: ...
    @property
    def head_dim(self) -> int: ...
    @property
    def vocab_size(self) -> int: ...
    @property
    def max_seq_len(self) -> int: ...
    @property
    def eos_token_ids(self) -> tuple[int, ...]: ...
    @property
    def adapter_names(self) -> tuple[str, ...]: ...

    def forward(
        self,
        token_ids: NDArray[np.int64],
        query_lens: SequenceOf[int],
        context_lens: SequenceOf[int],
        page_tables: SequenceOf[SequenceOf[int]],
        keys: NDArray[np.float32],
        values: NDArray[np.float32],
        *,
        adapter: str | None,
    ) -> NDArray[np.float32]:
        """Write the K/V of all tokens of a sub-batch, [T], into the pages; return the logits of
        each sequence's last one, [S, vocab]. context_lens: tokens in cache once this step is
        written. adapter: that of all its sequences, one of `adapter_names` or None."""
        ...


class StepOutcome(NamedTuple):
    """One step, done.

    sampled: the token each of `plan.sequences` gained, None for a chunk that ended before the last
    known token. logprobs: the likeliest candidates of each sampled token, best first.
    """

    plan: StepPlan
    sampled: list[int | None]
    finished: list[SeqId]
    logprobs: dict[SeqId, tuple[tuple[int, float], ...]]


class Engine:
    def __init__(
        self,
        config: EngineConfig,
        model: LanguageModel | None = None,
        emit: Emit | None = None,
    ) -> None:
        self.config = config
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
        cache = SharedPrefixCache if config.prefix_caching else NoPrefixCache
        self.block_manager = BlockManager(
            KvPagePool(config.num_pages, page_config),
            BlockManagerConfig(max_sequences=None, max_pages_per_seq=None),
            cache(config.block_size),
            emit,
        )
        self.sequences = SequenceManager(self.block_manager)
        self.scheduler = Scheduler(config, self.block_manager, emit)
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
    ) -> SeqId:
        """Queue a request; it is considered from the next step on.

        forced_ids: output tokens to take instead of sampling; required without a model. Raises
        ConfigError for an empty prompt, an unknown token, an adapter the model does not have, or a
        request that could never fit.
        """
        self._check_alive()
        self._check_request(prompt_ids, max_new_tokens, forced_ids)
        if self.model is not None:
            check_adapter(adapter, self.model.adapter_names)
        self._check_fits(len(prompt_ids) + max_new_tokens)
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
        sequence.chain = self.block_manager.cache.chain(sequence.token_ids, adapter)
        self.sequences.add(sequence)
        self.scheduler.waiting.append(sequence)
        self._has_idled = False
        if self._emit is not None:
            prompt = tuple(sequence.token_ids)
            self._emit(
                SequenceSubmitted(
                    sequence.id, sequence.name, len(prompt), max_new_tokens, prompt, adapter
                )
            )
        return sequence.id

    def abort(self, seq_id: SeqId) -> None:
        """End a sequence now and release its pages. SequenceNotFound, IllegalTransition."""
        self._check_alive()
        sequence = self.sequences.get(seq_id)
        if not sequence.is_active:
            raise IllegalTransition(f"{sequence.id} has finished and cannot be aborted")
        queue = self.scheduler.running if sequence.is_running else self.scheduler.waiting
        queue.remove(sequence)
        self._has_idled = False
        sequence.finish(FinishReason.ABORTED)
        self._leave(sequence)

    def change_limits(self, max_tokens_per_step: int, chunk_size: int | None) -> None:
        """Another budget and chunk size from the next step on. ConfigError."""
        self._check_alive()
        self.config = self.scheduler.config = replace(
            self.config, max_tokens_per_step=max_tokens_per_step, chunk_size=chunk_size
        )

    def _check_request(
        self, prompt_ids: SequenceOf[int], max_new_tokens: int, forced_ids: SequenceOf[int] | None
    ) -> None:
        if not len(prompt_ids):
            raise ConfigError("the prompt is empty: at least one token is needed")
        check_int("max_new_tokens", max_new_tokens, 1)
        limit = MAX_TOKEN_ID + 1 if self.model is None else self.model.vocab_size
        check_token_ids("prompt", prompt_ids, limit)
        if self.max_seq_len is not None and len(prompt_ids) >= self.max_seq_len:
            raise ConfigError(
                f"the prompt has {len(prompt_ids)} tokens, which leaves no room in a context of "
                f"{self.max_seq_len}; shorten it to {self.max_seq_len - 1} or fewer"
            )
        if forced_ids is not None:
            check_token_ids("forced output", forced_ids, limit)
        if self.model is None and len(forced_ids or ()) < max_new_tokens:
            raise ConfigError(
                f"without a model all {max_new_tokens} output tokens must be given, "
                f"got {len(forced_ids or ())}"
            )

    def _check_fits(self, max_tokens: int) -> None:
        if self.max_seq_len is not None:
            max_tokens = min(max_tokens, self.max_seq_len)
        # The last sampled token is never computed, so it needs no slot.
        needed = -(-(max_tokens - 1) // self.config.block_size)
        if self.config.reject_impossible and needed > self.config.num_pages:
            raise ConfigError(
                f"the request needs up to {needed} pages of {self.config.block_size} slots for "
                f"{max_tokens} tokens, the pool has {self.config.num_pages}; enlarge the "
                "pool, shorten the prompt, or ask for fewer new tokens"
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
        plan = self.scheduler.schedule()
        self._is_failed = True  # until execute has returned
        logits = self._execute(plan)
        self._is_failed = False
        outcome = self._commit(plan, logits)
        self.num_steps += 1
        self._has_idled = not (plan.sequences or plan.preempted)
        return outcome

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
        logits = model.forward(
            np.array(token_ids, dtype=np.int64),  # [T]
            counts,
            context_lens,
            tables,
            pool.keys,
            pool.values,
            adapter=None if adapter is None else adapter.name,
        )
        for page_ids, stop in zip(tables, context_lens, strict=True):
            pool.mark_filled(page_ids, stop)
        return logits

    def _commit(self, plan: StepPlan, logits: NDArray[np.float32] | None) -> StepOutcome:
        """Book what was computed, append the sampled tokens, let the finished go."""
        outcome = StepOutcome(plan, [], [], {})
        emit, sampled = self._emit, outcome.sampled
        if emit is not None:
            for sequence, num_tokens in zip(plan.sequences, plan.num_tokens, strict=True):
                emit((WRITTEN, sequence.number, sequence.num_computed, num_tokens))
        for sequence, num_tokens in zip(plan.sequences, plan.num_tokens, strict=True):
            known = len(sequence.token_ids)
            stop = sequence.num_computed + num_tokens
            if num_tokens > 1 or stop < known or known == sequence.num_prompt_tokens:
                self._book_prefill(sequence, stop)
                if stop < known:
                    sampled.append(None)
                    continue
            if known < len(sequence.script):
                token_id = sequence.script[known]
            else:
                assert logits is not None
                picked = sample_token(
                    logits[len(sampled)], sequence.sampling, sequence.num_generated
                )
                token_id = picked.token_id
                outcome.logprobs[sequence.id] = picked.top_logprobs
            is_last = sequence.append_token(token_id)
            sampled.append(token_id)
            if emit is not None:
                emit((SAMPLED, sequence.number, token_id))
            if is_last:
                outcome.finished.append(sequence.id)
                self._leave(sequence)
        if outcome.finished:
            self.scheduler.running = [s for s in self.scheduler.running if s.is_active]
        return outcome

    def _book_prefill(self, sequence: Sequence, stop: int) -> None:
        sequence.advance_prefill(stop - sequence.num_computed)
        if self._emit is not None and sequence.is_decoding:
            self._emit(StateChanged(sequence.id, sequence.state.name))

    def _leave(self, sequence: Sequence) -> None:
        assert sequence.finish_reason is not None
        if self._emit is not None:
            self._emit(SequenceFinished(sequence.id, sequence.finish_reason.value))
            self._emit(StateChanged(sequence.id, sequence.state.name))
        self.block_manager.release(sequence.id)

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
