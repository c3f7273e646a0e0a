"""What the board needs of a run, packed once for all sessions.

Invariant: what is recorded does not change, so neither does its packed text; Streamlit sends a text
that did not change as a short reference. Of a run that grows only the overview and the last chunk
are packed anew.
"""

from __future__ import annotations

import streamlit as st

from pagedviz.ui.runs import RecordedRun, RunKey
from pagedviz.views.frames import CHUNK_STEPS, chunk, encode, num_chunks
from pagedviz.views.overview import overview

# 5,000 steps of a busy run make some 80 chunks of about 100 kB.
_CHUNKS_KEPT = 256
_OVERVIEWS_KEPT = 64


def packed_overview(run: RecordedRun) -> str:
    return _packed_overview(run.key, run.version, run)


def packed_chunk(run: RecordedRun, number: int) -> str:
    """The nearest chunk there is."""
    last = num_chunks(run.trace) - 1
    number = max(0, min(number, last))
    size = min(CHUNK_STEPS, run.trace.num_steps - number * CHUNK_STEPS)
    return _packed_chunk(run.key, number, size, run)


def chunk_of(step: int) -> int:
    return step // CHUNK_STEPS


# Streamlit leaves parameters with an underscore out of the key. The run is handed over, because a
# run from a file is not to be had by its key.
@st.cache_resource(show_spinner=False, max_entries=_OVERVIEWS_KEPT)
def _packed_overview(key: RunKey, version: tuple[int, bool], _run: RecordedRun) -> str:
    return encode(overview(_run.trace, is_complete=not _run.is_growing))


@st.cache_resource(show_spinner=False, max_entries=_CHUNKS_KEPT)
def _packed_chunk(key: RunKey, number: int, size: int, _run: RecordedRun) -> str:
    return encode(chunk(_run.trace, number, _run.token_text))
