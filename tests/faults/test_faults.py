"""Each fault does its damage in a known step, is caught in that step by its own rule, and is shown
beside an engine that runs the same steps without it."""

from __future__ import annotations

from functools import cache

import pytest

from pagedviz.engine.block_manager import BlockManager
from pagedviz.engine.engine import Engine
from pagedviz.engine.profiles import PROFILES
from pagedviz.faults import (
    FAULTS,
    SCENARIOS,
    Examination,
    UnknownFault,
    examine,
    find_fault,
    overridden,
    page_life,
    source_of,
)
from pagedviz.faults.fault import Fault, broken_attention, broken_profile
from pagedviz.faults.play import Play
from pagedviz.model import load_tiny
from pagedviz.model.paged_attention import PagedAttention

# name: (step of the damage in books, in words, rules in books, in words)
CAUGHT: dict[str, tuple[int, int, set[int], set[int]]] = {
    "narrow-hash": (1, 4, {5}, {5, 8}),
    "refused-hit": (2, 8, {2}, {2}),
    "own-hit-evicted": (2, 5, {5, 2}, {5, 2, 8}),
    "stale-entry": (3, 3, {5}, {5, 8}),
    "wiped-hash": (1, 4, {9}, {9}),
    "whole-prompt-hit": (1, 4, {10}, {10}),
    "counted-first": (8, 24, {10}, {10}),
    "unwritten-slots": (0, 0, {11, 8}, {11, 8}),
    "doubled-token": (4, 24, {8}, {8}),
    "orphans": (2, 5, {12}, {12}),
    "shared-tail": (1, 1, {6}, {6, 8}),
    "freed-duplicate": (1, 1, {3}, {3}),
}
# The first words that differ on the bundled model: what the user is told, and should be told.
WORDS: dict[str, tuple[str, str, str]] = {
    "narrow-hash": ("lily", "green", "red"),
    "own-hit-evicted": ("lily again", "yellow", "red"),
    "stale-entry": ("lily again", "pink", "yellow"),
    "unwritten-slots": ("lily", "", "The"),
    "doubled-token": ("lily", "was", "red"),
    "shared-tail": ("lily", "red kite", "red."),
    "freed-duplicate": ("lily too", "grey", "red"),
}
# The rules that the engine's own check names in the step of the damage, in books and in words. It
# knows no rule 8, but a token that is doubled was never sampled, which breaks rule 10 as well.
LIVE: dict[str, set[int]] = {
    "narrow-hash": {5},
    "refused-hit": {2},
    "own-hit-evicted": {2, 5},
    "stale-entry": {5},
    "wiped-hash": {9},
    "whole-prompt-hit": {10},
    "counted-first": {10},
    "unwritten-slots": {11},
    "doubled-token": {10},
    "orphans": {12},
    "shared-tail": {6},
    "freed-duplicate": {3},
}
# It sees a lookup map that is wrong before a lookup goes wrong: in books, in words.
LIVE_BEFORE = {"stale-entry": (1, 2)}
RUNS = [(fault.name, scenario) for fault in FAULTS for scenario in SCENARIOS]


@cache
def examined(name: str, scenario: str) -> Examination:
    return examine(find_fault(name), scenario, load_tiny())


def by_name(fault: Fault) -> str:
    return fault.name


def test_there_are_twelve_faults_numbered_from_one() -> None:
    assert [fault.number for fault in FAULTS] == list(range(1, 13))
    assert len({fault.name for fault in FAULTS}) == len({fault.title for fault in FAULTS}) == 12
    assert list(CAUGHT) == [fault.name for fault in FAULTS]


@pytest.mark.parametrize(("name", "scenario"), RUNS)
def test_a_fault_is_caught_by_its_rules_in_the_step_of_the_damage(name: str, scenario: str) -> None:
    examination = examined(name, scenario)
    assert examination.caught is not None
    in_books = scenario == "books"
    damage, rules = CAUGHT[name][0 if in_books else 1], CAUGHT[name][2 if in_books else 3]
    assert examination.damage == examination.caught.number == damage
    assert rules <= set(examination.rules)
    assert set(examination.fault.rules_for(examination.faulty.workload)) <= rules
    assert examination.is_caught


@pytest.mark.parametrize(("name", "scenario"), RUNS)
def test_the_engines_own_check_names_the_rule_by_the_step_of_the_damage(
    name: str, scenario: str
) -> None:
    examination = examined(name, scenario)
    in_books = scenario == "books"
    damage = CAUGHT[name][0 if in_books else 1]
    assert examination.seen_live == LIVE_BEFORE.get(name, (damage, damage))[not in_books]
    assert LIVE[name] <= set(examination.live_rules)
    assert examination.is_caught_live


def test_faults_whose_step_raises_are_seen_live_before_the_error_ends_the_run() -> None:
    for name in ("whole-prompt-hit", "counted-first"):
        for scenario in SCENARIOS:
            last = examined(name, scenario).faulty.steps[-1]
            assert last.error is not None and [v.rule for v in last.live] == [10]


@pytest.mark.parametrize(("name", "scenario"), RUNS)
def test_without_the_fault_the_same_steps_break_nothing(name: str, scenario: str) -> None:
    healthy = examined(name, scenario).healthy
    assert not any(step.violations or step.live or step.error for step in healthy.steps)
    assert all(sequence.finish_reason for sequence in healthy.sequences)
    pages = healthy.steps[-1].after.pages
    assert not any(page.ref_count for page in pages)


@pytest.mark.parametrize("name", [fault.name for fault in FAULTS])
def test_until_the_damage_both_engines_do_the_same(name: str) -> None:
    examination = examined(name, "words")
    for step in range(CAUGHT[name][1]):
        healthy, faulty = examination.healthy.steps[step], examination.faulty.steps[step]
        assert healthy.after == faulty.after and healthy.memory == faulty.memory
        assert not faulty.violations


@pytest.mark.parametrize("name", list(WORDS))
def test_the_user_reads_a_wrong_word(name: str) -> None:
    asker, wrong, right = WORDS[name]
    difference = examined(name, "words").difference
    assert difference is not None and difference.name == asker
    wrong_words, right_words = difference.wrong.strip("'"), difference.right.strip("'")
    common = [a == b for a, b in zip(wrong_words.split(), right_words.split(), strict=False)]
    start = common.index(False) if False in common else 0
    told = " ".join(wrong_words.split()[start:]), " ".join(right_words.split()[start:])
    if name == "shared-tail":
        assert wrong in wrong_words and right in right_words
    else:
        assert told[0].startswith(wrong) and told[1].startswith(right)
        assert bool(told[0]) == bool(wrong)


@pytest.mark.parametrize(
    ("name", "wrong", "right"),
    [
        ("refused-hit", "no answer, it waits", "'It was Mia.'"),
        ("wiped-hash", "35 tokens computed", "11 tokens computed"),
        ("whole-prompt-hit", "the engine stops: seq:1 cannot start with 32", "'The kite was red'"),
        ("counted-first", "the engine stops: ", "'The kite was red. Who"),
        ("orphans", "'a have? Lily had a red kite.'", "'a have? Lily had', aborted"),
    ],
)
def test_the_user_waits_or_gets_nothing(name: str, wrong: str, right: str) -> None:
    difference = examined(name, "words").difference
    assert difference is not None
    assert difference.wrong.startswith(wrong) and difference.right.startswith(right)


# ---- one method each -------------------------------------------------------------------------


@pytest.mark.parametrize("fault", FAULTS, ids=by_name)
def test_a_fault_replaces_one_method_and_points_at_it(fault: Fault) -> None:
    [(owner, method)] = overridden(fault.part)
    own = [name for name in vars(fault.part) if not name.startswith("__")]
    assert own == [method]
    healthy = source_of(fault.right[0])
    assert fault.right[0].__qualname__ == f"{owner}.{method}"
    assert healthy.file.startswith(("pagedviz/engine/", "pagedviz/model/"))
    assert f"def {method}(" in healthy.text
    wrong = source_of(fault.part)
    assert wrong.file.startswith("pagedviz/faults/") and "rong: " in wrong.text


def test_no_two_faults_share_an_implementation() -> None:
    pairs = [pair for fault in FAULTS for pair in overridden(fault.part)]
    assert len(set(pairs)) == len(pairs) == 12


@pytest.mark.parametrize("fault", FAULTS, ids=by_name)
def test_a_faulty_engine_differs_in_one_part(fault: Fault) -> None:
    profile = fault.words.config.profile
    healthy = PROFILES[profile]
    broken = broken_profile(healthy, fault.part)
    changed = [b for a, b in zip(healthy, broken, strict=True) if a is not b]
    is_in_model = issubclass(fault.part, PagedAttention)
    assert changed == ([] if is_in_model else [fault.part])
    assert broken_attention(fault.part) is (fault.part if is_in_model else PagedAttention)


def test_the_shared_model_is_left_as_it_was() -> None:
    model = load_tiny()
    fault = find_fault("unwritten-slots")
    Play(fault.words, model, fault.part).run()
    assert model.attention is PagedAttention


def test_an_engine_takes_its_parts_from_the_profile_it_is_given() -> None:
    class Mine(BlockManager):
        pass

    config = find_fault("1").books.config
    profile = PROFILES["vllm"]._replace(block_manager=Mine)
    assert isinstance(Engine(config, profile=profile).block_manager, Mine)
    assert type(Engine(config).block_manager) is BlockManager


# ---- names and pages -------------------------------------------------------------------------


def test_a_fault_is_found_by_name_or_number() -> None:
    assert find_fault("orphans") is find_fault("10") is FAULTS[9]
    for name in ("", "0", "13", "orphan", "x" * 500):
        with pytest.raises(
            UnknownFault, match=r"there is no fault '.*; there are narrow-hash"
        ) as e:
            find_fault(name)
        assert len(str(e.value)) < 400


def test_the_life_of_a_page_tells_how_it_came_under_another_parent() -> None:
    examination = examined("stale-entry", "books")
    kinds = [
        (moment.step, type(moment.event).__name__)
        for moment in page_life(examination.faulty, 1, last_step=3)
    ]
    assert (
        kinds
        == [
            (0, "PageAllocated"),
            (0, "PageHashed"),
            (0, "SlotsWritten"),
            (0, "PageReleased"),
            (1, "PageEvicted"),
            (1, "PageAllocated"),
            (1, "PageHashed"),
            (1, "SlotsWritten"),
            (1, "PageReleased"),
            (3, "PrefixLookedUp"),
            (3, "PageShared"),
            (3, "SlotsWritten"),
        ][: len(kinds)]
    )
    assert kinds[-1] == (3, "PageShared")
