"""The Compare screen: two runs of one workload, locked to the same step; of a fault's workload the
one with the fault and the one without."""

from __future__ import annotations

import streamlit as st

from pagedviz.engine.errors import PagedVizError
from pagedviz.engine.state_hash import format_state_hash
from pagedviz.model import ModelError
from pagedviz.trace.trace import Moment, Trace
from pagedviz.ui import commands
from pagedviz.ui.compare_drawing import (
    KIND_NAMES,
    draw_differences,
    draw_side,
    draw_strip,
    held_words,
)
from pagedviz.ui.compare_form import draw_compare_form
from pagedviz.ui.markdown import plain
from pagedviz.ui.marks import decorate
from pagedviz.ui.messages import in_form_words
from pagedviz.ui.pairs import Pair, compared, fault_pair, settings_back, settings_pair
from pagedviz.ui.panel_drawing import draw_table
from pagedviz.ui.panel_style import link_rules
from pagedviz.ui.pool_drawing import draw_pool
from pagedviz.ui.runs import RecordedRun, RunKey, recording_of
from pagedviz.ui.screen_frame import draw_frame, draw_step_bar
from pagedviz.ui.session import View
from pagedviz.ui.strip import draw_time_strip
from pagedviz.views.board import make_board, moment_sentence
from pagedviz.views.comparison import KINDS, Comparison
from pagedviz.views.comparison_rows import side_rows, totals
from pagedviz.views.theme import Theme, places
from pagedviz.views.words import count

_EVERY_SECONDS = 1.0


def draw() -> None:
    draw_frame(_content, has_moment=False)


def _content(view: View, theme: Theme) -> None:
    if view.run.key.file:
        st.html(
            '<div class="panel"><p>A run that comes from a file cannot be run with other settings: '
            "choose a scenario above to compare two runs of it</p></div>"
        )
        return
    try:
        pair = settings_pair(view) if view.run.key.is_scenario else fault_pair(view)
    except (PagedVizError, ModelError) as error:
        st.html('<div class="panel"><h2>There is no right run to compare with</h2></div>')
        st.warning(plain(in_form_words(str(error))))
        if view.run.key.is_scenario:
            draw_compare_form(view)
        return
    draw_pair(pair, view, theme)


def draw_pair(pair: Pair, view: View, theme: Theme) -> None:
    """Two runs, wherever they come from, at the step of the view."""
    comparison = compared(pair)
    last = max(0, comparison.num_steps - 1)
    step = min(view.moment.step + view.looking.past_end, last)
    name = f"{pair.left.key.short} {pair.right.key.short}"
    draw_step_bar(step, last, name, commands.go_compared, has_ends=True)
    _first_differences(comparison, pair, view)
    num_hues = len(theme.hues)
    longer = max((pair.left.trace, pair.right.trace), key=lambda trace: trace.num_steps)
    draw_time_strip(name, draw_strip(pair, comparison), step, last, commands.go_compared)
    st.html(draw_differences(comparison, pair.is_complete, step, places(longer.final), num_hues))
    _not_whole(pair, comparison)
    snapshots = [_at(run.trace, step) for run in (pair.left, pair.right)]
    rows = side_rows(*(run.trace.at(*m) for run, m in zip(_runs(pair), snapshots, strict=True)))
    st.html(link_rules(max(run.trace.header.num_pages for run in _runs(pair))))
    sides = zip(
        st.columns(2, gap="medium"),
        ("Left", "Right"),
        _runs(pair),
        (pair.left_words, pair.right_words),
        rows,
        strict=True,
    )
    for column, side, run, words, side_row in sides:
        with column:
            moment = _at(run.trace, step)
            board = make_board(run.trace, moment, run.token_text)
            said = decorate(_said(run, step), board.places, num_hues)
            state = format_state_hash(board.state_hash)
            held = held_words(run.trace, run.trace.at(*moment), board.pool.empty_slots)
            st.html(
                draw_side(side, words, state, said, side_row, num_hues, held)
                + f'<div class="poolmap compared"><section class="pool">'
                f"{draw_pool(board, num_hues)}</section></div>"
            )
    whole = "the whole runs" if pair.is_complete else "what is recorded of both runs"
    st.html(
        f'<div class="panel"><h2>Totals of {whole}</h2></div>'
        + draw_table(
            ("", "left", "right", "right \u2212 left"),
            totals(pair.left.trace, pair.right.trace),
            numbers=3,
        )
    )


def _runs(pair: Pair) -> tuple[RecordedRun, RecordedRun]:
    return pair.left, pair.right


def _at(trace: Trace, step: int) -> Moment:
    """The end of the step; a run that is over stays as it was."""
    return Moment(min(step, trace.num_steps - 1))


def _said(run: RecordedRun, step: int) -> str:
    last = run.trace.num_steps - 1
    if step > last:
        return f"This run was over after step {last} and stays as it was"
    return moment_sentence(run.trace, Moment(step), run.token_text)


def _first_differences(comparison: Comparison, pair: Pair, view: View) -> None:
    with st.container(horizontal=True, vertical_alignment="center", key="firsts"):
        for kind in KINDS:
            first = comparison.first(kind)
            if first is not None:
                st.button(
                    f"First difference in {KIND_NAMES[kind].lower()}: step {first.step}",
                    key=f"first {kind}",
                    on_click=commands.go_compared,
                    args=(first.step,),
                    help=plain(first.sentence),
                )
        if view.run.key.is_scenario:
            draw_compare_form(view)
        st.button(
            "Swap sides",
            key="swap sides",
            on_click=commands.swap_sides,
            args=(pair.right.key, settings_back(view)),
            help="The right run becomes the one on screen, on every screen",
        )


def _not_whole(pair: Pair, comparison: Comparison) -> None:
    """Why the comparison ends before the runs do, if so."""
    if pair.is_complete:
        return
    for side, run in (("left", pair.left), ("right", pair.right)):
        if run.ended:
            st.caption(plain(f"The {side} run: {run.ended}"))
    st.caption(f"Compared are the {count(comparison.num_steps, 'step')} that both runs have")
    if pair.right.is_growing:
        st.fragment(_wait_for, run_every=_EVERY_SECONDS)(pair.right.key)


def _wait_for(key: RunKey) -> None:
    recording = recording_of(key)
    if not recording.is_growing:
        st.rerun()
    st.caption(f"The right run is still being recorded: step {recording.num_steps - 1}")
