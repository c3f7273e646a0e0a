"""What it costs to check all rules but 8 after a step, and what the slow reference costs.

Pools of 64 pages with 8 sequences of about 100 tokens, pages of 16 and of 8 slots (then with a
common prefix, or they would not fit), 40 decode steps in which sequences turn pages, end, and are
replaced by new ones that hit cached pages; then every bundled scenario on the bundled model. Each
step's cost is the least of several runs of the same program, in processor time of this process,
since a busy machine only ever adds.
"""

from __future__ import annotations

import random
import statistics
import time
from collections.abc import Callable

from pagedviz.engine import Engine, EngineConfig
from pagedviz.engine.events import (
    Emitted,
    PageAllocated,
    PageHashed,
    SequenceAdmitted,
    SequenceFinished,
    as_event,
)
from pagedviz.engine.invariants import Violation, check_step
from pagedviz.engine.live_checker import LiveChecker
from pagedviz.engine.live_state import Audited
from pagedviz.model import LanguageModel, load_tiny
from pagedviz.scenarios import ScenarioRun, load_scenario, scenario_names

NUM_STEPS, NUM_RUNS, NUM_SCENARIO_RUNS = 40, 15, 3


class TimedChecker(LiveChecker):
    """Notes what each check took, in microseconds of processor time."""

    def __init__(self) -> None:
        super().__init__()
        self.costs_us: list[float] = []
        self.kinds: list[str] = []

    def check(self, engine: Audited) -> list[Violation]:
        heard = {type(event) for event in self._events}
        self.kinds.append(
            "comes or goes"
            if heard & {SequenceAdmitted, SequenceFinished}
            else "page turned"
            if heard & {PageAllocated, PageHashed}
            else "plain"
        )
        start = time.process_time_ns()
        violations = super().check(engine)
        self.costs_us.append((time.process_time_ns() - start) / 1e3)
        assert not violations, violations
        return violations


def busy_engine(
    checker: LiveChecker | None,
    emit: Callable[[Emitted], None] | None,
    num_pages: int,
    block_size: int,
    num_sequences: int,
    num_shared: int,
) -> Engine:
    """Sequences of 80 to 115 tokens; every few steps one ends and another one starts."""
    rng = random.Random(block_size)
    engine = Engine(
        EngineConfig(
            num_pages=num_pages,
            block_size=block_size,
            max_running=num_sequences,
            max_tokens_per_step=1 << 16,
        ),
        emit=emit,
        checker=checker,
    )
    shared = [rng.randrange(768) for _ in range(num_shared)]
    for number in range(2 * num_sequences):
        prompt = shared + [rng.randrange(768) for _ in range(80 + number % 8 - num_shared)]
        length = 30 if number >= num_sequences else 9 + 4 * (number % 8)
        engine.submit(prompt, max_new_tokens=length, forced_ids=[rng.randrange(768)] * length)
    return engine


def live_costs_us(*shape: int) -> list[tuple[str, float]]:
    """Of each step, what happened in it and the least of all runs."""
    runs = []
    for _ in range(NUM_RUNS):
        checker = TimedChecker()
        engine = busy_engine(checker, None, *shape)
        for _ in range(NUM_STEPS):
            engine.step()
        runs.append(checker.costs_us[2:])
    least = [min(costs) for costs in zip(*runs, strict=True)]
    return list(zip(checker.kinds[2:], least, strict=True))


def slow_costs_us(*shape: int) -> list[float]:
    """Snapshot and check_step, of each step the least of three runs."""
    runs = []
    for _ in range(3):
        events: list[Emitted] = []
        engine = busy_engine(None, events.append, *shape)
        before, costs = engine.snapshot(), []
        for _ in range(NUM_STEPS):
            engine.step()
            start = time.process_time_ns()
            after = engine.snapshot()
            assert not check_step(before, [as_event(event) for event in events], after)
            costs.append((time.process_time_ns() - start) / 1e3)
            before = after
            events.clear()
        runs.append(costs[2:])
    return [min(costs) for costs in zip(*runs, strict=True)]


def scenario_costs_us(name: str, model: LanguageModel) -> list[tuple[str, float]]:
    """Of each step of a bundled scenario, what happened in it and the least of all runs."""
    runs = []
    for _ in range(NUM_SCENARIO_RUNS):
        checker = TimedChecker()
        ScenarioRun(load_scenario(name), model, checker=checker).run()
        runs.append(checker.costs_us)
    least = [min(costs) for costs in zip(*runs, strict=True)]
    return list(zip(checker.kinds, least, strict=True))


def print_kinds(steps: list[tuple[str, float]]) -> None:
    for kind in ("all", "plain", "page turned", "comes or goes"):
        costs = [cost for other, cost in steps if kind in ("all", other)]
        if costs:
            print(
                f"    {len(costs):3} steps, {kind:13}: mean {statistics.fmean(costs):4.0f} us, "
                f"median {statistics.median(costs):4.0f}, max {max(costs):4.0f}"
            )


def main() -> None:
    shapes = {
        "64 pages of 16, 8 sequences": (64, 16, 8, 0),
        "64 pages of 8, 8 sequences with a common prefix of 56": (64, 8, 8, 56),
        "960 pages of 16, 64 sequences": (960, 16, 64, 0),
    }
    for label, shape in shapes.items():
        live, slow = live_costs_us(*shape), slow_costs_us(*shape)
        ratio = statistics.fmean(slow) / statistics.fmean(cost for _, cost in live)
        print(
            f"  {label}: the live check, {ratio:.1f} times as fast as snapshot and check_step "
            f"({statistics.fmean(slow):.0f} us)"
        )
        print_kinds(live)
    model = load_tiny()
    of_all: list[tuple[str, float]] = []
    for name in scenario_names():
        config = load_scenario(name).engine
        print(f"  scenario {name}, {config.num_pages} pages of {config.block_size}")
        steps = scenario_costs_us(name, model)
        print_kinds(steps)
        of_all += steps
    print("  all scenarios")
    print_kinds(of_all)


if __name__ == "__main__":
    main()
