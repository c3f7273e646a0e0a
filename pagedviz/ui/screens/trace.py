"""The Trace screen: pass on the moment, keep the run on screen, open one from a file."""

from __future__ import annotations

from functools import partial
from urllib.parse import urlencode

import streamlit as st

from pagedviz.engine.errors import TraceFormatError
from pagedviz.engine.state_hash import format_state_hash
from pagedviz.model import ModelError
from pagedviz.trace.codec import about_bytes, dumps
from pagedviz.trace.costs import preemption_cost
from pagedviz.trace.trace import Trace
from pagedviz.ui import commands, session
from pagedviz.ui.board import board_assets
from pagedviz.ui.files import MAX_MEGABYTES, file_stem, open_trace
from pagedviz.ui.panel_drawing import draw_table
from pagedviz.ui.screen_frame import draw_frame
from pagedviz.ui.session import View
from pagedviz.ui.what_if_panel import branch_words
from pagedviz.views import export
from pagedviz.views.memory import memory_on_average, memory_sizes
from pagedviz.views.theme import Theme
from pagedviz.views.words import count

_UPLOAD = "trace file"
# Mail and chat programs are known to cut longer addresses.
_LONG_LINK = 2_000


def draw() -> None:
    draw_frame(_content)


def _content(view: View, theme: Theme) -> None:
    del theme
    facts, ways = st.columns(2, gap="medium")
    with facts:
        st.html(
            '<div class="panel"><h2>The run on screen</h2></div>'
            + draw_table(("", "is"), _facts(view))
        )
    with ways:
        _link(view)
        _save(view)
        _open()


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
        *_memory(trace),
        ("last state", _last_state(trace)),
        (
            "bookmarks",
            ", ".join(mark.name for mark in view.bookmarks)
            or "none: b on the Step screen names a moment",
        ),
    ]
    if view.run.key.is_branch:
        rows.append(("what is different", branch_words(view.run.key)))
    return rows


def _memory(trace: Trace) -> list[tuple[str, str]]:
    """A line for each amount; those of the whole run are means over its steps."""
    sizes = [(amount.name, amount) for amount in memory_sizes(trace)]
    means = [(f"{amount.name}, mean", amount) for amount in memory_on_average(trace)]
    return [
        (
            f"{name}{', estimate' if amount.is_estimate else ''}",
            f"{amount.value} = {amount.formula}",
        )
        for name, amount in sizes + means
    ]


def _last_state(trace: Trace) -> str:
    return format_state_hash(trace.state_hash(trace.num_steps - 1))


def _link(view: View) -> None:
    st.html('<div class="panel"><h2>A link to this moment</h2></div>')
    if view.run.key.file:
        st.caption("A file is on this screen only: save it below and pass it on, and say the step")
        return
    address = f"{(st.context.url or '').split('?')[0].rsplit('/', 1)[0]}/"
    link = f"{address}?{urlencode(session.moment_link())}"
    st.code(link, language=None, wrap_lines=True)
    hashed = format_state_hash(view.run.trace.state_hash(*view.moment))
    st.caption(
        f"Opens the state {hashed} on any machine that reaches this address, and says so if that "
        "machine computes another"
    )
    if len(link) > _LONG_LINK:
        st.caption(
            f"It has {len(link):,} characters, and some mail and chat programs cut an address "
            f"after {_LONG_LINK:,}: pass on a file instead"
        )


def _save(view: View) -> None:
    st.html('<div class="panel"><h2>Save the run on screen</h2></div>')
    run, stem = view.run, file_stem(view.run)
    marks = f" with {count(len(view.bookmarks), 'bookmark')}" if view.bookmarks else ""
    assets = board_assets()
    file, page = st.columns(2, gap="small")
    with file:
        st.download_button(
            "Save as a trace file",
            data=partial(dumps, run.trace, view.bookmarks),
            file_name=f"{stem}.jsonl",
            mime="application/jsonl",
            on_click="ignore",
            width="stretch",
        )
        st.caption(
            f"Every event{marks}, about {_roughly(about_bytes(run.trace))} of JSON lines: opens "
            "here, and `pagedviz check` proves it"
        )
    with page:
        st.download_button(
            "Save as one HTML file",
            data=partial(
                export.export_html,
                run.trace,
                run.token_text,
                run.scenario.title,
                assets,
                view.moment,
                [mark._asdict() for mark in view.bookmarks],
                run.hints,
            ),
            file_name=f"{stem}-step-{view.moment.step}.html",
            mime="text/html",
            on_click="ignore",
            width="stretch",
        )
        st.caption(
            f"The board itself{marks}, about {_roughly(export.about_bytes(run.trace, assets))}: "
            f"opens at step {view.moment.step} in any browser, with no server and no network"
        )


def _roughly(num_bytes: int) -> str:
    """Two digits of an estimate."""
    megabytes = float(f"{num_bytes / 1e6:.2g}")
    return f"{megabytes:g} MB" if megabytes >= 1 else f"{1000 * megabytes:g} kB"


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
        commands.open_file(open_trace(file.name, file.getvalue()))
    except (TraceFormatError, ModelError) as error:
        commands.refuse(f"Not opened: {error}")
