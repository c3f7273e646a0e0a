"""Small bookkeeping runs with words for tokens, to draw and to talk about."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from pagedviz.engine.config import EngineConfig
from pagedviz.engine.engine import Engine
from pagedviz.trace.header import TraceHeader
from pagedviz.trace.recorder import Recorder
from pagedviz.trace.trace import Trace

TEXT = "Once upon a time there was a shy girl named Lily . She had red blue kite drum"
WORDS = TEXT.split()


def word(token_id: int) -> str:
    return f" {WORDS[token_id % len(WORDS)]}"


class Request(NamedTuple):
    """`prompt` and `output` are token ids."""

    arrival: int
    prompt: Iterable[int]
    output: Iterable[int]


def record(
    config: EngineConfig,
    *requests: Request,
    num_steps: int = 100,
    aborts: dict[int, int] | None = None,
) -> Trace:
    """Steps until all have finished. aborts: step -> number of the request to abort before it."""
    recorder = Recorder(TraceHeader(config.num_pages, config.block_size, settings=config))
    engine = Engine(config, emit=recorder.emit)
    pending = list(requests)
    seq_ids = []
    for step in range(num_steps):
        for request in [r for r in pending if r.arrival == step]:
            pending.remove(request)
            output = list(request.output)
            seq_ids.append(
                engine.submit(list(request.prompt), max_new_tokens=len(output), forced_ids=output)
            )
        if step in (aborts or {}):
            engine.abort(seq_ids[(aborts or {})[step]])
        engine.step()
        recorder.end_step()
        if not pending and not engine.has_unfinished:
            break
    return recorder.trace


def forked() -> Trace:
    """Two samples of a prompt of 6 tokens, pages of 4 slots: both write into its half-filled tail,
    so the first copies it; each computes 3 tokens more."""
    config = EngineConfig(num_pages=8, block_size=4)
    recorder = Recorder(TraceHeader(8, 4, settings=config))
    engine = Engine(config, emit=recorder.emit)
    engine.submit(
        [0, 1, 2, 3, 4, 5],
        max_new_tokens=3,
        forced_ids=[6, 7, 8],
        num_samples=2,
        forced_forks=[[9, 10, 11]],
    )
    while engine.has_unfinished:
        engine.step()
        recorder.end_step()
    return recorder.trace


def swapped() -> Trace:
    """Two sequences in a pool for one and a half: the second waits on the host meanwhile."""
    return record(
        EngineConfig(num_pages=5, block_size=2, preemption="swap", host_pages=4),
        Request(0, [0, 1, 2], [3, 4, 5, 6]),
        Request(0, [5, 6, 7], [3, 4, 5, 6]),
    )


def shared_start() -> Trace:
    """Two prompts that share a page and differ in the next; pages of 4 slots."""
    return record(
        EngineConfig(num_pages=8, block_size=4),
        Request(0, [0, 1, 2, 3, 4, 5, 6], [7, 8, 9]),
        Request(1, [0, 1, 2, 3, 4, 9, 6, 7, 8], [7, 8]),
    )


def tight() -> Trace:
    """Three sequences in a pool for two: preemption, resume, eviction."""
    return record(
        EngineConfig(num_pages=6, block_size=2, max_tokens_per_step=8),
        Request(0, [0, 1, 2], [3, 4, 5, 6, 7, 8]),
        Request(0, [5, 6, 7], [3, 4, 5, 6, 7, 8]),
        Request(1, [9, 8, 7], [1, 2, 3]),
    )
