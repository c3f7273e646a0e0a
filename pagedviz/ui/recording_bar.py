"""How far a run is recorded that is still being recorded, and a way to stop that.

Invariant: nothing of it is on screen, and no clock runs, when there is nothing to stop.
"""

from __future__ import annotations

import streamlit as st

from pagedviz.ui import commands
from pagedviz.ui.runs import RunKey, recording_of
from pagedviz.ui.session import View

_EVERY_SECONDS = 1.0


def draw_recording(view: View) -> None:
    """In the title row."""
    if not (view.run.is_growing or view.run.can_go_on):
        return
    with st.container(horizontal=True, vertical_alignment="center", width="content"):
        # Only the words are drawn again and again: a button must not go away under a press.
        if view.run.is_growing:
            st.fragment(_growing, run_every=_EVERY_SECONDS)(view.run.key)
            st.button("Stop", key="stop recording", type="tertiary", on_click=commands.stop_growing)
        else:
            st.caption(f"Recording was stopped at step {view.run.trace.num_steps - 1}")
            st.button(
                "Go on", key="go on recording", type="tertiary", on_click=commands.go_on_growing
            )


def _growing(key: RunKey) -> None:
    recording = recording_of(key)
    if not recording.is_growing:
        commands.catch_up()
        st.rerun()
    st.caption(f"Recording ahead: step {recording.num_steps - 1}")
