"""The Trace screen: keep the run on screen, open one from a file, pass on the moment."""

from __future__ import annotations

from urllib.parse import urlencode

import streamlit as st

from pagedviz.engine.errors import TraceFormatError
from pagedviz.engine.state_hash import format_state_hash
from pagedviz.model import ModelError
from pagedviz.trace.codec import dumps
from pagedviz.trace.costs import preemption_cost
from pagedviz.trace.trace import Trace
from pagedviz.ui import session
from pagedviz.ui.files import MAX_MEGABYTES, open_trace
from pagedviz.ui.panel_drawing import draw_table
from pagedviz.ui.screen_frame import draw_frame
from pagedviz.ui.session import View
from pagedviz.ui.what_if_panel import branch_words
from pagedviz.views.theme import Theme

_UPLOAD = "trace file"


def draw() -> None:
    draw_frame(_content)


def _content(view: View, theme: Theme) -> None:
    del theme
    trace = view.run.trace
    keep, opened = st.columns(2, gap="medium")
    with keep:
        st.html(
            '<div class="panel"><h2>The run on screen</h2></div>'
            + draw_table(("", "is"), _facts(view))
        )
        st.download_button(
            "Save as a trace file",
            data=lambda: dumps(trace),
            file_name=f"{view.run.scenario.name}.jsonl",
            mime="application/jsonl",
            on_click="ignore",
            help="JSON lines with every event: any text editor reads it, pagedviz check proves it",
        )
    with opened:
        _open()
        _link(view)


def _facts(view: View) -> list[tuple[str, str]]:
    trace, header = view.run.trace, view.run.trace.header
    cost = preemption_cost(trace)
    rows = [
        ("recorded by", header.producer),
        ("scenario", header.scenario or "not told"),
        ("model", header.model or "none, or not told"),
        ("pool", f"{header.num_pages} pages of {header.block_size} slots"),
        ("length", f"{trace.num_steps} steps, {trace.total_events:,} events"),
        ("sequences", str(len(trace.final.sequences))),
        (
            "preemptions",
            f"{cost.num_preemptions}, {cost.num_recomputed} tokens computed again"
            if cost.num_preemptions
            else "none",
        ),
        ("last state", _last_state(trace)),
    ]
    if view.run.key.is_branch:
        rows.append(("what is different", branch_words(view.run.key)))
    return rows


def _last_state(trace: Trace) -> str:
    return format_state_hash(trace.state_hash(trace.num_steps - 1))


def _open() -> None:
    st.html('<div class="panel"><h2>Open a trace file</h2></div>')
    st.file_uploader(
        "A trace file (.jsonl), from here, from pagedviz run --out, or from another engine",
        type=["jsonl"],
        key=_UPLOAD,
        on_change=_opened,
        max_upload_size=MAX_MEGABYTES,
    )


def _opened() -> None:
    file = session.field(_UPLOAD)
    if file is None:
        return
    try:
        session.open_file(open_trace(file.name, file.getvalue()))
    except (TraceFormatError, ModelError) as error:
        session.refuse(f"Not opened: {error}")


def _link(view: View) -> None:
    st.html('<div class="panel"><h2>A link to this moment</h2></div>')
    if view.run.key.file:
        st.caption("A file is on this screen only: pass on the file, and say the step")
        return
    address = f"{(st.context.url or '').split('?')[0].rsplit('/', 1)[0]}/"
    st.code(f"{address}?{urlencode(session.moment_link())}", language=None, wrap_lines=True)
    hashed = format_state_hash(view.run.trace.state_hash(*view.moment))
    st.caption(f"Whoever opens it should see the state {hashed}: the same moment, bit for bit")
