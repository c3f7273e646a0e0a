"""Two runs side by side: what differs, of which kind, and first in which step."""

from __future__ import annotations

import pytest

from pagedviz.engine.config import EngineConfig
from pagedviz.engine.events import Event, InvariantViolated, PageAllocated, TokenSampled
from pagedviz.model import LanguageModel, load_tiny
from pagedviz.scenarios import ScenarioRun, apply_settings, load_scenario, scenario_names
from pagedviz.trace.queries import occupancy
from pagedviz.trace.run_facts import run_facts
from pagedviz.trace.trace import StepRecord, Trace
from pagedviz.views.comparison import KINDS, Comparison, compare_runs
from pagedviz.views.comparison_rows import Cell, side_rows, totals
from tests.trace.runs import bookkeeping_run
from tests.views.runs import Request, record, tight, word

SETTINGS: tuple[dict[str, object], ...] = (
    {"block_size": 16, "prefix_caching": False, "chunk_size": 4},
    {"profile": "nano_vllm", "chunk_size": None},
    {"preemption": "swap", "host_pages": 64},
)


@pytest.fixture(scope="module")
def model() -> LanguageModel:
    return load_tiny()


def firsts(comparison: Comparison) -> dict[str, int]:
    found = {kind: comparison.first(kind) for kind in KINDS}
    return {kind: first.step for kind, first in found.items() if first is not None}


def roomy() -> Trace:
    """The run of `tight` with room for everybody."""
    return record(
        EngineConfig(num_pages=12, block_size=2, max_tokens_per_step=8),
        Request(0, [0, 1, 2], [3, 4, 5, 6, 7, 8]),
        Request(0, [5, 6, 7], [3, 4, 5, 6, 7, 8]),
        Request(1, [9, 8, 7], [1, 2, 3]),
    )


def halves(block_size: int) -> Trace:
    """Two requests with six tokens in common, the second a step later."""
    return record(
        EngineConfig(num_pages=8, block_size=block_size),
        Request(0, [0, 1, 2, 3, 4, 5, 6], [7, 8, 9]),
        Request(1, [0, 1, 2, 3, 4, 5, 9, 8], [7, 8]),
    )


def test_a_run_equals_itself() -> None:
    for seed in (1, 4, 9):
        comparison = compare_runs(bookkeeping_run(seed).trace, bookkeeping_run(seed).trace)
        assert firsts(comparison) == {}
        assert all(comparison.at(step) == () for step in range(comparison.num_steps))
    assert {total.difference for total in totals(tight(), tight())} == {"same"}


def test_pages_of_two_sizes_are_counted_and_the_first_step_of_each_kind_is_told() -> None:
    comparison = compare_runs(halves(2), halves(4))
    assert firsts(comparison) == {"decisions": 1, "pages": 0}
    assert [difference.sentence for difference in comparison.at(0)] == [
        "Step 0: 4 active and 0 cached pages of 2 slots with 1 empty slot in the left run, "
        "2 active and 0 cached pages of 4 slots with 1 empty slot in the right"
    ]
    assert comparison.at(1)[0].sentence == (
        "Step 1: seq:1 is admitted with 6 tokens from the prefix cache in the left run, 4 in the "
        "right; 1 more decision differs"
    )
    first = comparison.first("decisions")
    assert first is not None and first == comparison.at(1)[0]


def test_a_preemption_of_one_run_only_says_who_lost_what_for_whom() -> None:
    left, right = tight(), roomy()
    comparison = compare_runs(left, right)
    step = next(s for s, made in enumerate(run_facts(left).decisions) if made.preempted)
    ((name, event),) = run_facts(left).decisions[step].preempted.items()
    said = comparison.at(step)[0].sentence
    assert said.startswith(
        f"Step {step}: only the left run preempts: {name} lost {event.num_lost} computed tokens "
        f"for {event.by}"
    )
    mirrored = compare_runs(right, left).at(step)[0].sentence
    assert mirrored.startswith(f"Step {step}: only the right run preempts: {name} lost")
    assert "text" not in firsts(comparison)


def test_with_pages_of_one_size_other_pages_differ_even_if_as_many() -> None:
    left = record(
        EngineConfig(num_pages=8, block_size=4, prefix_caching=False),
        Request(0, [0, 1, 2], [3, 4]),
        Request(0, [5, 6, 7], [3, 4]),
        num_steps=1,
    )

    def swapped(event: Event) -> Event:
        """Each gets the other's page."""
        is_taken = isinstance(event, PageAllocated)
        return event._replace(page_id=1 - event.page_id) if is_taken else event

    right = Trace(
        left.header, [StepRecord(tuple(map(swapped, step.events))) for step in left.steps]
    )
    comparison = compare_runs(left, right)
    assert firsts(comparison) == {"pages": 0}
    assert comparison.at(0)[0].sentence == (
        "Step 0: as many pages, but seq:0 holds p0 in the left run, p1 in the right"
    )


def with_token(trace: Trace, place: int, token_id: int) -> Trace:
    """The run with another token sampled as number `place` of all."""
    seen, records = 0, []
    for step in trace.steps:
        events = []
        for event in step.events:
            if isinstance(event, TokenSampled):
                event = event._replace(token_id=token_id) if seen == place else event
                seen += 1
            events.append(event)
        records.append(StepRecord(tuple(events)))
    return Trace(trace.header, records)


def test_a_token_that_contradicts_is_told_with_both_texts() -> None:
    left = record(EngineConfig(num_pages=8, block_size=4), Request(0, [0, 1], [2, 3, 4]))
    right = with_token(left, 1, 7)
    comparison = compare_runs(left, right, word)
    assert firsts(comparison) == {"text": 1}
    assert comparison.steps("text") == (1,)
    assert comparison.at(1)[0].sentence == (
        "Step 1: token 1 of the answer of seq:0 is \u201ctime\u201d in the left run, "
        "\u201cshy\u201d in the right"
    )


def test_a_run_that_is_merely_later_says_nothing_different() -> None:
    def run(budget: int) -> Trace:
        return record(
            EngineConfig(num_pages=8, block_size=4, max_tokens_per_step=budget),
            Request(0, range(8), [7, 8, 9]),
        )

    comparison = compare_runs(run(64), run(2))
    assert comparison.num_steps == run(2).num_steps == 6
    assert set(firsts(comparison)) == {"decisions", "pages"}
    said = comparison.at(5)[0].sentence
    assert said.startswith("Step 5: only in the right run seq:0 finishes, at its full length")
    late = compare_runs(run(64), with_token(run(2), 0, 1), word)
    assert firsts(late)["text"] == 3, "the step in which both tokens are known"


def test_an_answer_that_was_given_up_ends_early_and_says_why() -> None:
    config = {"num_pages": 6, "block_size": 2, "max_tokens_per_step": 8}
    requests = [Request(0, [0, 1, 2], [3, 4, 5, 6, 7, 8]), Request(0, [5, 6, 7], [3, 4, 5, 6, 7])]
    left = record(EngineConfig(**config), *requests)  # type: ignore[arg-type]
    right = record(EngineConfig(**config, preemption="abort"), *requests)  # type: ignore[arg-type]
    first = compare_runs(left, right).first("text")
    assert first is not None
    assert "the answer of seq:1 ends after" in first.sentence
    assert "in the right run, for want of pages, and goes on in the other" in first.sentence


def test_rules_broken_in_one_run_only_are_told_with_how_many_more() -> None:
    def broken(*events: InvariantViolated) -> Trace:
        whole = tight()
        steps = [
            StepRecord((*whole.events(2), *events)) if s == 2 else r
            for s, r in enumerate(whole.steps)
        ]
        return Trace(whole.header, steps)

    two = InvariantViolated(2, "p0 has ref count 2, 1 page table holds it", 0)
    three = InvariantViolated(3, "p1 is listed twice", 1)
    comparison = compare_runs(broken(two, three), tight())
    assert firsts(comparison) == {"rules": 2} and comparison.steps("rules") == (2,)
    assert comparison.at(2)[0].sentence == (
        "Step 2: rule 2 is broken in the left run only: p0 has ref count 2, 1 page table holds it; "
        "1 more breach"
    )
    both = compare_runs(broken(two), broken(three, two)).at(2)[0].sentence
    assert both == "Step 2: broken are rule 2 in the left run, rules 3 and 2 in the right run"
    assert firsts(compare_runs(broken(two), broken(two._replace(page_id=1)))) == {}


def test_host_pages_are_pages_that_differ() -> None:
    config = {"num_pages": 6, "block_size": 2, "max_tokens_per_step": 8}
    requests = [Request(0, [0, 1, 2], [3, 4, 5, 6, 7, 8]), Request(0, [5, 6, 7], [3, 4, 5, 6, 7])]
    left = record(EngineConfig(**config), *requests)  # type: ignore[arg-type]
    swap = EngineConfig(**config, preemption="swap", host_pages=6)  # type: ignore[arg-type]
    right = record(swap, *requests)
    most = int(occupancy(right).host.max())
    assert most and any(
        f"and {most} host pages in the right" in d.sentence
        for step in range(right.num_steps)
        for d in compare_runs(left, right).at(step)
    )
    found = {total.name: total[1:] for total in totals(left, right)}
    assert found["most host pages at once"] == ("0", str(most), f"+{most}")


def test_only_what_both_have_is_compared_while_one_is_being_recorded() -> None:
    whole = tight()
    begun = Trace(whole.header, whole.steps[:4])
    comparison = compare_runs(whole, begun, is_complete=False)
    assert (comparison.num_steps, firsts(comparison)) == (4, {})
    assert comparison.at(7) == ()
    assert firsts(compare_runs(whole, begun))["decisions"] == 4
    nothing = compare_runs(whole, Trace(whole.header), is_complete=False)
    assert (nothing.num_steps, firsts(nothing)) == (0, {})


@pytest.mark.parametrize("name", scenario_names())
def test_texts_never_differ_under_any_healthy_setting(name: str, model: LanguageModel) -> None:
    """The oracle is the model: paging may not change what it says."""
    scenario = load_scenario(name)
    left = ScenarioRun(scenario, model, "tiny").run()
    for settings in SETTINGS:
        right = ScenarioRun(apply_settings(scenario, settings), model, "tiny").run()
        comparison = compare_runs(left, right)
        assert comparison.first("text") is None, settings
        answers = [
            {view.name: view.generated_ids for view in trace.final.sequences}
            for trace in (left, right)
        ]
        assert answers[0] == answers[1]


@pytest.mark.parametrize("seed", range(4))
def test_the_steps_found_agree_with_the_states_of_both_runs(seed: int) -> None:
    left = bookkeeping_run(seed).trace
    right = bookkeeping_run(seed, num_pages=20).trace
    comparison = compare_runs(left, right)
    held = [occupancy(trace) for trace in (left, right)]
    for step in range(comparison.num_steps):
        states = [trace.at(min(step, trace.num_steps - 1)) for trace in (left, right)]
        tables = [{v.name: v.page_ids for v in state.sequences if v.page_ids} for state in states]
        counts = [(int(h.cached[step]), int(h.waste[step])) for h in held]
        is_different = tables[0] != tables[1] or counts[0] != counts[1]
        assert (step in comparison.steps("pages")) == is_different, step


# ---- tables ------------------------------------------------------------------------------------


def test_rows_of_both_sides_stand_beside_each_other_and_mark_what_differs() -> None:
    left, right = halves(2), halves(4)
    first = side_rows(left.at(0), right.at(1))
    assert [[row.name for row in side] for side in first] == [["seq:0", "seq:1"]] * 2
    assert [row.place for row in first[0]] == [0, None]
    assert first[0][1].cells[0] == Cell("not arrived", True)
    rows = side_rows(left.at(1), right.at(1))
    assert rows[0][1].cells == (
        Cell("decoding", False),
        Cell("8", False),
        Cell("4", True),
        Cell("6", True),
    )
    assert [cell.text for cell in rows[1][1].cells] == ["decoding", "8", "2", "4"]


def test_totals_add_up() -> None:
    found = {total.name: total[1:] for total in totals(tight(), roomy())}
    num_left, num_right = tight().num_steps, roomy().num_steps
    assert found["steps"] == (
        str(num_left),
        str(num_right),
        f"\u2212{num_left - num_right}",
    )
    assert found["preemptions"][1] == "0"
    assert found["prompt tokens found in the prefix cache"][0] == "0.0 %"
    off = record(
        EngineConfig(num_pages=8, block_size=2, prefix_caching=False), Request(0, [1, 2, 3], [4])
    )
    rate = {total.name: total for total in totals(off, tight())}[
        "prompt tokens found in the prefix cache"
    ]
    assert (rate.left, rate.difference) == ("nothing looked up", "\u2014")
