"""What if: change something from here on, and compare with what was.

Invariant: the form starts with what holds at the cursor, so that only what was touched is changed.
"""

from __future__ import annotations

import json
from collections.abc import Mapping

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from pagedviz.engine.config import EngineConfig
from pagedviz.scenarios import Change
from pagedviz.trace.changed_limits import settings_at
from pagedviz.trace.trace import Moment
from pagedviz.ui import commands, session
from pagedviz.ui.attention_panel import sequence_label
from pagedviz.ui.markdown import plain
from pagedviz.ui.runs import RecordedRun, RunKey
from pagedviz.ui.session import View
from pagedviz.ui.setup_fields import PREEMPTION_WORDS, PROFILE_WORDS
from pagedviz.views.theme import Theme

_NAMES = {
    "max_tokens_per_step": "tokens a step",
    "chunk_size": "chunk",
    "block_size": "slots a page",
    "num_pages": "pages",
    "prefix_caching": "prefix caching",
    "preemption": "when no page is left:",
    "host_pages": "host pages",
    "profile": "decides like",
}
_FIELDS = {
    "max_tokens_per_step": "budget",
    "chunk_size": "chunk",
    "block_size": "slots",
    "num_pages": "pages",
    "prefix_caching": "caching",
    "preemption": "preemption",
    "host_pages": "host",
    "profile": "profile",
}


def draw_what_if(view: View, theme: Theme, row: DeltaGenerator) -> None:
    """The form, or why nothing can be changed here."""
    del theme, row  # every panel is drawn alike
    run = view.run
    if run.key.file:
        st.caption("A trace from a file is only looked at: open a scenario to change something")
        return
    if not run.key.is_scenario:
        st.caption("The workload of a fault runs as it is: open a scenario to change something")
        return
    step = next_step(view.moment)
    settings = settings_at(run.trace.header, min(step, run.trace.num_steps - 1))
    if step >= run.trace.num_steps or settings is None:
        st.caption("The run ends here, nothing follows that could go another way: step back")
        return
    prefix = f"what if {run.key.short} {step}/"
    with st.form(f"{prefix}form"):
        st.markdown(f"**From step {step} on**, what would have been different with")
        _fields(view, settings, prefix)
        st.form_submit_button(
            f"Continue from step {step} with this", on_click=_submit, args=(run, step, prefix)
        )
        st.caption(
            "Budget, chunk, texts and aborts act on the running engine: everything before "
            f"step {step} stays as it was. Everything else is what the engine is put together "
            "from, so the run is repeated from step 0 with it; the tokens sampled before step "
            f"{step} are given, from there on the model samples again. The run on screen is kept."
        )


def next_step(moment: Moment) -> int:
    """The first step that a change at this moment can still reach."""
    return moment.step if moment.event == 0 else moment.step + 1


def _fields(view: View, settings: EngineConfig, prefix: str) -> None:
    snapshot = view.run.trace.at(*view.moment)
    now = st.columns(5, gap="small", vertical_alignment="bottom")
    with now[0]:
        st.number_input(
            "Tokens a step", value=settings.max_tokens_per_step, step=1, key=f"{prefix}budget"
        )
    with now[1]:
        st.number_input(
            "Chunk", value=settings.chunk_size, step=1, placeholder="no limit", key=f"{prefix}chunk"
        )
    with now[2]:
        st.number_input("Slots a page", value=settings.block_size, step=1, key=f"{prefix}slots")
    with now[3]:
        st.number_input("Pages in the pool", value=settings.num_pages, step=1, key=f"{prefix}pages")
    with now[4]:
        st.toggle("Prefix caching", value=settings.prefix_caching, key=f"{prefix}caching")
    preemption, host, profile = st.columns(3, gap="small", vertical_alignment="bottom")
    with preemption:
        _choice(
            "When no page is left", f"{prefix}preemption", PREEMPTION_WORDS, settings.preemption
        )
    with host:
        st.number_input(
            "Host pages",
            value=settings.host_pages,
            step=1,
            key=f"{prefix}host",
            help="Room for swapped-out pages; used by \u201cswap to the host\u201d only",
        )
    with profile:
        _choice("Decides like", f"{prefix}profile", PROFILE_WORDS, settings.profile)
    aborts, who, text = st.columns((2, 2, 4), gap="small")
    labels = {view.name: sequence_label(snapshot, view) for view in snapshot.sequences}
    active = [s.name for s in snapshot.sequences if s.finish_reason is None]
    with aborts:
        st.multiselect(
            "Abort",
            active,
            format_func=labels.__getitem__,
            key=f"{prefix}aborts",
            placeholder="nobody",
        )
    with who:
        st.selectbox(
            "Another text for",
            # Samples and beams go on from the text of their request.
            [view.name for view in snapshot.sequences if view.parent_id is None],
            index=None,
            format_func=labels.__getitem__,
            key=f"{prefix}who",
            placeholder="nobody",
        )
    with text:
        st.text_input("Its new text", key=f"{prefix}text", max_chars=2000)


def _choice(label: str, key: str, words: Mapping[str, str], value: str) -> None:
    """words: what each choice is called on screen."""
    choices = list(words)
    st.selectbox(label, choices, index=choices.index(value), format_func=words.__getitem__, key=key)


def _submit(run: RecordedRun, step: int, prefix: str) -> None:
    settings = settings_at(run.trace.header, step)
    assert settings is not None
    wanted = {name: session.field(f"{prefix}{field}") for name, field in _FIELDS.items()}
    changed = {key: value for key, value in wanted.items() if value != getattr(settings, key)}
    who, text = session.field(f"{prefix}who"), session.field(f"{prefix}text").strip()
    prompts = {who: text} if who is not None and text else {}
    commands.branch(Change(step, changed, tuple(session.field(f"{prefix}aborts")), prompts))


# ---- the branch on screen ----------------------------------------------------------------------


def draw_branch(view: View) -> None:
    """Of what the run on screen is a branch, and the way back; nothing if it is none."""
    key = view.run.key
    if not key.is_branch:
        return
    st.button(
        f"Branch from step {json.loads(key.changes)[-1]['step']}: to its parent",
        key="to parent",
        type="tertiary",
        on_click=commands.to_parent,
        help=plain(f"What is different: {branch_words(key)}"),
    )


def branch_words(key: RunKey) -> str:
    """`chunk 8 from step 14, tom aborted at step 20`"""
    parts = []
    for item in json.loads(key.changes):
        step = item["step"]
        for name, value in item.get("settings", {}).items():
            parts.append(f"{_NAMES[name]} {_shown(value)} from step {step}")
        parts += [f"{name} aborted at step {step}" for name in item.get("aborts", ())]
        parts += [f"another text for {name} at step {step}" for name in item.get("prompts", ())]
    return ", ".join(parts)


def _shown(value: int | bool | str | None) -> str:
    if isinstance(value, bool):
        return "on" if value else "off"
    if isinstance(value, str):
        return {**PREEMPTION_WORDS, **PROFILE_WORDS}.get(value, value)
    return "no limit" if value is None else str(value)
