"""BranchRun: a run that leaves a recorded one, its parent, at one of its steps.

    parent  0 ... 13 14 15 16 ..                         a running engine is changed: steps before
    branch           `- 14' 15' ..                       14 are the parent's, event for event
    branch  0' .. 13' 14' 15' ..                         a setting is rebuilt: the parent's tokens
                                                         up to step 14 are given, then sampled anew

Invariants: the parent is only read; a branch that shares its past with the parent is compared with
it while it is made, and a difference is a ReplayDivergence; the same changes give the same branch.
"""

from __future__ import annotations

from collections.abc import Mapping
from collections.abc import Sequence as SequenceOf
from typing import Any

from pagedviz.engine.commit import StepOutcome
from pagedviz.engine.errors import ConfigError
from pagedviz.engine.live_checker import LiveChecker
from pagedviz.engine.requests import check_token_ids
from pagedviz.engine.sequence import Sequence
from pagedviz.scenarios.change import Change
from pagedviz.scenarios.run import ScenarioModel, ScenarioRun
from pagedviz.scenarios.scenario import Request, Scenario
from pagedviz.scenarios.settings import apply_settings
from pagedviz.trace.changed_limits import WHAT_IF
from pagedviz.trace.compare import compare_step
from pagedviz.trace.scripts import scripts
from pagedviz.trace.trace import Trace


class BranchRun(ScenarioRun):
    """changes: those of the parent and, last, the one that makes the branch.

    Raises ConfigError as ScenarioRun does, for a step the parent does not have, and, while it runs,
    for a sequence that is not there; ReplayDivergence.
    """

    def __init__(
        self,
        scenario: Scenario,
        model: ScenarioModel,
        model_name: str | None,
        parent: Trace,
        changes: SequenceOf[Change],
        *,
        checker: LiveChecker | None = None,
    ) -> None:
        self.changes = tuple(changes)
        self.leaves_at = changes[-1].step
        if self.leaves_at >= parent.num_steps:
            raise ConfigError(
                f"the run has steps 0 to {parent.num_steps - 1}, so nothing can be changed at step "
                f"{self.leaves_at}"
            )
        self._past = None if changes[-1].rebuilds else parent
        rebuilds: dict[str, Any] = {}
        for change in changes:
            rebuilds |= change.rebuilds
        forced = scripts(parent, before=self.leaves_at).values()
        super().__init__(
            apply_settings(scenario, rebuilds),
            model,
            model_name,
            forced={script.name: script.output for script in forced},
            more_settings={WHAT_IF: [change.as_json() for change in changes]},
            checker=checker,
        )
        # Which request a sequence answers: one with a new text answers that of the old one.
        self._request_of = {request.name: request for request in self.scenario.requests}

    def step(self) -> None:
        step = self.engine.num_steps
        for change in self.changes:
            if change.step == step:
                self._apply(change)
        super().step()
        if self._past is not None and step < self.leaves_at:
            compare_step(step, self._past.events(step), self.trace.events(step))

    def _logprobs(self, outcome: StepOutcome) -> Mapping[int, SequenceOf[tuple[int, float]]]:
        step = self.trace.num_steps
        if self._past is None or step >= self.leaves_at:
            return super()._logprobs(outcome)
        # Given tokens have no rivals; the parent, which sampled them, knows.
        return self._past.record(step).logprobs or {}

    def _apply(self, change: Change) -> None:
        if change.limits:
            config = self.engine.config
            limits = {
                "max_tokens_per_step": config.max_tokens_per_step,
                "chunk_size": config.chunk_size,
            }
            self.engine.change_limits(**{**limits, **change.limits})
        for name in change.aborts:
            if not self._drop_pending(name):
                self._abort(name)
        for name, text in change.prompts.items():
            self._edit(name, text)

    def _drop_pending(self, name: str) -> bool:
        """Take back a request that has not arrived, and all that would follow it."""
        dropped = {name}
        for request in self._pending:
            if request.follows in dropped:
                dropped.add(request.name)
        if all(request.name != name for request in self._pending):
            return False
        self._pending = [request for request in self._pending if request.name not in dropped]
        return True

    def _abort(self, name: str) -> None:
        sequence = self._named(name)
        if sequence.is_active:
            self.engine.abort(sequence.id)

    def _edit(self, name: str, text: str) -> None:
        tokenizer = self.model.tokenizer
        if tokenizer is None:
            raise ConfigError("the model has no tokenizer.json to turn the new text into tokens")
        token_ids = tokenizer.encode(text)
        check_token_ids(f"the new text of {name!r}", token_ids, self.model.vocab_size)
        if any(request.name == name for request in self._pending):
            self._own_ids[name] = token_ids
            return
        self._named(name)
        request = self._request_of.get(name)
        if request is None:
            raise ConfigError(
                f"{name!r} is a sample or a beam and goes on from the text of its request: give "
                "that another one"
            )
        self._abort(name)
        edited = self._free_name(request)
        self._request_of[edited] = request
        self.seq_ids[request.name] = self.engine.submit(
            token_ids,
            request.sampling,
            request.max_new_tokens,
            adapter=request.adapter,
            name=edited,
            forced_ids=self._forced.get(edited),
        )

    def _free_name(self, request: Request) -> str:
        taken = {sequence.name for sequence in self.engine.sequences}
        edited, number = f"{request.name}, edited", 1
        while edited in taken:
            number += 1
            edited = f"{request.name}, edited {number}"
        return edited

    def _named(self, name: str) -> Sequence:
        for sequence in self.engine.sequences:
            if sequence.name == name:
                return sequence
        raise ConfigError(f"there is no sequence {name!r} at step {self.engine.num_steps}")
