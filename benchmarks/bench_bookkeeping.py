"""Schedule + commit without a model: what the paging itself costs.

256 sequences with distinct 512-token prompts decode 256 tokens each, 16 slots a page, caching on.
They are in lockstep, so every 16th step all of them take a page at once: the worst case for the
maximum. Then the prefix cache alone: hashing a 512-token prompt, and re-hitting its freed pages.
"""

from __future__ import annotations

import gc
import random
import statistics
import time

from pagedviz.engine import (
    BlockManager,
    BlockManagerConfig,
    Engine,
    EngineConfig,
    KvPagePool,
    SeqId,
)
from pagedviz.engine.pages import KvPageConfig
from pagedviz.engine.prefix_cache import SharedPrefixCache
from pagedviz.engine.prefix_hash import PrefixChain
from pagedviz.trace.header import TraceHeader
from pagedviz.trace.recorder import Recorder

NUM_SEQUENCES, NUM_PROMPT, NUM_STEPS, BLOCK_SIZE = 256, 512, 256, 16


def decode_step_us(record: bool) -> list[float]:
    """Microseconds of each of 256 decode steps; `record` keeps every event in a trace."""
    rng = random.Random(1)
    config = EngineConfig(
        num_pages=NUM_SEQUENCES * (NUM_PROMPT + NUM_STEPS) // BLOCK_SIZE + 8,
        max_running=NUM_SEQUENCES,
        max_tokens_per_step=NUM_SEQUENCES * NUM_PROMPT,
    )
    recorder = Recorder(TraceHeader(config.num_pages, config.block_size))
    engine = Engine(config, emit=recorder.emit if record else None)
    for _ in range(NUM_SEQUENCES):
        prompt = [rng.randrange(32_000) for _ in range(NUM_PROMPT)]
        output = [rng.randrange(32_000) for _ in range(NUM_STEPS + 2)]
        engine.submit(prompt, max_new_tokens=len(output), forced_ids=output)
    engine.step()
    recorder.end_step()
    gc.collect()
    times = []
    for _ in range(NUM_STEPS):
        start = time.perf_counter()
        outcome = engine.step()
        if record:
            recorder.end_step()
        times.append((time.perf_counter() - start) * 1e6)
        assert len(outcome.sampled) == NUM_SEQUENCES
    return times


def hash_prompt_us(limit: int) -> list[float]:
    """Microseconds to hash one 512-token prompt with ids below `limit`, 1,000 times."""
    rng = random.Random(2)
    times = []
    for _ in range(1000):
        prompt = [rng.randrange(limit) for _ in range(NUM_PROMPT)]
        start = time.perf_counter()
        PrefixChain(prompt, BLOCK_SIZE).extend()
        times.append((time.perf_counter() - start) * 1e6)
    return times


def rehit_us() -> list[float]:
    """Microseconds to match, compare and take the 31 freed pages of a 512-token prompt."""
    rng = random.Random(3)
    prompt = [rng.randrange(32_000) for _ in range(NUM_PROMPT)]
    cache = SharedPrefixCache(BLOCK_SIZE)
    manager = BlockManager(
        KvPagePool(64, KvPageConfig(BLOCK_SIZE)), BlockManagerConfig(None, None), cache
    )
    times = []
    for i in range(1001):
        chain = PrefixChain(prompt, BLOCK_SIZE)
        chain.extend()
        manager.register(SeqId(i), chain)
        start = time.perf_counter()
        hits = cache.walk(chain, NUM_PROMPT)
        manager.reserve(SeqId(i), len(hits) * BLOCK_SIZE, hits)
        times.append((time.perf_counter() - start) * 1e6)
        manager.reserve(SeqId(i), NUM_PROMPT)
        manager.hash_pages([(SeqId(i), NUM_PROMPT)])
        manager.free_sequence(SeqId(i))
        assert len(hits) == (31 if i else 0)
    return times[1:]


def empty_loop_us() -> float:
    """The floor: a bare Python loop over the sequences with one attribute read and one append."""
    numbers, sink = [complex(i) for i in range(NUM_SEQUENCES)], []
    best = float("inf")
    for _ in range(200):
        start = time.perf_counter()
        for number in numbers:
            sink.append(number.real)
        best = min(best, time.perf_counter() - start)
    return best * 1e6


def main() -> None:
    floor = empty_loop_us()
    print(f"bookkeeping: {NUM_SEQUENCES} sequences, floor = bare loop over them {floor:.0f} us")
    for label, record in (("events off", False), ("every event recorded", True)):
        runs = [decode_step_us(record) for _ in range(3)]
        best = min(runs, key=statistics.fmean)
        mean, worst = statistics.fmean(best), max(best)
        print(
            f"  decode step, {label}: mean {mean:.0f} us, max {worst:.0f} us "
            f"({mean / floor:.1f} x floor; best of 3 runs of {NUM_STEPS} steps)"
        )
    for limit in (1 << 10, 1 << 15, 1 << 32):
        print(
            f"  hash a 512-token prompt, ids below {limit}: "
            f"median {statistics.median(hash_prompt_us(limit)):.0f} us"
        )
    print(f"  re-hit its 31 freed pages: median {statistics.median(rehit_us()):.0f} us")


if __name__ == "__main__":
    main()
