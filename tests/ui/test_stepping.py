"""A moment that an address asks for is shown, or the nearest one with a sentence."""

from __future__ import annotations

from pagedviz.trace.trace import Moment
from pagedviz.ui.stepping import nearest
from tests.views.runs import tight


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
