"""One page in full: what lies in it, whose it is, its hash chain, its life, its keys and values."""

from __future__ import annotations

from functools import partial

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from pagedviz.engine.errors import PagedVizError
from pagedviz.engine.snapshot import Snapshot
from pagedviz.model import ModelError
from pagedviz.trace.trace import Moment
from pagedviz.ui import commands, session
from pagedviz.ui.figures import draw_figure
from pagedviz.ui.markdown import plain
from pagedviz.ui.panel_drawing import draw_page_card, draw_story
from pagedviz.ui.replays import replay_of
from pagedviz.ui.session import View
from pagedviz.views.board import moment_focus
from pagedviz.views.page_charts import kv_chart, norm_chart
from pagedviz.views.page_view import PageReport, page_report
from pagedviz.views.theme import Theme, places

_BIG = 64


def draw_page(view: View, theme: Theme, row: DeltaGenerator) -> None:
    """The page that was selected, or the one that the moment is about."""
    trace = view.run.trace
    snapshot = trace.at(*view.moment)
    page_id = chosen_page(view, snapshot)
    with row:
        _page_choice(view, snapshot, page_id)
    report = page_report(trace, view.moment, page_id, view.run.token_text)
    what, story = st.columns(2, gap="small")
    place_of = places(snapshot)
    with what:
        st.html(draw_page_card(report, len(theme.hues)))
    with story:
        st.html(draw_story(report, place_of, len(theme.hues)))
    with row:
        _go_choice(view, report)
    try:
        _tensors(view, theme, report, row)
    except (PagedVizError, ModelError) as error:
        st.info(plain(str(error)))


def chosen_page(view: View, snapshot: Snapshot) -> int:
    """The one that was selected, or the first that the event just past touched, or the first with
    an owner."""
    chosen = view.looking.page
    if chosen is not None and chosen < len(snapshot.pages):
        return chosen
    touched = moment_focus(view.run.trace, view.moment)
    candidates = [*sorted(page_id for page_id, _ in touched.slots), *sorted(touched.page_ids)]
    candidates += [page.page_id for page in snapshot.pages if page.state == "active"]
    return candidates[0] if candidates else 0


def _page_choice(view: View, snapshot: Snapshot, page_id: int) -> None:
    key = f"page of {view.run.key.short}"
    session.set_field(key, page_id)
    st.selectbox(
        "Page",
        range(len(snapshot.pages)),
        format_func=lambda i: f"{snapshot.pages[i].label}, {snapshot.pages[i].state}",
        key=key,
        on_change=_page_chosen,
        args=(key,),
        label_visibility="collapsed",
        width=200,
    )


def _page_chosen(key: str) -> None:
    session.view().looking.page = session.field(key)


def _go_choice(view: View, report: PageReport) -> None:
    """To a moment of its life; the story says what happened there."""
    moments = {f"step {m.step}, event {m.event}": m for m in _moments(report)}
    if not moments:
        return
    key = f"life of {view.run.key.short} {report.page_id}"
    session.set_field(key, None)
    st.selectbox(
        "Go to a moment of its life",
        list(moments),
        key=key,
        placeholder="Go to a moment of its life",
        on_change=_go_to,
        args=(report.page_id, key, moments),
        label_visibility="collapsed",
        width=240,
    )


def _moments(report: PageReport) -> list[Moment]:
    """The latest first."""
    return list(dict.fromkeys(line.moment for line in reversed(report.story)))


def _go_to(page_id: int, key: str, moments: dict[str, Moment]) -> None:
    moment = moments.get(session.field(key))
    if moment is None:
        return
    # The choice of page is kept: at another moment another page would be the one just touched.
    session.view().looking.page = page_id
    commands.go(moment)


def _tensors(view: View, theme: Theme, report: PageReport, row: DeltaGenerator) -> None:
    if not report.fill:
        st.caption(f"{report.label} holds no keys and values at this moment")
        return
    if not view.looking.shows_charts:
        st.caption("Keys and values are drawn when charts are on, on the Step screen")
        return
    size = view.run.trace.header.block_size
    tensors = replay_of(view.run, view.moment.step).page_tensors(view.moment, report.page_id)
    layer = min(view.looking.layer, len(tensors.keys) - 1)
    with row:
        _layer_choice(len(tensors.keys), layer)
    height = 60 + 15 * min(size, _BIG)
    keys, values, norms = st.columns((9, 9, 5), gap="small")
    for column, name, tensor in (
        (keys, "Keys", tensors.keys[layer]),
        (values, "Values", tensors.values[layer]),
    ):
        with column, st.container(border=True, gap=None):
            st.html(f'<div class="strip"><h2>{name} in layer {layer}, a row per slot</h2></div>')
            draw_figure(
                partial(kv_chart, tensor, name.lower()[:-1], size, theme, height),
                f"{name} {theme.name}",
                f"{name} in the slots of page {report.label}, layer {layer}",
                height,
            )
    with norms, st.container(border=True, gap=None):
        st.html('<div class="strip"><h2>Length: \u25cf key \u25c7 value</h2></div>')
        draw_figure(
            partial(norm_chart, tensors, layer, size, theme, height),
            f"norms {theme.name}",
            f"Length of keys and values in the slots of page {report.label}, layer {layer}",
            height,
        )


def _layer_choice(num_layers: int, layer: int) -> None:
    labels = [f"layer {i}" for i in range(num_layers)]
    session.set_field("layer of the page", labels[layer])
    st.selectbox(
        "Layer",
        labels,
        key="layer of the page",
        on_change=_layer_chosen,
        args=(labels,),
        label_visibility="collapsed",
        width=130,
    )


def _layer_chosen(labels: list[str]) -> None:
    session.view().looking.layer = labels.index(session.field("layer of the page"))
