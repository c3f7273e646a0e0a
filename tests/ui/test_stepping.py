"""Buttons and slider reach every moment of a run, forwards and backwards, and nothing else."""

from __future__ import annotations

from itertools import pairwise

import pytest

from pagedviz.engine.config import EngineConfig
from pagedviz.trace.trace import Moment, Trace
from pagedviz.ui.stepping import EventScale, nearest, targets
from tests.views.runs import Request, record, tight


@pytest.fixture(scope="module")
def gappy() -> Trace:
    """Nothing happens in steps 1 to 3."""
    return record(
        EngineConfig(num_pages=4, block_size=4),
        Request(0, [0, 1], [2]),
        Request(4, [0, 1], [2, 3]),
    )


def walk_on(trace: Trace, by_event: bool) -> list[Moment]:
    moments = [targets(trace, Moment(0), by_event).first]
    while (following := targets(trace, moments[-1], by_event).forward) is not None:
        moments.append(following)
        assert len(moments) < 1000
    return moments


def test_by_token_each_press_is_one_step(gappy: Trace) -> None:
    assert walk_on(gappy, by_event=False) == [Moment(step) for step in range(gappy.num_steps)]


def test_by_event_each_event_is_one_press_and_an_empty_step_too(gappy: Trace) -> None:
    walked = walk_on(gappy, by_event=True)
    assert walked[0] == Moment(0, 0)
    assert walked[1:] == [
        moment
        for step in range(gappy.num_steps)
        for moment in (
            [Moment(step, event) for event in range(1, gappy.num_events(step) + 1)]
            or [Moment(step)]
        )
    ]
    assert Moment(2) in walked


@pytest.mark.parametrize("by_event", [False, True])
def test_back_is_the_way_there_the_other_way_round(gappy: Trace, by_event: bool) -> None:
    for trace in (gappy, tight()):
        walked = walk_on(trace, by_event)
        for before, after in pairwise(walked):
            assert targets(trace, after, by_event).back == before
        assert targets(trace, walked[0], by_event).back is None
        assert targets(trace, walked[-1], by_event).last == Moment(trace.num_steps - 1)


def test_back_from_the_end_of_a_step_shows_its_last_event_first() -> None:
    trace = tight()
    assert targets(trace, Moment(2), by_event=True).back == Moment(2, trace.num_events(2))


def test_the_slider_has_a_place_for_every_moment_and_gives_it_back(gappy: Trace) -> None:
    for trace in (gappy, tight()):
        scale = EventScale(trace)
        walked = walk_on(trace, by_event=True)
        assert scale.last == len(walked) - 1
        assert [scale.moment(place) for place in range(scale.last + 1)] == walked
        assert [scale.place(moment) for moment in walked] == list(range(scale.last + 1))
        for step in range(trace.num_steps):
            last = trace.num_events(step)
            assert scale.place(Moment(step)) == scale.place(Moment(step, last or None))


def test_a_moment_that_is_not_there_becomes_the_nearest_with_a_sentence() -> None:
    trace = tight()
    assert nearest(trace, 3, 2) == (Moment(3, 2), None)
    assert nearest(trace, 3, None) == (Moment(3), None)
    assert nearest(trace, 99, 1) == (
        Moment(8),
        "step 99 is not recorded: this run has steps 0 to 8, the last is shown",
    )
    moment, problem = nearest(trace, 3, 99)
    assert moment == Moment(3)
    assert problem == "step 3 has no event 99: it has 10, its end is shown"
