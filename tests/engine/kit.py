"""What the engine's tests share: an engine that is checked from all sides at every step, by
the live check and by the slow one, and a model of one line whose tokens depend on every token
before."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from pagedviz.engine import Engine, EngineConfig, SeqId, Snapshot, StepOutcome
from pagedviz.engine.events import Emitted, Event, SequenceFinished, as_event
from pagedviz.engine.invariants import Violation, check_step
from pagedviz.engine.language_model import LanguageModel
from pagedviz.engine.live_checker import LiveChecker
from pagedviz.trace.reducer import Reducer

EventT = TypeVar("EventT")


class CheckedEngine:
    """After every step the folded events equal the engine's own snapshot, and no rule is broken."""

    def __init__(self, config: EngineConfig, model: LanguageModel | None = None) -> None:
        self.events: list[Emitted] = []
        """Since the last step."""
        self.all_events: list[list[Event]] = []
        """By step."""
        self.checker = LiveChecker()
        self.engine = Engine(config, model, self.events.append, self.checker)
        self.reducer = Reducer(config.num_pages, config.block_size)
        self.before = self.after = self.reducer.snapshot()

    def submit(
        self,
        prompt_ids: Sequence[int],
        output_ids: Sequence[int] = (0,),
        *,
        adapter: str | None = None,
        name: str | None = None,
    ) -> SeqId:
        return self.engine.submit(
            prompt_ids,
            max_new_tokens=len(output_ids),
            forced_ids=output_ids,
            adapter=adapter,
            name=name,
        )

    def step(self, *, may_stall: bool = False) -> StepOutcome:
        outcome = self.engine.step()
        self.before = self.after
        events = [as_event(emitted) for emitted in self.events]
        self.events.clear()
        self.all_events.append(events)
        for event in events:
            self.reducer.apply(event)
        self.reducer.end_step()
        self.after = self.reducer.snapshot()
        assert self.after == self.engine.snapshot()
        violations = check_step(
            self.before,
            events,
            self.after,
            reserves_prompts=self.engine.scheduler.reserves_prompts,
        )
        assert places(self.checker.violations) == places(violations)
        stalls = any(violation.rule == 7 for violation in violations)
        # An abort might have changed something, so the rule waits one step longer.
        assert stalls == (self.engine.is_stalled and not of_type(events, SequenceFinished))
        others = [violation for violation in violations if violation.rule != 7 or not may_stall]
        assert not others, "\n".join(map(str, others))
        return outcome

    def finish(self, limit: int = 3000) -> int:
        """Step until nothing is left to do; returns the number of steps."""
        for count in range(limit):
            if not self.engine.has_unfinished:
                return count
            self.step()
        raise AssertionError(f"{self.after.waiting} wait, {self.after.running} run, for ever")

    def assert_all_is_free(self) -> None:
        pages = self.after.pages
        assert sorted(self.after.free_queue) == list(range(len(pages)))
        assert {page.ref_count for page in pages} == {0}
        assert not self.after.running and not self.after.waiting
        assert not any(sequence.page_ids for sequence in self.after.sequences)


def places(violations: Sequence[Violation]) -> set[tuple[int, int | None, int | None]]:
    """Rule, page and sequence of each."""
    return {(v.rule, v.page_id, v.seq_id) for v in violations}


def table(snapshot: Snapshot, seq_id: int) -> list[int]:
    return list(snapshot.sequence(seq_id).page_ids)


def of_type(events: Sequence[Event], kind: type[EventT]) -> list[EventT]:
    return [event for event in events if isinstance(event, kind)]


class ChainModel:
    """A model whose key of a token is a digest of the whole prefix up to it and of the adapters it
    was computed under, read through the page table, and whose next token follows from that digest:
    one wrong, stale or missing slot anywhere changes all tokens after it. Digests are below 65,521,
    so float32 holds them exactly."""

    num_layers = 1
    num_kv_heads = 1
    head_dim = 1
    vocab_size = 5
    eos_token_ids: tuple[int, ...] = (4,)
    adapter_names = ("a", "b")

    def __init__(self, max_seq_len: int = 64) -> None:
        self.max_seq_len = max_seq_len

    def forward(
        self,
        token_ids: NDArray[np.int64],
        query_lens: Sequence[int],
        context_lens: Sequence[int],
        page_tables: Sequence[Sequence[int]],
        keys: NDArray[np.float32],
        values: NDArray[np.float32],
        *,
        adapter: str | None = None,
        reads: list[int] | None = None,
    ) -> NDArray[np.float32]:
        if reads is not None:
            reads += context_lens
        size = keys.shape[2]
        logits = np.zeros((len(query_lens), self.vocab_size), dtype=np.float32)  # [S, vocab]
        place = 0
        for row, (count, stop, pages) in enumerate(
            zip(query_lens, context_lens, page_tables, strict=True)
        ):
            for position in range(stop - count, stop):
                digest = 1
                if position:
                    page, slot = divmod(position - 1, size)
                    digest = int(keys[0, pages[page], slot, 0, 0])
                page, slot = divmod(position, size)
                keys[0, pages[page], slot] = next_digest(digest, int(token_ids[place]), adapter)
                place += 1
            page, slot = divmod(stop - 1, size)
            logits[row] = self.make_logits(int(keys[0, pages[page], slot, 0, 0]))
        return logits

    @staticmethod
    def make_logits(digest: int) -> NDArray[np.float32]:
        return np.eye(ChainModel.vocab_size, dtype=np.float32)[next_token(digest)]  # [vocab]

    def continuation(
        self, prompt_ids: Sequence[int], max_new_tokens: int, adapter: str | None = None
    ) -> list[int]:
        """The tokens a correct engine generates, computed without one."""
        digest = 1
        for token_id in prompt_ids:
            digest = next_digest(digest, token_id, adapter)
        generated: list[int] = []
        while len(generated) < min(max_new_tokens, self.max_seq_len - len(prompt_ids)):
            generated.append(next_token(digest))
            if generated[-1] in self.eos_token_ids:
                break
            digest = next_digest(digest, generated[-1], adapter)
        return generated


def next_digest(digest: int, token_id: int, adapter: str | None = None) -> int:
    changed = 0 if adapter is None else 101 * (1 + ChainModel.adapter_names.index(adapter))
    return (digest * 31 + token_id * 7 + 13 + changed) % 65_521


def next_token(digest: int) -> int:
    # Token 4, the end, is rarer than the others.
    return digest % 4 if digest % 13 else 4
