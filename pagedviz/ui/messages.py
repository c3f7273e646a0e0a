"""What the visitor has to be told, over the screen and not in it: nothing moves for a message.

Invariant: a message stays until it is closed or the next command; it is announced when it comes,
because Streamlit draws it as an alert.
"""

from __future__ import annotations

import re

import streamlit as st

from pagedviz.ui import commands
from pagedviz.ui.markdown import plain
from pagedviz.ui.session import View

FORM_WORDS = {
    "block_size": "Slots a page",
    "num_pages": "Pages in the pool",
    "max_tokens_per_step": "Tokens a step",
    "chunk_size": "Chunk",
    "prefix_caching": "Prefix caching",
    "max_new_tokens": "Max new tokens",
    "arrival_step": "Arrives at step",
    "host_pages": "Host pages",
    "num_samples": "Samples",
    "beam_width": "Beam width",
    "temperature": "Temperature",
}
"""What the engine calls a setting -> what the form in the sidebar does."""

_NAMES = re.compile(rf"\"?\b({'|'.join(FORM_WORDS)})\b\"?(?! in the address)")


def in_form_words(message: str) -> str:
    """A message with settings under the names that are on screen; in an address they have their
    own."""
    return _NAMES.sub(lambda found: f"\u201c{FORM_WORDS[found.group(1)]}\u201d", message)


def draw_messages(view: View) -> None:
    if not view.problems:
        return
    with st.container(key="messages"):
        for problem in view.problems:
            st.warning(plain(in_form_words(problem)))
        st.button("Close", key="close messages", on_click=commands.dismiss, type="tertiary")
