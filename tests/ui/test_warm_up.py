"""Before the first visitor comes, the server has done what he would wait for."""

from __future__ import annotations

from typing import NoReturn

import pytest

from pagedviz.engine.errors import PagedVizError
from pagedviz.scenarios import scenario_names
from pagedviz.ui import runs
from pagedviz.ui.runs import RunKey, recorded_run
from pagedviz.ui.warm_up import warm_up_all, warm_up_first


@pytest.fixture(autouse=True)
def _nothing_recorded() -> None:
    runs._original_recording.clear()


def _refuse(key: RunKey) -> NoReturn:
    raise PagedVizError(f"{key.scenario} would have to be recorded now")


def test_a_room_finds_every_scenario_recorded(monkeypatch: pytest.MonkeyPatch) -> None:
    warm_up_all()
    monkeypatch.setattr(runs, "_begin", _refuse)
    for name in scenario_names():
        assert recorded_run(RunKey(name)).trace.num_steps > 1


def test_one_visitor_finds_the_first(monkeypatch: pytest.MonkeyPatch) -> None:
    warm_up_first()
    monkeypatch.setattr(runs, "_begin", _refuse)
    first, second, *_ = scenario_names()
    assert recorded_run(RunKey(first)).trace.num_steps > 1
    with pytest.raises(PagedVizError):
        recorded_run(RunKey(second))


def test_what_cannot_be_run_does_not_keep_the_server_from_starting(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(runs, "_begin", _refuse)
    warm_up_all()
