"""Runs a recorded trace again, to see what was not recorded: keys, values, attention.

    recorded   step 0 ..... step 16 ..... step 32 ..... step 40
    engines    ^ checkpoint ^ checkpoint  ^ checkpoint     ^ live: goes on, or starts at the nearest

The tokens of the trace are forced, so nothing is sampled, and every event is compared with the
recorded one. Invariants: the trace is only read; what a step shows does not depend on the steps
asked for before; checkpoints take CHECKPOINT_BYTES at most. Several threads may ask.
"""

from __future__ import annotations

from itertools import chain
from threading import RLock
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from pagedviz.engine.commit import StepOutcome
from pagedviz.engine.engine import Engine
from pagedviz.engine.errors import ConfigError, MomentNotFound
from pagedviz.engine.events import (
    Emit,
    Emitted,
    SequenceFinished,
    SequenceForked,
    SequenceSubmitted,
    SlotsWritten,
)
from pagedviz.engine.ids import SeqId
from pagedviz.engine.profiles import Profile
from pagedviz.engine.sampling import SamplingParams
from pagedviz.engine.sub_batches import sub_batches
from pagedviz.trace.attention_tap import AttentionModel, AttentionTap, Weights
from pagedviz.trace.changed_limits import limits_changed_before
from pagedviz.trace.compare import compare_step
from pagedviz.trace.engine_copy import copy_engine
from pagedviz.trace.scripts import Script, scripts
from pagedviz.trace.step_logits import StepLogits, step_logits
from pagedviz.trace.trace import Moment, Trace

CHECKPOINT_EVERY = 16
CHECKPOINT_BYTES = 96 << 20
MAX_POOL_BYTES = 256 << 20


class PageTensors(NamedTuple):
    """What lies in the filled slots of a page: float32 [num_layers, fill, num_kv_heads, head_dim]
    each."""

    keys: NDArray[np.float32]
    values: NDArray[np.float32]


class SequenceAttention(NamedTuple):
    """What one sequence's queries looked at in `step`.

    weights: [num_layers, num_heads, num_queries, num_tokens], rows add up to 1; the first query
    stands at position `first_query`. page_ids, generations: its page table then.
    """

    step: int
    seq_id: int
    first_query: int
    page_ids: tuple[int, ...]
    generations: tuple[int, ...]
    weights: NDArray[np.float32]


class _Running(NamedTuple):
    """An engine at the start of step `engine.num_steps`; `emit` appends to `events`."""

    engine: Engine
    events: list[Emitted]
    emit: Emit


class Replay:
    """Raises ConfigError if the trace does not tell its settings or tokens, or needs a pool of more
    than MAX_POOL_BYTES. `model`: the one it was recorded with, None if there was none. `profile`:
    other parts than those of the profile that its settings name, if it was recorded with such."""

    def __init__(
        self,
        trace: Trace,
        model: AttentionModel | None = None,
        *,
        profile: Profile | None = None,
    ) -> None:
        self.trace = trace
        self._profile = profile
        self._tap = None if model is None else AttentionTap(model)
        self._lock = RLock()
        self._attention: tuple[int, dict[int, SequenceAttention]] | None = None
        self._begin()

    def _begin(self) -> None:
        self._num_steps = self.trace.num_steps
        self._scripts = scripts(self.trace)
        self._live = _start(self.trace, self._tap, self._profile)
        pool = self._live.engine.block_manager.pool
        num_bytes = pool.memory_bytes if self._tap is not None else 0
        if num_bytes > MAX_POOL_BYTES:
            raise ConfigError(
                f"the pool of this trace takes {num_bytes:,} bytes; runs of up to "
                f"{MAX_POOL_BYTES:,} bytes are run again"
            )
        self._every = _spacing(self._num_steps, num_bytes)
        self._checkpoints = {0: _copy(self._live)}
        self._attention = None

    # ---- going far -------------------------------------------------------------------------

    def is_near(self, step: int) -> bool:
        """Whether what `step` shows costs no more steps than lie between two checkpoints."""
        with self._lock:
            return step - self._start_for(step) <= self._every

    def approach(self, step: int) -> int:
        """Run one step more on the way to `step`; how many are done then. As `check` raises."""
        with self._lock:
            done = min(step, self._start_for(step) + 1)
            self._go_to(done)
        return done

    def _start_for(self, step: int) -> int:
        """The start of a step, not after `step`, where an engine stands."""
        at = self._live.engine.num_steps
        nearest = max(start for start in self._checkpoints if start <= step)
        return at if nearest <= at <= step else nearest

    # ---- asking ----------------------------------------------------------------------------

    def check(self) -> None:
        """Run everything once more. ReplayDivergence at the first event that differs."""
        with self._lock:
            self._go_to(self.trace.num_steps)

    def page_tensors(self, moment: Moment, page_id: int) -> PageTensors:
        """Keys and values in a page's filled slots. MomentNotFound, PageOutOfBounds, ConfigError
        for a trace without a model, ReplayDivergence."""
        if self._tap is None:
            raise ConfigError("this run has no model, so its pages hold no keys and values")
        pages = self.trace.at(*moment).pages
        with self._lock:
            # A step writes all its K/V between its plan and its first SlotsWritten; what is not
            # yet reported of it is hidden by the page's fill.
            events = self.trace.events(moment.step)[: moment.event]
            is_written = any(isinstance(event, SlotsWritten) for event in events)
            engine = self._go_to(moment.step + (is_written or moment.event is None)).engine
            pool = engine.block_manager.pool
            fill = pages[pool.check_page(page_id)].fill
            return PageTensors(
                pool.keys[:, page_id, :fill].copy(), pool.values[:, page_id, :fill].copy()
            )

    def attention(self, moment: Moment, seq_id: int) -> SequenceAttention | None:
        """What a sequence looked at when it last computed something, at or before `moment`; None
        if it has not yet. ConfigError for a trace without a model, ReplayDivergence."""
        if self._tap is None:
            raise ConfigError("this run has no model, so it has no attention to show")
        step = last_computed(self.trace, moment, seq_id)
        if step is None:
            return None
        with self._lock:
            if self._attention is None or self._attention[0] != step:
                self._attention = step, self._record_attention(step)
            return self._attention[1][seq_id]

    def logits(self, step: int) -> tuple[StepLogits, ...]:
        """What a step computed, in the order of its plan. MomentNotFound, ConfigError for a trace
        without a model, ReplayDivergence."""
        if self._tap is None:
            raise ConfigError("this run has no model, so it has no logits")
        if not 0 <= step < self.trace.num_steps:
            raise MomentNotFound(f"step {step} is not recorded")
        with self._lock:
            self._go_to(step)
            outcome = self._advance()
        return step_logits(step, outcome)

    def _record_attention(self, step: int) -> dict[int, SequenceAttention]:
        assert self._tap is not None
        self._go_to(step)
        weights: Weights = []
        self._tap.weights = weights
        try:
            self._advance()
        finally:
            self._tap.weights = None
        events = self.trace.events(step)
        written = [n for n, event in enumerate(events, 1) if isinstance(event, SlotsWritten)]
        state = self.trace.at(step, written[-1])  # nobody has let go of a page yet
        slots = [event for event in events if isinstance(event, SlotsWritten)]
        views = [state.sequence(event.seq_id) for event in slots]
        computed = chain.from_iterable(sub_batches(view.adapter for view in views))
        found = {}
        for place, row in enumerate(computed):
            event, view = slots[row], views[row]
            found[event.seq_id] = SequenceAttention(
                step,
                event.seq_id,
                event.start,
                view.page_ids,
                view.generations,
                np.stack([layer[place] for layer in weights]),
            )
        return found

    # ---- running ---------------------------------------------------------------------------

    def _go_to(self, step: int) -> _Running:
        """The live engine, at the start of `step`."""
        if not 0 <= step <= self.trace.num_steps:
            raise MomentNotFound(f"step {step} is not recorded")
        if self.trace.num_steps != self._num_steps:
            self._begin()  # the trace has grown, and scripts are given at submission
        start = self._start_for(step)
        if self._live.engine.num_steps != start:
            self._live = _copy(self._checkpoints[start])
        while self._live.engine.num_steps < step:
            self._advance()
        return self._live

    def _advance(self) -> StepOutcome:
        try:
            outcome = self._step()
        except BaseException:
            self._live = _copy(self._checkpoints[0])  # this one may have stopped half way
            raise
        at = self._live.engine.num_steps
        if at % self._every == 0 and at not in self._checkpoints:
            self._checkpoints[at] = _copy(self._live)
        return outcome

    def _step(self) -> StepOutcome:
        engine, emitted, _ = self._live
        step = engine.num_steps
        recorded = self.trace.events(step)
        changed = limits_changed_before(self.trace.header, step)
        if changed is not None:
            engine.change_limits(changed.max_tokens_per_step, changed.chunk_size)
        for event in recorded:
            if isinstance(event, SequenceSubmitted):
                self._submit(engine, event)
            elif isinstance(event, SequenceForked) and self._scripts[event.seq_id].is_command:
                self._fork(engine, event)
            elif isinstance(event, SequenceFinished) and event.reason == "aborted":
                self._abort(engine, SeqId(event.seq_id))
        outcome = engine.step()
        compare_step(step, recorded, emitted)
        emitted.clear()
        return outcome

    def _abort(self, engine: Engine, seq_id: SeqId) -> None:
        # The forks of one that was aborted have ended with it.
        if engine.sequences.get(seq_id).is_active:
            engine.abort(seq_id)

    def _submit(self, engine: Engine, event: SequenceSubmitted) -> None:
        script, limit = self._scripts[event.seq_id], event.max_new_tokens
        engine.submit(
            list(event.prompt_ids),
            SamplingParams(stop_ids=script.stop_ids),
            event.max_new_tokens,
            adapter=event.adapter,
            name=event.name,
            # A search ranks its beams again: what it chose cannot be given to one of them alone.
            forced_ids=None if event.beam_width > 1 else self._output(event.seq_id, limit),
            num_samples=event.num_samples,
            beam_width=event.beam_width,
            forced_forks=[
                self._output(seq_id, limit) for seq_id in self._sample_ids(script, event)
            ],
        )

    def _fork(self, engine: Engine, event: SequenceForked) -> None:
        script = self._scripts[event.seq_id]
        engine.fork(
            SeqId(event.parent_id),
            SamplingParams(stop_ids=script.stop_ids),
            name=event.name,
            forced_ids=self._output(event.seq_id, event.max_new_tokens),
        )

    def _sample_ids(self, script: Script, event: SequenceSubmitted) -> list[int | None]:
        """The further samples of a request; None for those that a trace ends before."""
        missing = event.num_samples - 1 - len(script.samples)
        return [*script.samples, *[None] * missing]

    def _output(self, seq_id: int | None, limit: int) -> list[int]:
        """The recorded tokens of a sequence. Without a model all must be given; those never
        recorded are never reached."""
        output = [] if seq_id is None else list(self._scripts[seq_id].output)
        return output + [0] * (limit - len(output)) if self._tap is None else output


def last_computed(trace: Trace, moment: Moment, seq_id: int) -> int | None:
    """The last step up to `moment` in which keys and values of a sequence were written."""
    for step in range(moment.step, -1, -1):
        events = trace.events(step)
        seen = events[: moment.event] if step == moment.step else events
        if any(isinstance(event, SlotsWritten) and event.seq_id == seq_id for event in seen):
            return step
    return None


def _start(trace: Trace, tap: AttentionTap | None, profile: Profile | None) -> _Running:
    settings = trace.header.settings
    if settings is None:
        raise ConfigError("this trace does not tell its engine's settings: it cannot be run again")
    events: list[Emitted] = []
    emit = events.append
    return _Running(Engine(settings, tap, emit, profile=profile), events, emit)


def _copy(running: _Running) -> _Running:
    events: list[Emitted] = []
    emit = events.append
    return _Running(copy_engine(running.engine, running.emit, emit), events, emit)


def _spacing(num_steps: int, pool_bytes: int) -> int:
    """Steps between two checkpoints, so that all of them fit into CHECKPOINT_BYTES."""
    most = max(1, CHECKPOINT_BYTES // max(pool_bytes, 1 << 18))
    return max(CHECKPOINT_EVERY, -(-num_steps // most))
