"""Registers the board with Streamlit and speaks with it.

    Python -> browser   run, overview, chunk, go (absolute moment, numbered), hints, bookmarks
    browser -> Python   cursor (where it rests), want (a chunk), more (what follows the last step
                        recorded), bookmarks, watched, painted (once: the first board is there)

The board is a fragment of its own, so that a chunk costs nothing but a chunk; what concerns the
screen around it, named by `around`, draws that anew.

Invariants: messages carry absolute values, so that one that comes twice or late does no harm; what
comes from the browser is checked like an address is; nothing sent depends on the cursor, or every
rest would send the run again.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import streamlit as st

from pagedviz.ui import commands, session
from pagedviz.ui.board.packing import chunk_of, packed_chunk, packed_overview
from pagedviz.ui.packaged import register_packaged
from pagedviz.ui.session import View

ASSETS = Path(__file__).with_name("assets")
NAME = "pagedviz.board"
KEY = "board"


def board_assets() -> dict[str, str]:
    """File name -> text of the modules and the style sheet."""
    return {path.name: path.read_text(encoding="utf-8") for path in sorted(ASSETS.iterdir())}


def draw_board(around: str) -> None:
    """Place the board. It shows the view's moment when the run is new to it or `go_id` is.
    around: key of the fragment that follows where it rests."""
    st.fragment(_draw, key=KEY)(around)


def _draw(around: str) -> None:
    view = session.view()
    run = view.run
    _component()(
        key=KEY,
        data={
            "run": view.run_name,
            "overview": packed_overview(run),
            "chunk": packed_chunk(run, _wanted(view)),
            "go": {
                "id": view.go_id,
                "step": view.went_to.step,
                "event": view.went_to.event,
                "by_event": view.by_event,
            },
            "hints": run.hints,
            "bookmarks": [mark._asdict() for mark in view.bookmarks],
            "presenter": view.looking.presenter,
        },
        on_cursor_change=partial(_rested, around),
        on_want_change=_nothing,
        on_more_change=partial(_more, around),
        on_bookmarks_change=partial(_bookmarked, around),
        on_watched_change=partial(_watched, around),
        on_presenter_change=partial(_presented, around),
        on_painted_change=partial(_painted, around),
    )
    if session.said(KEY, "painted"):
        # Of a server that was started anew the browser has long had its board.
        session.meet_board()


def _component() -> Callable[..., Any]:
    """The component, known to the server that runs now."""
    register_packaged(NAME)
    return _registered()


@st.cache_resource(show_spinner=False)
def _registered() -> Callable[..., Any]:
    return st.components.v2.component(NAME, js="streamlit.js", css="board.css")


def _said(name: str, view: View) -> Mapping[str, Any] | None:
    """What the browser last said under a name, if it was about the run on screen."""
    said = session.said(KEY, name)
    if not isinstance(said, Mapping) or said.get("run") != view.run_name:
        return None
    return said


def _wanted(view: View) -> int:
    """The chunk that the browser last asked for."""
    found = [(0, chunk_of(view.went_to.step))]
    for name, key in (("want", "number"), ("more", "from")):
        said = _said(name, view) or {}
        asked, number = said.get("asked"), said.get(key)
        if isinstance(asked, int) and isinstance(number, int):
            found.append((asked, number if name == "want" else chunk_of(number)))
    return max(found)[1]


def _more(around: str) -> None:
    if said := _said("more", session.view()):
        commands.grow(said.get("from"))
        st.rerun(around)


def _rested(around: str) -> None:
    if said := _said("cursor", session.view()):
        commands.rest(said.get("step"), said.get("event"))
        st.rerun(around)


def _bookmarked(around: str) -> None:
    if said := _said("bookmarks", session.view()):
        commands.keep_bookmarks(said.get("bookmarks"))
        st.rerun(around)


def _watched(around: str) -> None:
    if said := _said("watched", session.view()):
        commands.watch(said.get("thing"))
        st.rerun(around)


def _presented(around: str) -> None:
    if said := _said("presenter", session.view()):
        session.view().looking.presenter = said.get("on") is True
        st.rerun(around)


def _painted(around: str) -> None:
    if session.is_board_awaited():
        session.meet_board()
        if session.view().looking.shows_charts:
            st.rerun(around)


def _nothing() -> None:
    """Said is enough: the next run of the script reads it."""
