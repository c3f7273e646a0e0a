"""Small bookkeeping runs to record: tight pool, shared prefixes, aborts; random, repeatable."""

from __future__ import annotations

import random
from typing import NamedTuple

from pagedviz.engine.config import EngineConfig
from pagedviz.engine.engine import Engine
from pagedviz.engine.snapshot import Snapshot
from pagedviz.trace.header import KvShape, TraceHeader
from pagedviz.trace.recorder import Recorder
from pagedviz.trace.trace import Trace


class Run(NamedTuple):
    """The trace, and the engine's own snapshot after each step."""

    trace: Trace
    snapshots: list[Snapshot]


def bookkeeping_run(
    seed: int,
    num_steps: int = 60,
    num_pages: int = 14,
    block_size: int = 4,
    prefix_caching: bool = True,
    chunk_size: int | None = None,
    preemption: str = "recompute",
) -> Run:
    rng = random.Random(seed)
    config = EngineConfig(
        num_pages=num_pages,
        block_size=block_size,
        max_running=5,
        max_tokens_per_step=24,
        prefix_caching=prefix_caching,
        chunk_size=chunk_size,
        preemption=preemption,
        host_pages=6,
    )
    recorder = Recorder(
        TraceHeader(
            num_pages,
            block_size,
            producer="tests",
            settings=config,
            scenario="random",
            scenario_settings={"seed": seed, "prompts": ["ä", "b"], "temperature": 0.5},
            model="none",
            kv=KvShape(2, 2, 8, 4),
        )
    )
    engine = Engine(config, emit=recorder.emit)
    shared = [rng.randrange(50) for _ in range(2 * block_size)]
    snapshots: list[Snapshot] = []
    live: list[int] = []
    for _ in range(num_steps):
        if rng.random() < 0.3:
            start = shared if rng.random() < 0.6 else []
            prompt = start + [rng.randrange(50) for _ in range(rng.randint(1, 12))]
            output = [rng.randrange(50) for _ in range(rng.randint(1, 16))]
            num_samples = rng.choice((1, 1, 3))
            live.append(
                engine.submit(
                    prompt,
                    max_new_tokens=len(output),
                    forced_ids=output,
                    num_samples=num_samples,
                    forced_forks=[output[::-1]] * (num_samples - 1),
                )
            )
        if live and rng.random() < 0.04:
            seq_id = rng.choice(live)
            if engine.sequences.get(seq_id).is_active:
                engine.abort(seq_id)
        if engine.scheduler.running and rng.random() < 0.08:
            parent = rng.choice(engine.scheduler.running)
            if len(engine.scheduler.running) < config.max_running and parent.num_seats == 1:
                engine.fork(parent.id, forced_ids=[rng.randrange(50) for _ in range(20)])
        engine.step()
        snapshots.append(engine.snapshot())
        recorder.end_step({seq_id: [(seq_id + 7, -0.123456)] for seq_id in snapshots[-1].running})
    return Run(recorder.trace, snapshots)
