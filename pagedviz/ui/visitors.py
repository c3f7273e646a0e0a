"""How many people a server lets in at a time.

Invariants: whoever is in stays in; a place is free again when its browser has gone, which is looked
at only when somebody new needs one.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from threading import Lock

import streamlit as st
from streamlit.runtime.scriptrunner import get_script_run_ctx

from pagedviz.engine.errors import PagedVizError
from pagedviz.ui.server_limits import limits


class ServerFull(PagedVizError):
    def __init__(self, most: int) -> None:
        super().__init__(
            f"All {most} places of this server are taken: wait until somebody closes the page, "
            "then reload this one"
        )


@dataclass
class Places:
    """Who is in, by the name of the session."""

    inside: set[str] = field(default_factory=set)
    lock: Lock = field(default_factory=Lock)

    def enter(self, name: str, most: int, is_here: Callable[[str], bool]) -> None:
        """ServerFull if `most` others are in. is_here: whether a session still has a browser."""
        with self.lock:
            if name not in self.inside and len(self.inside) >= most:
                self.inside = {other for other in self.inside if is_here(other)}
                if len(self.inside) >= most:
                    raise ServerFull(most)
            self.inside.add(name)


def enter() -> None:
    """Let this visitor in. ServerFull; LimitsError if the server's limits make no sense."""
    most = limits().sessions
    context = get_script_run_ctx()
    if most is not None and context is not None:
        _places().enter(context.session_id, most, st.runtime.get_instance().is_active_session)


@st.cache_resource(show_spinner=False)
def _places() -> Places:
    return Places()
