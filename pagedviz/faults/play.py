"""Play: a workload on an engine, healthy or with one part replaced, checked after every step.

Invariants: the checks take the state from the engine itself, before and after, and not from the
events of a step, which a faulty engine may get wrong; a step that raises is the last one, and only
what happened in it is judged, for it has no end state.
"""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import blake2b
from typing import NamedTuple

from pagedviz.engine.commit import StepOutcome
from pagedviz.engine.engine import Engine
from pagedviz.engine.errors import PagedVizError
from pagedviz.engine.events import (
    Emitted,
    Event,
    InvariantViolated,
    SequenceScheduled,
    as_event,
)
from pagedviz.engine.ids import SeqId
from pagedviz.engine.invariants import Violation, check_events, check_step
from pagedviz.engine.live_checker import LiveChecker
from pagedviz.engine.pages import PoisonedPool
from pagedviz.engine.profiles import PROFILES
from pagedviz.engine.sampling import SamplingParams
from pagedviz.engine.snapshot import SequenceView, Snapshot
from pagedviz.engine.step_facts import StepFacts
from pagedviz.engine.step_start import StepStart
from pagedviz.faults.fault import Part, broken_attention, broken_profile
from pagedviz.faults.histories import Histories
from pagedviz.faults.workload import Abort, Ask, Command, Fork, Tokens, Workload
from pagedviz.model import LanguageModel, ModelError


class PlayedStep(NamedTuple):
    """violations: what the slow rules and the dense model find. live: what the engine's own live
    check found in this step. error: what the step raised. memory: a digest of all keys and values
    after it."""

    number: int
    events: tuple[Event, ...]
    after: Snapshot
    violations: tuple[Violation, ...]
    live: tuple[Violation, ...]
    error: str | None
    memory: bytes


class Play:
    """part: replaces the class it derives from. ConfigError for a workload that is refused."""

    def __init__(
        self, workload: Workload, model: LanguageModel | None, part: Part | None = None
    ) -> None:
        self.workload = workload
        self.model = model if workload.has_model else None
        self.steps: list[PlayedStep] = []
        self._events: list[Emitted] = []
        faulty_model = None
        if self.model is not None:
            # A model of its own: the one handed in may be shared.
            faulty_model = self.model.with_adapters(self.model.adapters)
            faulty_model.attention = broken_attention(part)
        profile = broken_profile(PROFILES[workload.config.profile], part)
        if workload.is_poisoned:
            profile = profile._replace(pool=PoisonedPool)
        self.checker = LiveChecker()
        self.engine = Engine(
            workload.config, faulty_model, self._events.append, self.checker, profile=profile
        )
        self.seq_ids: dict[str, SeqId] = {}
        self._pending: list[Command] = list(workload.commands)
        self._before = self.engine.snapshot()
        self._histories = Histories()

    def run(self) -> Play:
        """Step until all is done, nothing will change, something raises, or max_steps."""
        while not self.is_over:
            self.step()
        return self

    @property
    def is_over(self) -> bool:
        if self.error is not None or len(self.steps) >= self.workload.max_steps:
            return True
        return not self._pending and (not self.engine.has_unfinished or self.engine.is_stalled)

    @property
    def error(self) -> str | None:
        return self.steps[-1].error if self.steps else None

    def step(self) -> PlayedStep:
        number, error = len(self.steps), None
        outcome: StepOutcome | None = None
        try:
            for command in [c for c in self._pending if c.step <= number]:
                self._pending.remove(command)
                self._give(command)
            self.checker.more_arrivals = bool(self._pending)
            outcome = self.engine.step()
        except (PagedVizError, ModelError) as raised:
            error = str(raised)
        events = tuple(
            as_event(emitted)
            for emitted in self._events
            if not isinstance(emitted, InvariantViolated)
        )
        self._events.clear()
        after = self.engine.snapshot()
        violations = tuple(self._check(events, after, outcome))
        live = tuple(self.checker.violations)
        step = PlayedStep(number, events, after, violations, live, error, self._digest())
        self.steps.append(step)
        self._before = after
        return step

    def _give(self, command: Command) -> None:
        engine = self.engine
        match command:
            case Ask():
                sampling = SamplingParams(temperature=command.temperature, seed=command.seed)
                length = len(command.output) or 16
                self.seq_ids[command.name] = engine.submit(
                    self._tokens(command.prompt),
                    sampling,
                    length if command.max_new_tokens is None else command.max_new_tokens,
                    name=command.name,
                    forced_ids=command.output or None,
                    num_samples=command.num_samples,
                    forced_forks=command.forks,
                )
            case Fork():
                self.seq_ids[command.name] = engine.fork(
                    self.seq_ids[command.parent],
                    name=command.name,
                    forced_ids=command.output or None,
                )
            case Abort():
                engine.abort(self.seq_ids[command.name])

    def _tokens(self, prompt: str | Tokens) -> Sequence[int]:
        if not isinstance(prompt, str):
            return prompt
        assert self.model is not None and self.model.tokenizer is not None
        return self.model.tokenizer.encode(prompt)

    def _check(
        self, events: tuple[Event, ...], after: Snapshot, outcome: StepOutcome | None
    ) -> list[Violation]:
        self._histories.follow(events)
        reads = self.engine.reads
        if outcome is None:
            found = check_events(StepFacts(StepStart.of(self._before), events, reads))
        else:
            found = check_step(
                self._before,
                events,
                after,
                more_arrivals=bool(self._pending),
                reserves_prompts=self.engine.scheduler.reserves_prompts,
                reads=reads,
            )
            if self.model is not None:
                found += self._histories.untrue_logits(len(self.steps), outcome, self.model)
        return found + list(self._histories.untrue_tokens(after))

    def _digest(self) -> bytes:
        pool, digest = self.engine.block_manager.pool, blake2b(digest_size=8)
        if pool.has_storage:
            digest.update(pool.keys.tobytes())
            digest.update(pool.values.tobytes())
        return digest.digest()

    # ---- what came of it -------------------------------------------------------------------

    @property
    def sequences(self) -> tuple[SequenceView, ...]:
        return self.steps[-1].after.sequences

    def answer(self, sequence: SequenceView) -> str:
        """What was generated, as a text if a tokenizer is there, as letters otherwise."""
        ids = [token_id for token_id in sequence.generated_ids if token_id is not None]
        tokenizer = None if self.model is None else self.model.tokenizer
        if tokenizer is not None and isinstance(self._prompt(sequence), str):
            return tokenizer.decode(ids)
        return "".join(map(_letter, ids))

    def token_text(self, token_id: int) -> str:
        """How one token reads, as in `answer`."""
        tokenizer = None if self.model is None else self.model.tokenizer
        prompts = (c.prompt for c in self.workload.commands if isinstance(c, Ask))
        if tokenizer is not None and all(isinstance(prompt, str) for prompt in prompts):
            return tokenizer.token_text(token_id)
        return _letter(token_id)

    def num_scheduled(self, sequence: SequenceView) -> int:
        """Tokens that were computed for a sequence, those computed again included."""
        return sum(
            event.num_tokens
            for step in self.steps
            for event in step.events
            if isinstance(event, SequenceScheduled) and event.seq_id == sequence.seq_id
        )

    def _prompt(self, sequence: SequenceView) -> str | Tokens:
        root = sequence
        while root.parent_id is not None:
            root = self.steps[-1].after.sequence(root.parent_id)
        asks = {c.name: c.prompt for c in self.workload.commands if isinstance(c, Ask)}
        return asks[root.name]


def _letter(token_id: int) -> str:
    return chr(token_id) if 32 < token_id < 127 else f"<{token_id}>"
