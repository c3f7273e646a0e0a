"""A call that raises has changed nothing, for every error of the engine."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from pagedviz.engine import (
    BlockManager,
    BlockManagerConfig,
    Engine,
    EngineConfig,
    KvPageConfig,
    KvPagePool,
    PageId,
    SamplingParams,
    SeqId,
    Sequence,
    SequenceManager,
    SharedPrefixCache,
    errors,
)
from pagedviz.engine.events import Emitted
from tests.engine.kit import ChainModel

KV = np.ones((2, 4), dtype=np.float32)  # [num_heads, head_dim]


class World:
    """seq:1 holds p0 and p1 of four (both findable) and p2 with one token; seq:2 shares p0, seq:3
    has been registered. Nothing is left of the limits: 3 sequences, 3 pages each, 4 in all."""

    def __init__(self) -> None:
        page_config = KvPageConfig(block_size=2, num_heads=2, head_dim=4)
        self.pool = KvPagePool(4, page_config)
        self.cache = SharedPrefixCache(2)
        self.events: list[Emitted] = []
        self.manager = BlockManager(
            self.pool, BlockManagerConfig(3, 3), self.cache, self.events.append
        )
        self.sequences = SequenceManager(self.manager)
        for number, tokens, computed in ((1, [1, 2, 3, 4, 5], 5), (2, [1, 2, 9, 9, 9], 3)):
            sequence = Sequence(SeqId(number), tokens)
            sequence.chain = chain = self.cache.chain(sequence.token_ids, None)
            assert chain is not None
            self.sequences.add(sequence)
            self.manager.reserve(SeqId(number), computed, self.cache.walk(chain, computed))
            self.manager.hash_pages([(SeqId(number), computed)])
        self.sequences.add(Sequence(SeqId(3), [7]))
        for page_id, fill in ((0, 2), (1, 2), (2, 1), (3, 1)):
            for slot in range(fill):
                self.pool.get_page(page_id).write_kv(slot, KV * slot, KV * page_id)
        assert self.manager.sequence_page_chain(SeqId(1)) == (0, 1, 2)
        assert self.manager.sequence_page_chain(SeqId(2)) == (0, 3)

    def picture(self) -> Any:
        """All there is to know, as values."""
        pool, cache = self.pool, self.cache
        return (
            list(pool.queue),
            list(pool.ref_counts),
            list(pool.generations),
            list(pool.fills),
            pool.keys.tobytes(),
            pool.values.tobytes(),
            [(page_id, cache.hash_of(page_id), cache.tokens_of(page_id)) for page_id in range(4)],
            len(cache),
            self.manager.active_sequences,
            [
                (
                    sequence.id,
                    list(sequence.token_ids),
                    sequence.state,
                    list(self.manager.page_table(sequence.id).page_ids),
                    list(self.manager.page_table(sequence.id).generations),
                )
                for sequence in self.sequences
            ],
            list(self.events),
        )


def register_only(number: int) -> Sequence:
    return Sequence(SeqId(number), [1])


def write(
    world: World, number: int, position: int, key: Any, value: Any, *, layer: int = 0
) -> None:
    world.manager.write_token_kv(SeqId(number), position, key, value, layer)


def allocate_without_limits(world: World) -> None:
    """Under a second manager of the same pool, which has no limit of sequences."""
    manager = BlockManager(world.pool, BlockManagerConfig(None, None), world.cache)
    try:
        manager.allocate_sequence(SeqId(9))
    finally:
        assert manager.active_sequences == 0


def reserve_with_hits(world: World) -> None:
    chain = world.cache.chain([1, 2, 3, 4, 8], None)
    assert chain is not None
    hits = world.cache.walk(chain, 5)
    assert [entry.oldest_page for entry in hits] == [0, 1]
    world.manager.reserve(SeqId(3), 5, hits)


def free_twice(world: World) -> None:
    """In a pool of its own: all pages of the world have an owner."""
    pool = KvPagePool(2, KvPageConfig())
    pool.alloc_page()
    pool.free_page(0)
    before = (list(pool.queue), list(pool.ref_counts), list(pool.generations))
    try:
        pool.free_page(0)
    finally:
        assert (list(pool.queue), list(pool.ref_counts), list(pool.generations)) == before


BLOCK_MANAGER_CALLS: list[tuple[type[Exception], str, Callable[[World], object]]] = [
    (errors.OutOfPages, "alloc_page", lambda w: w.pool.alloc_page()),
    (errors.OutOfPages, "allocate_sequence", allocate_without_limits),
    (errors.OutOfPages, "extend_sequence", lambda w: w.manager.extend_sequence(SeqId(2))),
    (errors.OutOfPages, "reserve", lambda w: w.manager.reserve(SeqId(2), 5)),
    (errors.OutOfPages, "reserve with hits", reserve_with_hits),
    (errors.SequenceNotFound, "extend", lambda w: w.manager.extend_sequence(SeqId(9))),
    (errors.SequenceNotFound, "free", lambda w: w.manager.free_sequence(SeqId(9))),
    (errors.SequenceNotFound, "chain", lambda w: w.manager.sequence_page_chain(SeqId(9))),
    (errors.SequenceNotFound, "write", lambda w: w.manager.write_token_kv(SeqId(9), 0, KV, KV)),
    (errors.SequenceNotFound, "reserve", lambda w: w.manager.reserve(SeqId(9), 1)),
    (errors.SequenceNotFound, "release", lambda w: w.manager.release(SeqId(9))),
    (errors.SequenceNotFound, "unregister", lambda w: w.manager.unregister(SeqId(9))),
    (errors.SequenceNotFound, "page_table", lambda w: w.manager.page_table(SeqId(9))),
    (errors.SequenceNotFound, "pages_needed", lambda w: w.manager.pages_needed(SeqId(9), 1)),
    (errors.SequenceNotFound, "get", lambda w: w.sequences.get(SeqId(9))),
    (errors.SequenceNotFound, "remove", lambda w: w.sequences.remove(SeqId(9))),
    (errors.SequenceExists, "allocate", lambda w: w.manager.allocate_sequence(SeqId(1))),
    (errors.SequenceExists, "register", lambda w: w.manager.register(SeqId(1))),
    (errors.SequenceExists, "add", lambda w: w.sequences.add(register_only(1))),
    (errors.MaxSequencesExceeded, "allocate", lambda w: w.manager.allocate_sequence(SeqId(9))),
    (errors.MaxSequencesExceeded, "add", lambda w: w.sequences.add(register_only(9))),
    (errors.MaxPagesExceeded, "extend", lambda w: w.manager.extend_sequence(SeqId(1))),
    (errors.MaxPagesExceeded, "reserve", lambda w: w.manager.reserve(SeqId(2), 7)),
    (errors.KvShapeMismatch, "key", lambda w: write(w, 2, 3, KV[:1], KV)),
    (errors.KvShapeMismatch, "value", lambda w: write(w, 2, 3, KV, KV.T)),
    (errors.KvShapeMismatch, "page", lambda w: w.pool.get_page(3).write_kv(1, KV[:, :3], KV)),
    (errors.SlotOutOfRange, "hole", lambda w: w.pool.get_page(PageId(3)).write_kv(5, KV, KV)),
    (errors.SlotOutOfRange, "negative", lambda w: w.pool.get_page(3).write_kv(-1, KV, KV)),
    (errors.SlotOutOfRange, "layer", lambda w: write(w, 2, 3, KV, KV, layer=1)),
    (errors.SlotOutOfRange, "read", lambda w: w.pool.get_page(3).read_kv(1)),
    (errors.SlotOutOfRange, "resolve", lambda w: w.manager.page_table(SeqId(2)).resolve(4)),
    (errors.SlotOutOfRange, "empty", lambda w: w.manager.page_table(SeqId(3)).resolve(0)),
    (errors.PageOutOfBounds, "get_page", lambda w: w.pool.get_page(4)),
    (errors.PageOutOfBounds, "free_page", lambda w: w.pool.free_page(-1)),
    (errors.DoubleFree, "free_page", free_twice),
    (errors.PageIsHashed, "write", lambda w: write(w, 1, 3, KV, KV)),
    (errors.PositionGap, "write", lambda w: write(w, 2, 4, KV, KV)),
    (errors.PositionGap, "negative", lambda w: write(w, 2, -1, KV, KV)),
    (errors.ConfigError, "insert", lambda w: w.cache.insert([1, 2, 3], [PageId(3)])),
]


@pytest.mark.parametrize(
    ("error", "call"),
    [(error, call) for error, _, call in BLOCK_MANAGER_CALLS],
    ids=[f"{error.__name__}-{name}" for error, name, _ in BLOCK_MANAGER_CALLS],
)
def test_a_call_of_the_block_manager_that_raises_has_changed_nothing(
    error: type[Exception], call: Callable[[World], object]
) -> None:
    world = World()
    before = world.picture()
    with pytest.raises(error) as caught:
        call(world)
    assert type(caught.value) is error
    assert any(character.isdigit() for character in str(caught.value))
    assert world.picture() == before
    # And it still works: everything can be given back.
    for number in (1, 2, 3):
        world.sequences.remove(SeqId(number))
    assert world.pool.free_count == 4
    assert world.pool.ref_counts == [0, 0, 0, 0]


ENGINE_CALLS: list[tuple[type[Exception], str, str, Callable[[Engine], object]]] = [
    (errors.ConfigError, "empty prompt", "the prompt is empty", lambda e: submit(e, [])),
    (
        errors.ConfigError,
        "no output",
        "max_new_tokens must be at least 1, got 0",
        lambda e: e.submit([1], max_new_tokens=0, forced_ids=[]),
    ),
    (
        errors.ConfigError,
        "never fits",
        "needs up to 5 pages of 4 slots for 18 tokens, the pool has 4",
        lambda e: submit(e, [1] * 17),
    ),
    (
        errors.ConfigError,
        "longer than the context",
        "the prompt has 20 tokens, which leaves no room in a context of 20",
        lambda e: submit(e, [1] * 20),
    ),
    (
        errors.ConfigError,
        "token too large",
        "prompt: token 1 is 4294967296, allowed are 0 to 4294967295",
        lambda e: submit(e, [1, 1 << 32]),
    ),
    (errors.ConfigError, "token negative", "token 0 is -1", lambda e: submit(e, [-1])),
    (errors.ConfigError, "token of text", "token 0 is 'a'", lambda e: submit(e, ["a"])),
    (errors.ConfigError, "token of bool", "token 0 is True", lambda e: submit(e, [True])),
    (
        errors.ConfigError,
        "forced token",
        "forced output: token 0 is -5",
        lambda e: e.submit([1], max_new_tokens=1, forced_ids=[-5]),
    ),
    (
        errors.ConfigError,
        "too few forced",
        "all 3 output tokens must be given, got 2",
        lambda e: e.submit([1], max_new_tokens=3, forced_ids=[1, 2]),
    ),
    (errors.ConfigError, "none forced", "got 0", lambda e: e.submit([1], max_new_tokens=3)),
    (errors.SequenceNotFound, "abort", "seq:9", lambda e: e.abort(SeqId(9))),
    (errors.IllegalTransition, "abort", "seq:0 has finished", lambda e: e.abort(SeqId(0))),
]


def submit(engine: Engine, prompt: list[Any]) -> SeqId:
    return engine.submit(prompt, max_new_tokens=1, forced_ids=[0])


@pytest.mark.parametrize(
    ("error", "message", "call"),
    [(error, message, call) for error, _, message, call in ENGINE_CALLS],
    ids=[f"{error.__name__}-{name}" for error, name, _, _ in ENGINE_CALLS],
)
def test_a_call_of_the_engine_that_raises_has_changed_nothing(
    error: type[Exception], message: str, call: Callable[[Engine], object]
) -> None:
    events: list[Emitted] = []
    engine = Engine(EngineConfig(num_pages=4, block_size=4, max_seq_len=20), emit=events.append)
    submit(engine, [1, 2, 3])
    engine.step()
    engine.submit([1, 2, 3, 4, 5], max_new_tokens=3, forced_ids=[7, 8, 9])
    engine.step()
    before, num_events = engine.snapshot(), len(events)
    with pytest.raises(error, match=message):
        call(engine)
    assert engine.snapshot() == before
    assert len(events) == num_events
    assert submit(engine, [1]) == SeqId(2)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"num_pages": 0}, "num_pages must be at least 1, got 0"),
        ({"num_pages": 1 << 21}, "num_pages must be at most 1048576, got 2097152"),
        ({"num_pages": 2.0}, "num_pages must be a whole number, got 2.0"),
        ({"block_size": 0}, "block_size must be at least 1, got 0"),
        ({"block_size": True}, "block_size must be a whole number, got True"),
        ({"max_running": 0}, "max_running must be at least 1, got 0"),
        ({"max_tokens_per_step": 0}, "max_tokens_per_step must be at least 1, got 0"),
        ({"chunk_size": 0}, "chunk_size must be at least 1, got 0"),
        ({"max_seq_len": 1}, "max_seq_len must be at least 2, got 1"),
        ({"watermark": 1.0}, r"watermark must be in \[0, 1\), got 1.0"),
        ({"watermark": float("nan")}, "watermark must be in .*, got nan"),
        ({"watermark": "0"}, "watermark must be a number, got '0'"),
        ({"prefix_caching": 1}, "prefix_caching must be true or false, got 1"),
    ],
)
def test_a_setting_that_cannot_be_is_refused_with_its_value(
    changes: dict[str, Any], message: str
) -> None:
    settings: dict[str, Any] = {"num_pages": 4, **changes}
    with pytest.raises(errors.ConfigError, match=message):
        EngineConfig(**settings)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"temperature": -0.1}, r"temperature must be in \[0, 100\], got -0.1"),
        ({"temperature": float("inf")}, "got inf"),
        ({"top_p": 0}, "top_p must be in .*, got 0"),
        ({"top_p": 1.5}, "got 1.5"),
        ({"min_p": 2}, "min_p must be in .*, got 2"),
        ({"min_p": None}, "min_p must be a number, got None"),
        ({"top_k": 0}, "top_k must be at least 1, got 0"),
        ({"seed": -1}, "seed must be at least 0, got -1"),
        ({"stop_ids": (-1,)}, "a stop id must be at least 0, got -1"),
        ({"num_logprobs": 101}, "num_logprobs must be at most 100, got 101"),
    ],
)
def test_a_sampling_parameter_that_cannot_be_is_refused_with_its_value(
    changes: dict[str, Any], message: str
) -> None:
    with pytest.raises(errors.ConfigError, match=message):
        SamplingParams(**changes)


class BrokenModel(ChainModel):
    def forward(self, *arguments: Any, **options: Any) -> Any:
        raise ArithmeticError("the model broke")


def test_a_model_that_raises_marks_the_engine_as_failed_in_that_step() -> None:
    engine = Engine(EngineConfig(num_pages=4, block_size=4), BrokenModel())
    engine.submit([1, 2], max_new_tokens=3)
    with pytest.raises(ArithmeticError, match="the model broke"):
        engine.step()
    before = engine.snapshot()
    for call in (engine.step, lambda: engine.submit([1]), lambda: engine.abort(SeqId(0))):
        with pytest.raises(errors.EngineFailed, match="step 0 failed in the model"):
            call()
    assert engine.snapshot() == before


def test_every_error_of_the_engine_is_tried_here() -> None:
    tried = {error for error, *_ in BLOCK_MANAGER_CALLS + ENGINE_CALLS} | {errors.EngineFailed}
    # Raised by the checks, the trace and the scenarios; tested there.
    elsewhere = {
        "InvariantError",
        "TraceFormatError",
        "MomentNotFound",
        "ReplayDivergence",
        "ScenarioError",
    }
    defined = {
        name
        for name, value in vars(errors).items()
        if isinstance(value, type) and issubclass(value, errors.PagedVizError)
    }
    assert {error.__name__ for error in tried} == defined - elsewhere - {"PagedVizError"}
    assert all(name in (errors.__doc__ or "") for name in defined)
