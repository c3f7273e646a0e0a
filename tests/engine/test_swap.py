"""Preemption policies: computed again, copied to the host and back, or given up."""

from __future__ import annotations

import pytest

from pagedviz.engine import EngineConfig, SamplingParams
from pagedviz.engine.errors import ConfigError
from pagedviz.engine.events import (
    SequenceAdmitted,
    SequenceFinished,
    SequencePreempted,
    SwappedIn,
    SwappedOut,
)
from pagedviz.scenarios import load_scenario
from tests.engine.kit import ChainModel, CheckedEngine, of_type


def pressed(preemption: str, host_pages: int = 0, **settings: object) -> CheckedEngine:
    """Two sequences of five tokens that grow to nine, in four pages of four slots: the second is
    preempted when the first needs its third page."""
    config = EngineConfig(
        num_pages=4,
        block_size=4,
        full_prompt_gate=False,
        preemption=preemption,
        host_pages=host_pages,
        **settings,  # type: ignore[arg-type]
    )
    lab = CheckedEngine(config, ChainModel())
    for first in (1, 2):
        lab.engine.submit(
            [first, 3, 1, 2, first], max_new_tokens=8, forced_ids=[1, 2, 3, 1, 2, 3, 1, 2]
        )
    return lab


def events_of(lab: CheckedEngine, kind: type) -> list:
    return [event for events in lab.all_events for event in of_type(events, kind)]


def test_a_victim_is_copied_to_the_host_and_back() -> None:
    lab = pressed("swap", host_pages=3)
    while not events_of(lab, SwappedOut):
        lab.step()
    assert events_of(lab, SequencePreempted) == [SequencePreempted(1, 0, 0)]
    assert events_of(lab, SwappedOut) == [SwappedOut(1, 8, (0, 1))]
    assert lab.after.sequence(1).num_swapped == 8
    assert lab.engine.host_pool.free_count == 1
    lab.finish()
    # The hashed first page was still there, so only the second was copied back.
    assert events_of(lab, SwappedIn) == [SwappedIn(1, 4, 4)]
    assert events_of(lab, SequenceAdmitted)[-1] == SequenceAdmitted(1, 4, 4)
    assert lab.engine.host_pool.free_count == 3
    lab.assert_all_is_free()


def test_without_caching_everything_comes_back_from_the_host() -> None:
    lab = pressed("swap", host_pages=3, prefix_caching=False)
    lab.finish()
    assert events_of(lab, SwappedIn) == [SwappedIn(1, 0, 8)]


def test_a_full_host_means_computing_again() -> None:
    lab = pressed("swap", host_pages=1)
    lab.finish()
    assert events_of(lab, SequencePreempted) == [SequencePreempted(1, 0, 8)]
    assert not events_of(lab, SwappedOut)
    assert lab.engine.host_pool.free_count == 1


def test_a_victim_that_is_given_up_is_finished_and_never_resumed() -> None:
    lab = pressed("abort")
    finished = []
    while lab.engine.has_unfinished:
        finished += lab.step().finished
    assert sorted(finished) == [0, 1]
    assert events_of(lab, SequenceFinished)[0] == SequenceFinished(1, "preempted")
    assert len(lab.after.sequence(1).generated_ids) < 8
    lab.assert_all_is_free()


def test_an_aborted_sequence_leaves_the_host_too() -> None:
    lab = pressed("swap", host_pages=3)
    while not events_of(lab, SwappedOut):
        lab.step()
    lab.engine.abort(lab.engine.scheduler.waiting[0].id)
    lab.step()
    assert lab.engine.host_pool.free_count == 3
    assert lab.after.sequence(1).host_page_ids == ()


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"preemption": "swap"}, "needs host_pages of at least 1, got 0"),
        ({"preemption": "drop"}, "one of recompute, swap, abort, got 'drop'"),
        ({"host_pages": -1}, "host_pages must be at least 0, got -1"),
    ],
)
def test_settings_that_make_no_sense_are_refused(settings: dict[str, object], says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        EngineConfig(num_pages=4, **settings)  # type: ignore[arg-type]
