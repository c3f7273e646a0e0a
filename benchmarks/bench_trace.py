"""What a trace costs: seconds to seek, bytes on disk, time to write and read.

    python benchmarks/bench_trace.py [--steps 10000]

The run is a thrash: 64 pages for eight requests at a time that want more, caching on, no model
(forced tokens), a new request whenever one leaves.
"""

from __future__ import annotations

import argparse
import random
import resource
import statistics
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from pagedviz.engine.config import EngineConfig
from pagedviz.engine.engine import Engine
from pagedviz.trace.codec import dumps, loads
from pagedviz.trace.header import TraceHeader
from pagedviz.trace.queries import occupancy, phases
from pagedviz.trace.recorder import Recorder
from pagedviz.trace.trace import Trace

NUM_PAGES = 64
BLOCK_SIZE = 8
NUM_LIVE = 8


def record_thrash(num_steps: int, seed: int = 0) -> Trace:
    rng = random.Random(seed)
    config = EngineConfig(num_pages=NUM_PAGES, block_size=BLOCK_SIZE, max_tokens_per_step=64)
    recorder = Recorder(TraceHeader(NUM_PAGES, BLOCK_SIZE, settings=config))
    engine = Engine(config, emit=recorder.emit)
    shared = [rng.randrange(1024) for _ in range(2 * BLOCK_SIZE)]
    for _ in range(num_steps):
        while len(engine.scheduler.waiting) + len(engine.scheduler.running) < NUM_LIVE:
            prompt = [rng.randrange(1024) for _ in range(rng.randint(16, 64))]
            output = [rng.randrange(1024) for _ in range(rng.randint(48, 128))]
            start = shared if rng.random() < 0.5 else []
            engine.submit(start + prompt, max_new_tokens=len(output), forced_ids=output)
        engine.step()
        recorder.end_step()
    assert engine.snapshot() == recorder.trace.final
    return recorder.trace


def milliseconds(times: list[float]) -> str:
    ordered = sorted(times)
    return (
        f"median {statistics.median(times):6.2f} ms   p99 {ordered[len(ordered) * 99 // 100]:6.2f}"
        f" ms   max {ordered[-1]:6.2f} ms"
    )


def time_moments(trace: Trace, moments: list[tuple[int, int]], what: str) -> None:
    ask = trace.at if what == "seek" else trace.state_hash
    times = []
    for step, event in moments:
        start = time.perf_counter()
        ask(step, event)
        times.append((time.perf_counter() - start) * 1e3)
    print(f"{what:<12} {milliseconds(times)}   ({len(moments)} random moments)")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=10_000)
    num_steps = parser.parse_args().steps
    trace = record_thrash(num_steps)
    print(
        f"{trace}, {trace.total_events / num_steps:.1f} events a step, "
        f"{len(trace.final.sequences)} sequences"
    )

    start = time.perf_counter()
    data = dumps(trace)
    written = time.perf_counter()
    loaded = loads(data)
    read = time.perf_counter()
    print(
        f"on disk      {len(data) / num_steps:.1f} B a step   "
        f"{len(data) / trace.total_events:.1f} B an event   {len(data) / 1e6:.2f} MB"
    )
    print(f"write        {written - start:.2f} s   read (checked, indexed) {read - written:.2f} s")

    rng = random.Random(1)
    moments = []
    for _ in range(1_000):
        step = rng.randrange(num_steps)
        moments.append((step, rng.randrange(loaded.num_events(step) + 1)))
    time_moments(loaded, moments, "seek")
    time_moments(loaded, moments[:200], "state hash")
    for query in (occupancy, phases):
        start = time.perf_counter()
        query(loaded)
        print(f"{query.__name__:<12} {time.perf_counter() - start:.2f} s the first time")
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(f"memory       {peak:.0f} MB at the most (two traces, the file)")


if __name__ == "__main__":
    main()
