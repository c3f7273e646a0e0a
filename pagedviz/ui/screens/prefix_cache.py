"""The Prefix cache screen: what can be found, and what each lookup found and why no more."""

from __future__ import annotations

import streamlit as st

from pagedviz.trace.costs import hit_rate
from pagedviz.trace.trace import Trace
from pagedviz.ui import commands, session
from pagedviz.ui.marks import decorate
from pagedviz.ui.panel_drawing import draw_sentence
from pagedviz.ui.prefix_drawing import draw_lookup, draw_tree
from pagedviz.ui.screen_frame import draw_frame
from pagedviz.ui.session import View
from pagedviz.views.lookup_view import Lookup, lookup_report, lookups
from pagedviz.views.prefix_tree import prefix_tree
from pagedviz.views.theme import Theme, letter, places


def draw() -> None:
    draw_frame(_content)


def _content(view: View, theme: Theme) -> None:
    trace = view.run.trace
    tree, lookup = st.columns(2, gap="medium")
    with tree:
        rows = prefix_tree(trace, view.moment, view.run.token_text)
        settings = trace.header.settings
        is_off = settings is not None and not settings.prefix_caching
        st.html(draw_tree(rows, len(theme.hues), is_off))
    with lookup:
        _lookups(view, theme)


def _lookups(view: View, theme: Theme) -> None:
    trace = view.run.trace
    found = lookups(trace)
    st.html(f'<div class="panel"><h2>Lookups of the whole run \u00b7 {_rate(trace)}</h2></div>')
    if not found:
        st.caption("Nobody has been looked up in this run: a request is when it may be admitted")
        return
    shown = _shown(view, found)
    key = f"lookup of {view.run.key.short}"
    session.set_field(key, shown)
    st.selectbox(
        "Lookup",
        range(len(found)),
        format_func=lambda i: _label(found[i]),
        key=key,
        on_change=_chosen,
        args=(key, found),
        label_visibility="collapsed",
    )
    report = lookup_report(trace, found[shown], view.run.token_text)
    said = decorate(report.sentence, places(trace.final), len(theme.hues))
    st.html(draw_sentence(said) + draw_lookup(report))
    if view.moment != found[shown].moment:
        st.caption("This is the last lookup up to the moment; choose another to go there")


def _shown(view: View, found: tuple[Lookup, ...]) -> int:
    """The last lookup up to the moment, or the first of all."""
    event = view.moment.event
    now = (view.moment.step, float("inf") if event is None else event)
    past = [i for i, lookup in enumerate(found) if _place(lookup) <= now]
    return past[-1] if past else 0


def _place(lookup: Lookup) -> tuple[int, float]:
    return lookup.moment.step, lookup.moment.event or 0


def _chosen(key: str, found: tuple[Lookup, ...]) -> None:
    commands.go(found[session.field(key)].moment)


def _label(lookup: Lookup) -> str:
    return (
        f"step {lookup.moment.step}: {letter(lookup.place)} {lookup.name}, "
        f"{lookup.num_found} of {lookup.num_tokens} tokens, {lookup.end}"
    )


def _rate(trace: Trace) -> str:
    rate = hit_rate(trace)
    if rate.rate is None:
        return "nothing was looked up"
    again = ""
    if rate.num_resumed_looked_up:
        again = (
            f"; after preemptions {rate.num_resumed_hit} of {rate.num_resumed_looked_up} "
            "were found again"
        )
    return (
        f"{rate.num_hit} of {rate.num_looked_up} prompt tokens found "
        f"({100 * rate.rate:.0f} %){again}"
    )
