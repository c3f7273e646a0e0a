"""Charts of a whole run: right numbers, axes that stay, states told apart without colour."""

from __future__ import annotations

import pytest

from pagedviz.trace.queries import occupancy, phases
from pagedviz.trace.trace import Moment
from pagedviz.views.board import make_board
from pagedviz.views.charts import cursor_share, occupancy_chart, occupancy_words, state_chart
from pagedviz.views.theme import DARK, LIGHT
from tests.views.runs import swapped, tight, word


def test_a_lane_shows_each_phase_at_its_steps_with_its_own_pattern() -> None:
    trace = tight()
    figure = state_chart(trace, LIGHT, 120)
    shown = {
        (text, base, base + length - 1, bar.marker.pattern.shape)
        for bar in figure.data
        for text, base, length in zip(bar.hovertext, bar.base, bar.x, strict=True)
    }
    patterns = {"waiting": "", "prefilling": "/", "decoding": "", "preempted": "x"}
    lanes = phases(trace)
    expected = {(lane, phase) for lane, seq_id in enumerate(lanes) for phase in lanes[seq_id]}
    for lane, phase in expected:
        words = f"{'ABC'[lane]} seq:{lane} {phase.state}, step {phase.first_step}"
        if phase.last_step > phase.first_step:
            words = words.replace("step ", "steps ") + f" to {phase.last_step}"
        drawn = (words, phase.first_step, phase.last_step, patterns.get(phase.state))
        assert (drawn in shown) == (phase.state != "finished"), drawn
    assert len(shown) == sum(phase.state != "finished" for _, phase in expected)
    assert {bar.width for bar in figure.data} == {0.65}
    assert any("C seq:2 preempted" in words for words, *_ in shown)


def test_the_pool_is_stacked_to_its_full_size_at_every_step() -> None:
    trace = tight()
    figure = occupancy_chart(trace, DARK, 120)
    areas = [trace_ for trace_ in figure.data if trace_.stackgroup == "pages"]
    for step in range(trace.num_steps):
        assert sum(area.y[step] for area in areas) == pytest.approx(trace.header.num_pages)
    used, empty = areas[0], areas[1]
    assert used.y[0] + empty.y[0] == occupancy(trace).active[0]
    assert len({area.fillpattern.shape for area in areas[:3]}) == 3


@pytest.mark.parametrize("draw", [state_chart, occupancy_chart])
def test_axes_are_those_of_the_run_and_cannot_be_moved(draw: object) -> None:
    trace = tight()
    figure = draw(trace, LIGHT, 120)  # type: ignore[operator]
    assert list(figure.layout.xaxis.range) == [0, trace.num_steps]
    assert figure.layout.xaxis.fixedrange and figure.layout.yaxis.fixedrange
    assert figure.layout.yaxis.range is not None
    assert figure.layout.uirevision == "run"
    # A template of Streamlit's size would be sent to every browser again with every figure.
    assert len(figure.to_json()) < 12_000


def test_the_cursor_moves_through_the_run_event_by_event() -> None:
    trace = tight()
    shares = [
        cursor_share(Moment(step, event), trace)
        for step in range(trace.num_steps)
        for event in range(trace.num_events(step) + 1)
    ]
    assert shares == sorted(shares)
    assert (shares[0], shares[-1]) == (0, 1)
    assert cursor_share(Moment(0), trace) == pytest.approx(1 / trace.num_steps)


def test_the_numbers_in_words_are_those_of_the_moment() -> None:
    trace = tight()
    pool = make_board(trace, Moment(2), word).pool
    assert occupancy_words(trace, Moment(2), pool) == (
        "6 active (2 empty slots), 0 cached, 0 free · contiguous: 10"
    )


def test_host_pages_have_a_band_of_their_own_in_runs_that_swap() -> None:
    trace = swapped()
    figure = occupancy_chart(trace, LIGHT, 120)
    (host,) = [line for line in figure.data if line.name == "host"]
    assert list(host.y) == [0, 0, 2, 2, 0, 0, 0]
    assert host.yaxis == "y2" and figure.layout.yaxis2.range[1] >= 4
    assert figure.layout.yaxis2.domain[1] < figure.layout.yaxis.domain[0]
    pool = make_board(trace, Moment(2), word).pool
    assert occupancy_words(trace, Moment(2), pool).endswith(" · host: 2 of 4 pages")
    assert "host" not in [line.name for line in occupancy_chart(tight(), LIGHT, 120).data]
