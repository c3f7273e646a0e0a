"""ScenarioRun: a scenario on an engine with a model, step by step, recorded.

    before each step: submit what has arrived -> engine.step() -> recorder.end_step()

Invariants: the same scenario and model give the same trace; sequence ids count up in the order of
submission, requests of one step in the order of the file; `trace` and `engine` are at the same
step; a run that was constructed can be run to its end (tokens, context and pool were checked).
"""

from __future__ import annotations

from collections.abc import Mapping
from collections.abc import Sequence as SequenceOf
from math import isfinite
from typing import Any, Protocol

from pagedviz.engine.commit import StepOutcome
from pagedviz.engine.engine import Engine
from pagedviz.engine.errors import ConfigError
from pagedviz.engine.ids import SeqId
from pagedviz.engine.language_model import LanguageModel
from pagedviz.engine.live_checker import LiveChecker
from pagedviz.engine.profiles import Profile
from pagedviz.engine.requests import check_forks, check_token_ids
from pagedviz.engine.sequence import Sequence
from pagedviz.engine.sub_batches import check_adapter
from pagedviz.scenarios.scenario import Request, Scenario
from pagedviz.trace.header import KvShape, TraceHeader
from pagedviz.trace.recorder import Recorder
from pagedviz.trace.trace import Trace

# A pool is allocated whole when a run starts; a typing slip in the sidebar must not take it all.
MAX_POOL_BYTES = 1 << 30
_FLOAT_BYTES = 4


class Tokenizer(Protocol):
    def encode(self, text: str) -> list[int]: ...

    def decode(self, token_ids: list[int]) -> str: ...


class ScenarioModel(LanguageModel, Protocol):
    """A language model that also reads and writes text; without a tokenizer (None) only scenarios
    with prompt_ids run."""

    @property
    def tokenizer(self) -> Tokenizer | None: ...


class ScenarioRun:
    """model_name: what the trace says about the model. forced: by name of a request, its first
    output tokens, taken instead of sampling. more_settings: joins `scenario_settings` in the trace.
    profile: other parts of the engine than the scenario names. checker: of the engine's rules; what
    it finds broken is in the trace.

    Raises ConfigError for tokens or adapters the model does not have, requests beyond its context
    or the pool, and a pool of more than MAX_POOL_BYTES.
    """

    def __init__(
        self,
        scenario: Scenario,
        model: ScenarioModel,
        model_name: str | None = None,
        *,
        forced: Mapping[str, SequenceOf[int]] | None = None,
        more_settings: Mapping[str, Any] | None = None,
        profile: Profile | None = None,
        checker: LiveChecker | None = None,
    ) -> None:
        self.scenario = scenario
        self.model = model
        self.checker = checker
        self.seq_ids: dict[str, SeqId] = {}
        """Of the requests submitted so far, by name."""
        _check_adapters(scenario, model)
        self._own_ids = {r.name: _prompt_tokens(r, model) for r in scenario.requests}
        self._forced = dict(forced or {})
        self._pending = list(scenario.requests)
        # The step before which a request was first seen finished.
        self._ended_before: dict[str, int] = {}
        _check_pool(scenario, model)
        _check_forks(scenario, model)
        _check_lengths(scenario, self._own_ids, model)
        config = scenario.engine
        self._recorder = Recorder(
            TraceHeader(
                num_pages=config.num_pages,
                block_size=config.block_size,
                producer="pagedviz",
                settings=config,
                scenario=scenario.name,
                scenario_settings={**scenario.overrides, **(more_settings or {})} or None,
                model=model_name,
                kv=KvShape(model.num_layers, model.num_kv_heads, model.head_dim, _FLOAT_BYTES),
            )
        )
        self.engine = Engine(config, model, self._recorder.emit, checker, profile=profile)

    @property
    def trace(self) -> Trace:
        """What was recorded so far; it grows with the run."""
        return self._recorder.trace

    @property
    def ended(self) -> str | None:
        """Why no step can follow although not everything has finished; None of a healthy engine."""
        return None

    @property
    def is_done(self) -> bool:
        """All requests have been submitted and have finished."""
        return not self._pending and not self.engine.has_unfinished

    def step(self) -> None:
        """Submit what has arrived and step the engine once, even if there is nothing to do."""
        step = self.engine.num_steps
        for request in [r for r in self._pending if self._is_due(r, step)]:
            self._submit(request)
            self._pending.remove(request)
        if self.checker is not None:
            self.checker.more_arrivals = bool(self._pending)
        self._end_step(self.engine.step())

    def _end_step(self, outcome: StepOutcome | None) -> None:
        """outcome: None of a step that raised and is recorded all the same."""
        self._recorder.end_step({} if outcome is None else self._logprobs(outcome))

    def _logprobs(self, outcome: StepOutcome) -> Mapping[int, SequenceOf[tuple[int, float]]]:
        """What the trace is to keep of a step's candidates, by sequence. Logits that are no numbers
        have none."""
        return {
            int(i): best
            for i, best in outcome.logprobs.items()
            if all(isfinite(logprob) for _, logprob in best)
        }

    def run(self, max_steps: int | None = None) -> Trace:
        """Step until everything has finished, or `max_steps` times."""
        while not self.is_done and (max_steps is None or max_steps > 0):
            self.step()
            max_steps = None if max_steps is None else max_steps - 1
        return self.trace

    def sequence(self, name: str) -> Sequence:
        """The sequence of a request. KeyError until it has been submitted."""
        return self.engine.sequences.get(self.seq_ids[name])

    def text(self, name: str) -> str:
        """What was generated for a request so far, special tokens left out; "" without a
        tokenizer. KeyError until it has been submitted."""
        return self.text_of(self.seq_ids[name])

    def text_of(self, seq_id: SeqId) -> str:
        """The same for any sequence, forks included. SequenceNotFound."""
        tokenizer = self.model.tokenizer
        generated = self.engine.sequences.get(seq_id).generated_ids
        return "" if tokenizer is None else tokenizer.decode(generated)

    def _is_due(self, request: Request, step: int) -> bool:
        if request.follows is None:
            return step >= request.arrival_step
        if request.follows not in self.seq_ids or self.sequence(request.follows).is_active:
            return False
        ended_before = self._ended_before.setdefault(request.follows, step)
        return step >= ended_before + request.after - 1

    def _submit(self, request: Request) -> None:
        history: list[int] = []
        if request.follows is not None:
            history = list(self.sequence(request.follows).token_ids)
            # The end mark closes an answer; a conversation that goes on has none.
            if history[-1] in self.model.eos_token_ids:
                history.pop()
        self.seq_ids[request.name] = self.engine.submit(
            history + self._own_ids[request.name],
            request.sampling,
            request.max_new_tokens,
            adapter=request.adapter,
            name=request.name,
            forced_ids=None if request.beam_width > 1 else self._forced.get(request.name),
            num_samples=request.num_samples,
            beam_width=request.beam_width,
            forced_forks=[
                self._forced.get(f"{request.name}/{number}", ())
                for number in range(2, request.num_samples + 1)
            ],
        )


def _prompt_tokens(request: Request, model: ScenarioModel) -> list[int]:
    """The request's own tokens, without those of the request it follows."""
    if request.prompt_ids is not None:
        token_ids = list(request.prompt_ids)
    else:
        assert request.prompt is not None
        if model.tokenizer is None:
            raise ConfigError(
                f"request {request.name!r} has a text for a prompt, but the model has no "
                "tokenizer.json to turn it into tokens; give prompt_ids"
            )
        token_ids = model.tokenizer.encode(request.prompt)
        if request.follows is not None:
            # What a vocabulary puts in front of every text (BOS) stands there already.
            opening = model.tokenizer.encode("")
            if opening and token_ids[: len(opening)] == opening:
                del token_ids[: len(opening)]
    check_token_ids(f"request {request.name!r}", token_ids, model.vocab_size)
    return token_ids


def _check_adapters(scenario: Scenario, model: ScenarioModel) -> None:
    for request in scenario.requests:
        try:
            check_adapter(request.adapter, model.adapter_names)
        except ConfigError as error:
            raise ConfigError(f"request {request.name!r}: {error}") from None


def _check_forks(scenario: Scenario, model: ScenarioModel) -> None:
    for request in scenario.requests:
        try:
            check_forks(
                model, scenario.engine, request.sampling, request.num_samples, request.beam_width
            )
        except ConfigError as error:
            raise ConfigError(f"request {request.name!r}: {error}") from None


def _check_pool(scenario: Scenario, model: ScenarioModel) -> None:
    config = scenario.engine
    token_bytes = 2 * model.num_layers * model.num_kv_heads * model.head_dim * _FLOAT_BYTES
    for name in ("num_pages", "host_pages"):
        num_pages = getattr(config, name)
        total = num_pages * config.block_size * token_bytes
        if total > MAX_POOL_BYTES:
            raise ConfigError(
                f"{name} {num_pages} times block_size {config.block_size} slots of "
                f"{token_bytes} bytes make {total} bytes; the pool may take {MAX_POOL_BYTES}"
            )


def _check_lengths(scenario: Scenario, own_ids: dict[str, list[int]], model: ScenarioModel) -> None:
    """Longest prompts first: what is refused here would otherwise end a run half way."""
    config, longest = scenario.engine, dict[str, int]()
    for request in scenario.requests:
        history = 0 if request.follows is None else longest[request.follows]
        prompt = history + len(own_ids[request.name])
        total = longest[request.name] = prompt + request.max_new_tokens
        parts = f"request {request.name!r}: {'up to ' if history else ''}{prompt} prompt tokens"
        if history:
            parts += f" ({history} of them from {request.follows!r})"
        parts += f" and {request.max_new_tokens} new ones"
        if total > model.max_seq_len:
            raise ConfigError(
                f"{parts} make {total}; the model's context holds {model.max_seq_len}: shorten the "
                "prompt or lower max_new_tokens"
            )
        # The last sampled token is never computed, so it needs no slot.
        num_pages = -(-(total - 1) // config.block_size)
        if num_pages > config.num_pages:
            raise ConfigError(
                f"{parts} need {num_pages} pages of {config.block_size} slots; the pool has "
                f"{config.num_pages}: enlarge it, shorten the prompt or lower max_new_tokens"
            )
