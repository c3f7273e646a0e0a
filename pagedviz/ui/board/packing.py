"""What the board needs of a run, packed once for all sessions.

Invariant: a run does not change, so neither does its packed text; Streamlit sends a text that did
not change as a short reference.
"""

from __future__ import annotations

from functools import lru_cache

from pagedviz.ui.runs import RecordedRun, RunKey, recorded_run
from pagedviz.views.frames import CHUNK_STEPS, chunk, encode, num_chunks
from pagedviz.views.overview import overview

# 5,000 steps of a busy run make some 80 chunks of about 100 kB.
_CHUNKS_KEPT = 256
_OVERVIEWS_KEPT = 64


def packed_overview(run: RecordedRun) -> str:
    return _packed_overview(run.key)


def packed_chunk(run: RecordedRun, number: int) -> str:
    """The nearest chunk there is."""
    last = num_chunks(run.trace) - 1
    return _packed_chunk(run.key, max(0, min(number, last)))


def chunk_of(step: int) -> int:
    return step // CHUNK_STEPS


@lru_cache(maxsize=_OVERVIEWS_KEPT)
def _packed_overview(key: RunKey) -> str:
    return encode(overview(recorded_run(key).trace))


@lru_cache(maxsize=_CHUNKS_KEPT)
def _packed_chunk(key: RunKey, number: int) -> str:
    run = recorded_run(key)
    return encode(chunk(run.trace, number, run.token_text))
