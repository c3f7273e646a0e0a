"""A full server lets nobody in, and nobody out."""

from __future__ import annotations

from pathlib import Path

import pytest

from pagedviz.ui.visitors import Places, ServerFull
from tests.ui.test_screens import opened


def test_the_one_too_many_is_told_the_number_and_gets_in_when_a_place_is_free() -> None:
    places, gone = Places(), set[str]()

    def is_here(name: str) -> bool:
        return name not in gone

    for name in ("ann", "bob", "ann"):
        places.enter(name, 2, is_here)
    with pytest.raises(ServerFull, match=r"^All 2 places of this server are taken"):
        places.enter("cy", 2, is_here)
    places.enter("bob", 2, is_here)
    gone.add("ann")
    places.enter("cy", 2, is_here)
    with pytest.raises(ServerFull):
        places.enter("ann", 2, is_here)


def test_limits_that_make_no_sense_are_a_sentence_on_the_page(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("PAGEDVIZ_SESSIONS", "many")
    app = opened("step")
    assert [error.value for error in app.error] == [
        "PAGEDVIZ_SESSIONS must be a whole number from 1 to 1000000, got 'many'"
    ]


def test_no_address_opens_a_file_of_the_server(tmp_path: Path) -> None:
    mine = tmp_path / "mine.toml"
    bundled = Path(__file__).resolve().parents[2] / "pagedviz" / "scenarios"
    mine.write_bytes(next(bundled.rglob("growing.toml")).read_bytes())
    for path in (str(mine), "/etc/passwd", "../growing.toml", f"file://{mine}", "growing.toml"):
        app = opened("step", scenario=path)
        assert "there is no scenario" in app.warning[0].value.replace("\\", "")
        assert app.session_state["view"].run.key.scenario == "growing"
