"""The Break it screen: a real fault, what its user sees, which rule finds it, and the wrong lines.

Invariant: everything shown was run here, on a healthy and on a faulty engine; the run on screen
elsewhere is left as it is.
"""

from __future__ import annotations

from html import escape

import streamlit as st

from pagedviz.engine.errors import PagedVizError
from pagedviz.faults import FAULTS, Fault, Source, UnknownFault, find_fault, source_of
from pagedviz.model import ModelError
from pagedviz.ui import commands, session
from pagedviz.ui.examinations import examined
from pagedviz.ui.fault_drawing import (
    draw_answers,
    draw_case,
    draw_life,
    draw_rules,
    draw_steps,
)
from pagedviz.ui.markdown import plain
from pagedviz.ui.screen_frame import draw_frame_without_run
from pagedviz.ui.selection import WORKLOADS
from pagedviz.ui.session import View

_WORKLOAD_NAMES = {"words": "Bundled model", "books": "Smallest case"}


def draw() -> None:
    draw_frame_without_run(_choices, _content)


def _choices(view: View) -> None:
    names = [fault.name for fault in FAULTS]
    session.set_field("fault", _fault(view).name)
    st.selectbox(
        "Fault",
        names,
        format_func=_label,
        key="fault",
        on_change=_fault_chosen,
        label_visibility="collapsed",
        width=430,
    )
    session.set_field("workload", view.looking.workload)
    st.radio(
        "Workload",
        WORKLOADS,
        format_func=_WORKLOAD_NAMES.__getitem__,
        key="workload",
        on_change=_workload_chosen,
        horizontal=True,
        label_visibility="collapsed",
        width="content",
    )


def _label(name: str) -> str:
    fault = find_fault(name)
    return f"{fault.number}. {fault.title}"


def _fault(view: View) -> Fault:
    """The one that was chosen; the first if there is none of that name, and the visitor is told."""
    chosen = view.looking.fault
    try:
        return FAULTS[0] if chosen is None else find_fault(chosen)
    except UnknownFault as error:
        view.looking.fault = None
        sentence = f"The first fault is shown: {error}"
        commands.refuse(sentence)
        return FAULTS[0]


def _fault_chosen() -> None:
    session.view().looking.fault = session.field("fault")
    commands.dismiss()


def _workload_chosen() -> None:
    session.view().looking.workload = session.field("workload")


def _content(view: View) -> None:
    # Emptied before the two runs are made, or what is said of another fault could be pressed.
    with st.empty(), st.container():
        _examined(view, _fault(view))


def _examined(view: View, fault: Fault) -> None:
    st.html(draw_case(fault))
    try:
        examination = examined(fault.name, view.looking.workload)
    except (PagedVizError, ModelError) as error:
        st.html('<div class="panel"><p>Nothing was run, so there is nothing to compare</p></div>')
        st.error(plain(f"The fault cannot be shown without its run: {error}"))
        return
    st.html(draw_answers(examination))
    st.html(draw_rules(examination))
    if view.looking.workload == "words":
        st.button(
            "Step through it on the board",
            key="to the board",
            on_click=commands.open_fault,
            args=(fault.name, (examination.damage or 0) - 1),
            help="The faulty engine on the Step screen; Compare sets the healthy one beside it",
        )
    st.html(draw_steps(examination))
    st.html(draw_life(examination))
    _lines(fault)


def _lines(fault: Fault) -> None:
    st.html(f'<div class="panel part"><h2>The lines: {escape(fault.is_right)}</h2></div>')
    wrong, right = st.columns(2, gap="medium")
    with wrong:
        _listing("Wrong", source_of(fault.part))
    with right:
        for method in fault.right:
            _listing("Right", source_of(method))


def _listing(word: str, source: Source) -> None:
    st.html(f'<div class="panel"><h3>{word}: {source.file}, line {source.line}</h3></div>')
    st.code(source.text.rstrip(), language="python", wrap_lines=True)
