"""FaultRun: a fault's workload on the bundled model as a recorded run, with the fault or without.

    commands of the step -> engine.step() -> the rules -> recorder.end_step()

Invariants: of a faulty engine the trace has what fits together, and `ended` says why it is cut
where the rest does not; a broken rule is an event, the fault's own rule first; without the fault it
is a run like any other.
"""

from __future__ import annotations

from pagedviz.engine.commit import StepOutcome
from pagedviz.engine.errors import ConfigError, PagedVizError, TraceFormatError
from pagedviz.engine.events import Event, InvariantViolated, as_event
from pagedviz.engine.invariants import Violation
from pagedviz.engine.live_checker import LiveChecker
from pagedviz.engine.pages import PoisonedPool
from pagedviz.engine.profiles import PROFILES, Profile
from pagedviz.engine.sampling import SamplingParams
from pagedviz.faults.fault import Fault, broken_attention, broken_profile
from pagedviz.faults.histories import Histories
from pagedviz.faults.workload import Abort, Ask
from pagedviz.model import LanguageModel, ModelError
from pagedviz.scenarios.run import ScenarioRun
from pagedviz.scenarios.scenario import Request, Scenario
from pagedviz.trace.reducer import Reducer

FAULTY, HEALTHY = "fault-", "healthy-"
"""What the names of the two runs of a fault's workload begin with."""


def fault_scenario(fault: Fault, is_faulty: bool) -> Scenario:
    """The requests of a fault's workload on the bundled model; what else it does, the run does."""
    asks = [command for command in fault.words.commands if isinstance(command, Ask)]
    title = f"{'Faulty' if is_faulty else 'Healthy'}: {fault.title}"
    return Scenario(
        name=f"{FAULTY if is_faulty else HEALTHY}{fault.name}",
        title=title,
        description=f"{fault.title}. Seen in {fault.real_case}. "
        + (
            f"This engine has the fault: {fault.shows}"
            if is_faulty
            else f"This engine has not: {fault.is_right}"
        ),
        start_step=0,
        look_for=(),
        engine=fault.words.config,
        requests=tuple(_request(ask) for ask in asks),
        table={},
    )


def _request(ask: Ask) -> Request:
    prompt = ask.prompt
    return Request(
        name=ask.name,
        prompt=prompt if isinstance(prompt, str) else None,
        prompt_ids=None if isinstance(prompt, str) else prompt,
        max_new_tokens=ask.max_new_tokens or len(ask.output) or 16,
        arrival_step=ask.step,
        follows=None,
        after=1,
        sampling=SamplingParams(temperature=ask.temperature, seed=ask.seed),
        num_samples=ask.num_samples,
    )


def fault_profile(fault: Fault, is_faulty: bool) -> Profile:
    """The parts of the engine that runs a fault's workload."""
    workload = fault.words
    profile = PROFILES[workload.config.profile]
    if workload.is_poisoned:
        profile = profile._replace(pool=PoisonedPool)
    return broken_profile(profile, fault.part if is_faulty else None)


def fault_model(fault: Fault, is_faulty: bool, model: LanguageModel) -> LanguageModel:
    """A model of its own that attends as the engine of the run does."""
    own = model.with_adapters(model.adapters)
    own.attention = broken_attention(fault.part if is_faulty else None)
    return own


class FaultRun(ScenarioRun):
    """model: one with a tokenizer. Raises as ScenarioRun does; a step never raises, it ends the
    run."""

    def __init__(
        self,
        fault: Fault,
        model: LanguageModel,
        model_name: str | None = None,
        *,
        is_faulty: bool = True,
        checker: LiveChecker | None = None,
    ) -> None:
        self.fault = fault
        self._dense = model
        self._aborts = [c for c in fault.words.commands if isinstance(c, Abort)]
        self._histories = Histories()
        self._told: set[tuple[int, int | None, int | None]] = set()
        self._ended: str | None = None
        asks = [command for command in fault.words.commands if isinstance(command, Ask)]
        if len(asks) + len(self._aborts) < len(fault.words.commands):
            raise ConfigError(f"the workload of {fault.name!r} forks by hand: run it as a Play")
        super().__init__(
            fault_scenario(fault, is_faulty),
            fault_model(fault, is_faulty, model),
            model_name,
            forced={ask.name: ask.output for ask in asks if ask.output},
            profile=fault_profile(fault, is_faulty),
            checker=checker,
        )
        self._reducer = Reducer(self.engine.config.num_pages, self.engine.config.block_size)

    @property
    def ended(self) -> str | None:
        return self._ended

    @property
    def is_done(self) -> bool:
        return super().is_done and not self._aborts

    def step(self) -> None:
        number = self.engine.num_steps
        try:
            for command in [c for c in self._aborts if c.step <= number]:
                self._aborts.remove(command)
                self.engine.abort(self.seq_ids[command.name])
            super().step()
        except (PagedVizError, ModelError) as raised:
            self._ended = f"The faulty engine stops in step {number}: {raised}"
            self._end_step(None)

    def _end_step(self, outcome: StepOutcome | None) -> None:
        emitted = self._recorder.open_events
        events = [as_event(event) for event in emitted]
        done = tuple(event for event in events if not isinstance(event, InvariantViolated))
        broken = [event for event in events if isinstance(event, InvariantViolated)]
        broken += self._found(done, outcome)
        first = self.fault.rules[0]
        broken.sort(key=lambda event: (event.rule != first, event.rule))
        emitted[:] = [*self._fitting(done), *broken]
        super()._end_step(outcome)
        self._reducer.end_step()

    def _found(
        self, events: tuple[Event, ...], outcome: StepOutcome | None
    ) -> list[InvariantViolated]:
        """Rule 8, which only the model can tell."""
        self._histories.follow(events)
        found: list[Violation] = []
        if self.checker is not None and not self.checker.is_paused:
            if outcome is not None:
                number = self._reducer.num_steps
                found += self._histories.untrue_logits(number, outcome, self._dense)
            found += self._histories.untrue_tokens(self.engine.snapshot())
        new = []
        for v in found:
            if (place := (v.rule, v.page_id, v.seq_id)) not in self._told:
                self._told.add(place)
                new.append(InvariantViolated(v.rule, v.message, v.page_id, v.seq_id))
        return new

    def _fitting(self, events: tuple[Event, ...]) -> list[Event]:
        """The events up to the first that contradicts those before it."""
        for number, event in enumerate(events):
            try:
                self._reducer.apply(event)
            except TraceFormatError as error:
                self._ended = (
                    f"Recording stopped in step {self._reducer.num_steps}: from its event "
                    f"{number + 1} on, what the faulty engine tells does not fit together ({error})"
                )
                return list(events[:number])
        return list(events)
