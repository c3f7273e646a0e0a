"""Sequence: one request, from its prompt to its last token.

Invariants: `token_ids` is prompt + generated; tokens below `num_computed` have their K/V in pages;
`state` is a label read off these facts, never stored beside them (sequence_state.py draws them).
"""

from __future__ import annotations

from collections.abc import Sequence as SequenceOf
from typing import TYPE_CHECKING

from pagedviz.engine.errors import IllegalTransition
from pagedviz.engine.ids import AdapterKey, SeqId
from pagedviz.engine.page_table import PageTable
from pagedviz.engine.prefix_hash import PrefixChain
from pagedviz.engine.sampling import SamplingParams
from pagedviz.engine.sequence_state import (
    Decoding,
    Finished,
    FinishReason,
    Preempted,
    Prefilling,
    SequenceState,
    Waiting,
)

if TYPE_CHECKING:  # a search holds sequences
    from pagedviz.engine.beams import BeamSearch


class Sequence:
    """The unit of work. Only the engine and its scheduler change it.

    script: prompt + output tokens given from outside: where it reaches, nothing is sampled.
    number: the id as a plain int. table: the block manager's own object. end_reasons: tokens that
    end the sequence. parent_id: what it was forked from. num_seats: running sequences that it will
    have become once its prompt is computed; fork_scripts: output tokens of the further ones. beams:
    the search it is a hypothesis of. num_swapped, host_page_ids: what waits on the host.
    """

    __slots__ = (
        "adapter_id",
        "beams",
        "chain",
        "end_reasons",
        "finish_reason",
        "fork_scripts",
        "host_page_ids",
        "id",
        "is_running",
        "max_new_tokens",
        "max_tokens",
        "name",
        "num_cached",
        "num_computed",
        "num_forks",
        "num_preemptions",
        "num_prompt_tokens",
        "num_seats",
        "num_swapped",
        "number",
        "parent_id",
        "sampling",
        "script",
        "table",
        "token_ids",
    )

    table: PageTable  # set when a sequence manager takes the sequence in

    def __init__(
        self,
        id: SeqId,
        prompt_ids: SequenceOf[int],
        sampling: SamplingParams | None = None,
        adapter_id: AdapterKey | None = None,
        max_new_tokens: int = 16,
        *,
        name: str | None = None,
        forced_ids: SequenceOf[int] | None = None,
        max_seq_len: int | None = None,
        eos_ids: frozenset[int] = frozenset(),
    ) -> None:
        self.id = id
        self.number = int(id)
        self.name = str(id) if name is None else name
        self.token_ids: list[int] = list(prompt_ids)
        self.num_prompt_tokens = len(self.token_ids)
        self.sampling = sampling or SamplingParams()
        self.adapter_id = adapter_id
        self.max_new_tokens = max_new_tokens
        self.max_tokens = self.num_prompt_tokens + max_new_tokens
        if max_seq_len is not None:
            self.max_tokens = min(self.max_tokens, max_seq_len)
        self.script = self.token_ids + list(forced_ids or ())
        self.end_reasons = dict.fromkeys(self.sampling.stop_ids, FinishReason.STOP)
        self.end_reasons |= dict.fromkeys(eos_ids, FinishReason.EOS)
        self.chain: PrefixChain | None = None
        self.num_computed = 0
        self.num_cached = 0
        self.num_preemptions = 0
        self.is_running = False
        self.finish_reason: FinishReason | None = None
        self.parent_id: SeqId | None = None
        self.num_seats = 1
        self.num_forks = 0
        self.fork_scripts: tuple[SequenceOf[int], ...] = ()
        self.beams: BeamSearch | None = None
        self.num_swapped: int | None = None
        self.host_page_ids: list[int] = []

    def fork(
        self,
        id: SeqId,
        sampling: SamplingParams | None = None,
        *,
        name: str | None = None,
        forced_ids: SequenceOf[int] | None = None,
    ) -> Sequence:
        """A sequence with the same tokens, of which the same are computed if this one runs.

        forced_ids: output tokens to come. IllegalTransition if this one has finished.
        """
        if not self.is_active:
            raise IllegalTransition(f"{self.id} has finished and cannot be forked")
        child = Sequence(
            id,
            self.token_ids,
            sampling or self.sampling,
            self.adapter_id,
            self.max_new_tokens,
            name=name,
            forced_ids=forced_ids,
        )
        child.num_prompt_tokens = self.num_prompt_tokens
        child.max_tokens = self.max_tokens
        child.end_reasons |= {
            token_id: reason
            for token_id, reason in self.end_reasons.items()
            if reason is FinishReason.EOS
        }
        child.parent_id = self.id
        child.is_running = self.is_running
        child.num_computed = self.num_computed
        child.chain = None if self.chain is None else self.chain.fork(child.token_ids)
        return child

    def __repr__(self) -> str:
        return f"<{self.id} {self.state.name} {self.num_computed}/{self.num_tokens}>"

    @property
    def prompt_ids(self) -> list[int]:
        return self.token_ids[: self.num_prompt_tokens]

    @property
    def generated_ids(self) -> list[int]:
        return self.token_ids[self.num_prompt_tokens :]

    @property
    def num_tokens(self) -> int:
        """Known tokens, computed or not."""
        return len(self.token_ids)

    @property
    def num_generated(self) -> int:
        return len(self.token_ids) - self.num_prompt_tokens

    @property
    def is_active(self) -> bool:
        return self.finish_reason is None

    @property
    def is_decoding(self) -> bool:
        """Running, and nothing left to compute but the token sampled last."""
        num_tokens = len(self.token_ids)
        newest = 1 if num_tokens > self.num_prompt_tokens else 0
        return self.is_running and self.num_computed >= num_tokens - newest

    @property
    def is_idle_beam(self) -> bool:
        """Running with nothing left to compute: it waits for the other beams of its search."""
        return self.beams is not None and self.num_computed == len(self.token_ids)

    @property
    def state(self) -> SequenceState:
        if self.finish_reason is not None:
            return Finished(self.finish_reason)
        if self.is_decoding:
            return Decoding()
        if self.is_running:
            return Prefilling(self.num_computed)
        return Preempted(self.num_generated) if self.num_preemptions else Waiting()

    @property
    def position(self) -> int:
        """Prompt + generated tokens while decoding or finished, computed tokens otherwise."""
        return self.num_tokens if self.is_decoding or not self.is_active else self.num_computed

    def admit(self, num_cached: int = 0, num_restored: int = 0) -> None:
        """Start running with `num_cached` tokens found in the prefix cache and `num_restored` after
        them copied back from the host. IllegalTransition."""
        num_ready = num_cached + num_restored
        if self.is_running or not self.is_active:
            raise IllegalTransition(f"{self.id} is {self.state.name} and cannot be admitted")
        if not 0 <= num_ready < self.num_tokens:
            raise IllegalTransition(
                f"{self.id} cannot start with {num_ready} cached tokens of {self.num_tokens}: "
                "at least one must be computed"
            )
        self.is_running = True
        self.num_cached = num_cached
        self.num_computed = num_ready

    def advance_prefill(self, chunk_len: int) -> None:
        """`chunk_len` more tokens have been computed. IllegalTransition outside prefill or past the
        end."""
        if not self.is_running or not self.is_active or self.is_decoding:
            raise IllegalTransition(f"{self.id} is {self.state.name}, not prefilling")
        if not 1 <= chunk_len <= self.num_tokens - self.num_computed:
            raise IllegalTransition(
                f"{self.id} cannot advance by {chunk_len} tokens: "
                f"{self.num_computed} of {self.num_tokens} are computed"
            )
        self.num_computed += chunk_len

    def push_token(self, token_id: int, eos_token_id: int | None = None) -> bool:
        """Append a sampled token; True if it was the last one.

        A token can only be sampled once all before it are computed, so they count as computed.
        EOS wins over a stop id, a stop id over the length. IllegalTransition unless decoding.
        """
        if not self.is_decoding or not self.is_active:
            raise IllegalTransition(f"{self.id} is {self.state.name} and cannot take a token")
        if token_id == eos_token_id:
            self.end_reasons[token_id] = FinishReason.EOS
        return self.append_token(token_id)

    def append_token(self, token_id: int) -> bool:
        """`push_token` for a caller that knows the sequence is decoding: this runs for every
        sequence in every step."""
        tokens = self.token_ids
        self.num_computed = known = len(tokens)
        tokens.append(token_id)
        if token_id in self.end_reasons:
            self.finish(self.end_reasons[token_id])
        elif known + 1 >= self.max_tokens:
            self.finish(FinishReason.MAX_LENGTH)
        else:
            return False
        return True

    def continue_beam(self, token_id: int) -> bool:
        """`append_token` for a beam, which may have lost its pages since it offered the token."""
        num_computed = self.num_computed
        is_last = self.append_token(token_id)
        self.num_computed = num_computed
        return is_last

    def preempt(self) -> int:
        """Give up all computed tokens, keep all known ones; returns how many were lost.

        IllegalTransition unless running.
        """
        if not self.is_running or not self.is_active:
            raise IllegalTransition(f"{self.id} is {self.state.name} and cannot be preempted")
        num_lost = self.num_computed
        self.is_running = False
        self.num_computed = self.num_cached = 0
        self.num_preemptions += 1
        return num_lost

    def leave_on_host(self, num_tokens: int, host_page_ids: list[int]) -> None:
        """The K/V of its first tokens were copied to host pages. IllegalTransition if it runs."""
        if self.is_running or not self.is_active:
            raise IllegalTransition(f"{self.id} is {self.state.name} and cannot be swapped out")
        self.num_swapped, self.host_page_ids = num_tokens, host_page_ids

    def leave_host(self) -> list[int]:
        """Nothing of it lies on the host any more; returns the host pages it had."""
        host_page_ids, self.host_page_ids, self.num_swapped = self.host_page_ids, [], None
        return host_page_ids

    def finish(self, reason: FinishReason) -> None:
        """End for good. IllegalTransition if it has ended already."""
        if self.finish_reason is not None:
            raise IllegalTransition(f"{self.id} is finished already ({self.finish_reason.value})")
        self.finish_reason = reason
        self.is_running = False
