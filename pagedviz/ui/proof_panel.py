"""Proof: are the logits that came through the pages those of a plain dense computation?

Invariants: the step at rest is computed again when somebody looks at it; the whole run is swept in
the background only while somebody looks.
"""

from __future__ import annotations

from html import escape

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from pagedviz.engine.errors import ConfigError
from pagedviz.trace.trace import Moment
from pagedviz.trace.truth import Truth
from pagedviz.ui import commands, session
from pagedviz.ui.panel_drawing import draw_table
from pagedviz.ui.replays import TooFar, approach_of, sweep_of, truths_of
from pagedviz.ui.runs import RunKey
from pagedviz.ui.session import View
from pagedviz.ui.sweeps import Swept
from pagedviz.views.theme import Theme
from pagedviz.views.words import count, sequence_name

_EVERY_SECONDS = 1.0
_HEADS = ("sequence", "tokens", "largest difference", "allowed", "top-2 margin", "rule 8")


def draw_proof(view: View, theme: Theme, row: DeltaGenerator) -> None:
    """The step at rest, and the whole run."""
    del theme, row  # every panel is drawn alike
    step = view.moment.step
    try:
        truths = truths_of(view.run, step)
    except TooFar:
        approach = approach_of(view.run, step)
        if approach.ended is not None:
            raise ConfigError(approach.ended) from None
        st.fragment(_on_the_way, run_every=_EVERY_SECONDS)(view.run.key, step)
        return
    names = {
        sequence.seq_id: sequence_name(sequence.seq_id, sequence.name)
        for sequence in view.run.trace.at(step).sequences
    }
    head = f"Step {step}: logits through the pages against a plain dense computation without any"
    if truths:
        table = draw_table(_HEADS, [_row(truth, names) for truth in truths], numbers=5)
    else:
        nothing = "This step computed nothing, so there is nothing to compare"
        table = f'<div class="panel"><p>{nothing}</p></div>'
    st.html(f'<div class="panel" data-testid="proof"><h2>{head}</h2></div>{table}')
    st.fragment(_sweep, run_every=_EVERY_SECONDS)(view.run.key, view.run.trace.num_steps)


def _on_the_way(key: RunKey, step: int) -> None:
    view = session.view()
    if view.run.key != key or view.moment.step != step:
        return  # the panel is about to be drawn anew
    approach = approach_of(view.run, step)
    if approach.is_done:
        st.rerun()
    st.html(
        f'<div class="panel" data-testid="proof"><h2>Step {step} is far from the start</h2><p>'
        "What its pages hold is computed again, in the background while somebody looks: "
        f"{count(approach.num_done, 'step')} of {step} done</p></div>"
    )


def _row(truth: Truth, names: dict[int, str]) -> tuple[str, ...]:
    return (
        names[truth.seq_id],
        str(truth.num_tokens),
        f"{truth.error:.2g}",
        f"{truth.tolerance:.2g}",
        f"{truth.margin:.3g}",
        "holds" if truth.is_ok else "broken",
    )


def _sweep(key: RunKey, num_steps: int) -> None:
    view = session.view()
    if view.run.key != key or view.run.trace.num_steps != num_steps:
        return  # the panel is about to be drawn anew
    swept = sweep_of(view.run)
    st.html(sweep_html(swept))
    worst = swept.broken or swept.largest
    if worst is not None:
        st.button(
            f"Go to step {worst.step}",
            key="worst step",
            type="tertiary",
            on_click=commands.go,
            args=(Moment(worst.step),),
        )


def sweep_html(swept: Swept) -> str:
    """How far the sweep is and what it has found."""
    if not swept.num_done:
        words = f"The whole run: comparing begins; {count(swept.num_steps, 'step')} to go"
    elif swept.num_done == swept.num_steps:
        words = f"All {count(swept.num_steps, 'step')} compared"
    else:
        words = f"Steps 0 to {swept.num_done - 1} of {swept.num_steps} compared"
    if swept.largest is not None and swept.smallest is not None:
        words += (
            f": largest difference {swept.largest.error:.2g} at step {swept.largest.step} (allowed "
            f"{swept.largest.tolerance:.2g}), smallest margin {swept.smallest.margin:.3g} at step "
            f"{swept.smallest.step}"
        )
    told = ""
    if swept.broken is not None:
        told = (
            f"<b>Rule 8 is broken</b>, first at step {swept.broken.step}: seq:"
            f"{swept.broken.seq_id:d} is off by {swept.broken.error:.2g}"
        )
    elif swept.num_done:
        so_far = "" if swept.num_done == swept.num_steps else " so far"
        told = f"Rule 8 holds{so_far}: {count(swept.num_compared, 'row')} of logits compared"
    ended = "" if swept.ended is None else f'<p class="quiet">{escape(swept.ended)}</p>'
    share = 100 * swept.num_done / max(swept.num_steps, 1)
    return (
        '<div class="panel part sweep" data-testid="sweep">'
        "<h3>The whole run, in the background</h3>"
        f'<div class="sweepbar" role="img" aria-label="{share:.0f} % of the steps compared">'
        f'<i style="width:{share:.1f}%"></i></div>'
        f"<p>{words}</p><p>{told}</p>{ended}</div>"
    )
