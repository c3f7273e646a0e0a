"""Random programs of submit, fork, step and abort over small pools, every setting varied: no rule
is broken (the live check and the slow one agree), no page is lost, and the tokens are those of a
computation that knows no pages.

200 programs, 5,000 under PAGEDVIZ_SOAK=1; the same ones every time. They come in blocks with a seed
each, so that the processes of a run share them.
"""

from __future__ import annotations

import pytest
from hypothesis import seed, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    rule,
    run_state_machine_as_test,
)

from pagedviz.engine import EngineConfig, PagedVizError, SeqId
from pagedviz.engine.errors import ConfigError
from tests.conftest import SOAK
from tests.engine.kit import ChainModel, CheckedEngine


def tokens(number: int) -> tuple[int, ...]:
    """Tokens 0, 1, 2 from one drawn number (bijective base 3): 0 is none, 1 to 3 are one token,
    4 to 12 two, and so on."""
    digits = []
    while number > 0:
        number, digit = divmod(number - 1, 3)
        digits.append(digit)
    return tuple(digits)


# Few tokens and few prefixes, so that prompts share pages, diverge, and meet again.
PREFIXES = ((), (0, 0, 0, 0), (0, 0, 0, 0, 1, 1, 1, 1), (0, 1, 2, 0, 1, 2, 0, 1, 2, 0))

CONFIGS = st.builds(
    EngineConfig,
    num_pages=st.integers(3, 12),
    block_size=st.integers(1, 5),
    max_running=st.sampled_from((1, 2, 4, 8)),
    max_tokens_per_step=st.sampled_from((1, 3, 6, 10, 20, 40)),
    prefix_caching=st.sampled_from((True, True, True, False)),
    full_prompt_gate=st.booleans(),
    watermark=st.sampled_from((0.0, 0.0, 0.1, 0.3, 0.6)),
    chunk_size=st.none() | st.integers(1, 6),
    max_seq_len=st.none() | st.integers(3, 20),
    preemption=st.sampled_from(("recompute", "swap", "abort")),
    host_pages=st.sampled_from((1, 3, 40)),
    profile=st.sampled_from(("vllm", "vllm", "nano_vllm")),
)
REQUEST = st.tuples(
    st.sampled_from(PREFIXES),
    st.integers(0, 3**7).map(tokens),
    st.integers(1, 3**5).map(tokens) | st.integers(3**9, 3**13).map(tokens),
    st.sampled_from((None, None, "a", "b")),
    st.sampled_from((1, 1, 1, 2, 3)),  # samples, or with a model perhaps beams
    st.booleans(),
)
Request = tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...], str | None, int, bool]


class EngineMachine(RuleBasedStateMachine):
    @initialize(config=CONFIGS, has_model=st.booleans())
    def start(self, config: EngineConfig, has_model: bool) -> None:
        self.model = ChainModel(max_seq_len=config.max_seq_len or 64) if has_model else None
        self.lab = CheckedEngine(config, self.model)
        self.expected: dict[SeqId, tuple[int, ...]] = {}
        """By request."""
        self.is_beam: dict[SeqId, bool] = {}

    # Several at once: a pool comes under pressure only when its owners grow together.
    @rule(requests=st.lists(REQUEST, min_size=1, max_size=4))
    def submit(self, requests: list[Request]) -> None:
        for prefix, rest, *others in requests:
            self.submit_one(prefix + rest, *others)

    def submit_one(
        self,
        prompt: tuple[int, ...],
        outputs: tuple[int, ...],
        adapter: str | None,
        num_forks: int,
        is_beam: bool,
    ) -> None:
        num_events = len(self.lab.events)
        has_model = self.model is not None
        num_samples = 1 if has_model and is_beam else num_forks
        try:
            seq_id = self.lab.engine.submit(
                prompt,
                max_new_tokens=len(outputs),
                forced_ids=None if has_model else outputs,
                adapter=adapter,
                num_samples=num_samples,
                beam_width=num_forks if has_model and is_beam else 1,
                forced_forks=() if has_model else [outputs] * (num_samples - 1),
            )
        except ConfigError:
            # Nothing hidden has changed either, or the next step would not fold.
            assert len(self.lab.events) == num_events
            return
        self.is_beam[seq_id] = has_model and is_beam and num_forks > 1
        room = (self.lab.engine.max_seq_len or 1000) - len(prompt)
        self.expected[seq_id] = (
            outputs[:room]
            if self.model is None
            else tuple(self.model.continuation(prompt, len(outputs), adapter))
        )

    @rule(count=st.integers(1, 6))
    def step(self, count: int) -> None:
        for _ in range(count):
            self.lab.step()

    @rule(data=st.data())
    def fork(self, data: st.DataObject) -> None:
        seq_id = self.draw_id(data)
        num_events = len(self.lab.events)
        forced = None
        if self.model is None and seq_id < len(self.lab.engine.sequences):
            done = self.lab.engine.sequences.get(seq_id).num_generated
            forced = self.expected[self.request_of(seq_id)][done:] + (0,) * 20
        try:
            self.lab.engine.fork(seq_id, forced_ids=forced)
        except PagedVizError:
            assert len(self.lab.events) == num_events

    def draw_id(self, data: st.DataObject) -> SeqId:
        last = len(self.lab.engine.sequences)
        return SeqId(data.draw(st.integers(0, last), label="seq_id"))

    def request_of(self, seq_id: int) -> SeqId:
        sequence = self.lab.engine.sequences.get(SeqId(seq_id))
        while sequence.parent_id is not None:
            sequence = self.lab.engine.sequences.get(sequence.parent_id)
        return sequence.id

    @rule(data=st.data())
    def abort(self, data: st.DataObject) -> None:
        seq_id = self.draw_id(data)
        num_events = len(self.lab.events)
        try:
            self.lab.engine.abort(seq_id)
        except PagedVizError:
            assert len(self.lab.events) == num_events

    @rule(data=st.data())
    def abort_everything_at_once(self, data: st.DataObject) -> None:
        if data.draw(st.integers(0, 9), label="one in ten") == 0:
            for sequence in self.lab.engine.snapshot().sequences:
                if self.lab.engine.sequences.get(SeqId(sequence.seq_id)).is_active:
                    self.lab.engine.abort(SeqId(sequence.seq_id))
            self.lab.step()
            self.lab.assert_all_is_free()

    def teardown(self) -> None:
        if not hasattr(self, "lab"):
            return
        self.lab.finish()
        self.lab.step()  # commands given after the last step
        self.lab.assert_all_is_free()
        assert self.lab.engine.host_pool.free_count == self.lab.engine.host_pool.num_pages
        for sequence in self.lab.after.sequences:
            generated = sequence.generated_ids
            request = self.request_of(sequence.seq_id)
            if self.is_beam[request]:
                continue  # its texts differ; that they are the right ones is shown elsewhere
            expected = self.expected[request]
            if sequence.finish_reason in ("aborted", "preempted"):
                assert generated == expected[: len(generated)]
            else:
                assert generated == expected


NUM_BLOCKS, PROGRAMS_A_BLOCK = (20, 250) if SOAK else (4, 50)


@pytest.mark.hypothesis
@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("block", range(NUM_BLOCKS))
def test_random_programs_break_no_rule(block: int) -> None:
    @seed(block)
    def machine() -> EngineMachine:
        return EngineMachine()

    run_state_machine_as_test(
        machine, settings=settings(max_examples=PROGRAMS_A_BLOCK, stateful_step_count=25)
    )
