"""Chooses the right run of a comparison: other settings for the run on screen.

Invariants: nothing happens before Compare is pressed; only what is not as in the left run is handed
on.
"""

from __future__ import annotations

from typing import Any

import streamlit as st

from pagedviz.engine.config import PREEMPTIONS, PROFILE_NAMES, EngineConfig
from pagedviz.ui import commands, session
from pagedviz.ui.pairs import COMPARED, SETTING_WORDS, chosen_settings
from pagedviz.ui.session import View

_CHOICES = {"preemption": PREEMPTIONS, "profile": PROFILE_NAMES}


def draw_compare_form(view: View) -> None:
    """Behind a button, for the row it is drawn in."""
    values = _values(view.run.scenario.engine) | chosen_settings(view)
    # Fields keep what was typed until another pair is shown.
    prefix = f"compare {view.run.key.short} {sorted(chosen_settings(view).items())}/"
    with (
        st.popover("Change the right run", key=f"{prefix}popover"),
        st.form(f"{prefix}form", border=False),
    ):
        left, right = st.columns(2)
        for number, name in enumerate(COMPARED):
            with left if number % 2 == 0 else right:
                _field(f"{prefix}{name}", name, values[name])
        st.form_submit_button(
            "Compare", on_click=_submitted, args=(view.run.scenario.engine, prefix), width="stretch"
        )


def _values(engine: EngineConfig) -> dict[str, Any]:
    return {name: getattr(engine, name) for name in COMPARED}


def _field(key: str, name: str, value: Any) -> None:
    label = SETTING_WORDS[name]
    if name in _CHOICES:
        choices = _CHOICES[name]
        index = choices.index(value) if value in choices else 0
        st.selectbox(label, choices, index=index, key=key)
    elif name == "prefix_caching":
        st.selectbox(
            label,
            (True, False),
            index=0 if value else 1,
            format_func=lambda is_on: "on" if is_on else "off",
            key=key,
        )
    else:
        number = value if isinstance(value, int) else None
        empty = "no limit" if name == "chunk_size" else None
        st.number_input(label, value=number, step=1, key=key, placeholder=empty)


def _submitted(engine: EngineConfig, prefix: str) -> None:
    typed = {name: session.field(f"{prefix}{name}") for name in COMPARED}
    commands.compare_with(
        {name: value for name, value in typed.items() if value != getattr(engine, name)}
    )
