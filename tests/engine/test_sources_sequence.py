"""The promises of lattice-inference's `sequence.rs`, test by test under their own names, with the
behaviour corrected where the source passes silently."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from pagedviz.engine import (
    AdapterKey,
    BlockManager,
    BlockManagerConfig,
    Decoding,
    Finished,
    FinishReason,
    KvPageConfig,
    KvPagePool,
    Preempted,
    Prefilling,
    SamplingParams,
    SeqId,
    Sequence,
    SequenceManager,
    Waiting,
)
from pagedviz.engine.errors import IllegalTransition, SequenceExists, SequenceNotFound


def make_sequence(number: int, prompt_len: int, max_new_tokens: int = 64) -> Sequence:
    return Sequence(SeqId(number), [0] * prompt_len, SamplingParams(), None, max_new_tokens)


def decoding(number: int, prompt_len: int, max_new_tokens: int = 64) -> Sequence:
    sequence = make_sequence(number, prompt_len, max_new_tokens)
    sequence.admit()
    sequence.advance_prefill(prompt_len)
    assert sequence.state == Decoding()
    return sequence


def make_manager(num_pages: int = 8, block_size: int = 4) -> SequenceManager:
    pool = KvPagePool(num_pages, KvPageConfig(block_size=block_size))
    return SequenceManager(BlockManager(pool, BlockManagerConfig()))


def facts(sequence: Sequence) -> dict[str, Any]:
    """Everything a sequence knows, to compare before and after."""
    names = [name for name in Sequence.__slots__ if name not in ("chain", "table")]
    return {name: copy.deepcopy(getattr(sequence, name)) for name in names}


# ---- SeqId -----------------------------------------------------------------------------------


def test_seq_id_counter_increments() -> None:
    manager = make_manager()
    assert (manager.next_id(), manager.next_id()) == (SeqId(0), SeqId(1))


def test_seq_id_display() -> None:
    assert str(SeqId(7)) == "seq:7"


def test_seq_id_is_hashable_and_ordered() -> None:
    assert sorted({SeqId(2), SeqId(10), SeqId(2)}) == [SeqId(2), SeqId(10)]


# ---- the life of a sequence -------------------------------------------------------------------


def test_new_sequence_is_prefilling_at_zero() -> None:
    sequence = make_sequence(0, 10)
    # A new sequence waits first: the source has no queue in front of its engine.
    assert sequence.state == Waiting()
    assert sequence.is_active
    sequence.admit()
    assert sequence.state == Prefilling(chunk_start=0)
    assert sequence.is_active


def test_advance_prefill_partial_chunk() -> None:
    sequence = make_sequence(0, 20)
    sequence.admit()
    sequence.advance_prefill(10)
    assert sequence.state == Prefilling(chunk_start=10)
    assert sequence.is_active


def test_advance_prefill_complete_transitions_to_decoding() -> None:
    sequence = make_sequence(0, 10)
    sequence.admit()
    sequence.advance_prefill(10)
    assert sequence.state == Decoding()
    assert sequence.is_active


def test_advance_prefill_overshoot_transitions_to_decoding() -> None:
    """The source accepts a chunk past the end of the prompt; there are no tokens to compute there,
    so here it is refused."""
    sequence = make_sequence(0, 10)
    sequence.admit()
    before = facts(sequence)
    with pytest.raises(IllegalTransition, match="cannot advance by 20 tokens: 0 of 10"):
        sequence.advance_prefill(20)
    assert facts(sequence) == before
    assert sequence.state == Prefilling(0)


def test_push_token_normal() -> None:
    sequence = decoding(0, 1)
    assert sequence.push_token(42, None) is False
    assert sequence.generated_ids == [42]
    assert sequence.state == Decoding()


def test_push_token_eos_finishes_sequence() -> None:
    sequence = decoding(0, 1)
    assert sequence.push_token(2, 2) is True
    assert sequence.state == Finished(FinishReason.EOS)
    assert not sequence.is_active


def test_push_token_max_length_finishes_sequence() -> None:
    sequence = decoding(0, 1, max_new_tokens=2)
    assert sequence.push_token(10, None) is False
    assert sequence.push_token(11, None) is True
    assert sequence.state == Finished(FinishReason.MAX_LENGTH)


def test_preempt_marks_sequence_finished() -> None:
    """In the source a preempted sequence is finished for good; here it waits and keeps what it
    has generated."""
    sequence = decoding(0, 5)
    sequence.push_token(7)
    assert sequence.preempt() == 5
    assert sequence.state == Preempted(num_generated=1)
    assert sequence.is_active
    assert sequence.generated_ids == [7]
    assert sequence.num_computed == 0


def test_position_prefilling_returns_chunk_start() -> None:
    sequence = make_sequence(0, 20)
    sequence.admit()
    sequence.advance_prefill(7)
    assert sequence.position == 7


def test_position_decoding_returns_prompt_plus_generated() -> None:
    sequence = decoding(0, 5)
    for token_id in (1, 2, 3):
        sequence.push_token(token_id)
    assert sequence.position == 8


# ---- SequenceManager ---------------------------------------------------------------------------


def test_manager_add_and_get() -> None:
    manager = make_manager()
    sequence = make_sequence(0, 5)
    manager.add(sequence)
    assert len(manager) == 1
    assert manager.get(SeqId(0)) is sequence
    assert len(manager.page_table(SeqId(0))) == 0


def test_manager_remove_returns_seq_and_table() -> None:
    manager = make_manager()
    manager.add(make_sequence(0, 5))
    sequence, table = manager.remove(SeqId(0))
    assert sequence.id == SeqId(0)
    assert len(table) == 0
    assert manager.is_empty


def test_manager_ids_in_state_prefilling() -> None:
    manager = make_manager()
    prefilling = make_sequence(0, 10)
    prefilling.admit()
    manager.add(prefilling)
    manager.add(decoding(1, 10))
    assert manager.ids_prefilling == [SeqId(0)]


def test_manager_ids_decoding() -> None:
    manager = make_manager()
    manager.add(decoding(0, 5))
    manager.add(make_sequence(1, 10))
    assert manager.ids_decoding == [SeqId(0)]


def test_manager_ids_finished() -> None:
    manager = make_manager()
    finished = decoding(0, 5)
    finished.push_token(2, 2)
    manager.add(finished)
    manager.add(make_sequence(1, 10))
    assert manager.ids_finished == [SeqId(0)]


def test_manager_next_id_is_unique() -> None:
    manager = make_manager()
    assert manager.next_id() != manager.next_id()


def test_manager_remove_nonexistent_returns_none() -> None:
    """The source returns None; here the caller is told which sequence it asked for."""
    manager = make_manager()
    with pytest.raises(SequenceNotFound, match="seq:99"):
        manager.remove(SeqId(99))


def test_manager_get_mut_allows_state_update() -> None:
    manager = make_manager()
    manager.add(make_sequence(0, 5))
    manager.get(SeqId(0)).admit()
    assert manager.get(SeqId(0)).state == Prefilling(0)


# ---- where the source is wrong or silent --------------------------------------------------------


def test_a_second_sequence_of_one_id_is_refused_and_the_first_keeps_its_table() -> None:
    manager = make_manager()
    first = make_sequence(0, 5)
    table = manager.add(first)
    with pytest.raises(SequenceExists, match="seq:0"):
        manager.add(make_sequence(0, 3))
    assert manager.get(SeqId(0)) is first
    assert manager.page_table(SeqId(0)) is table
    assert len(manager) == 1


def test_an_id_is_not_given_out_again_after_its_sequence_was_removed() -> None:
    manager = make_manager()
    manager.add(make_sequence(4, 5))
    manager.remove(SeqId(4))
    assert manager.next_id() == SeqId(5)


def test_one_page_table_object_per_sequence_is_handed_out_by_both_managers() -> None:
    pool = KvPagePool(8, KvPageConfig(block_size=4))
    block_manager = BlockManager(pool)
    manager = SequenceManager(block_manager)
    table = manager.add(make_sequence(0, 5))
    block_manager.reserve(SeqId(0), 5)
    assert manager.page_table(SeqId(0)) is table is block_manager.page_table(SeqId(0))
    assert list(table) == [0, 1]


def test_a_removed_sequence_gives_back_its_pages_and_says_which_they_were() -> None:
    pool = KvPagePool(8, KvPageConfig(block_size=4))
    block_manager = BlockManager(pool)
    manager = SequenceManager(block_manager)
    manager.add(make_sequence(0, 5))
    block_manager.reserve(SeqId(0), 5)
    _, table = manager.remove(SeqId(0))
    assert list(table) == [0, 1]
    assert pool.free_count == 8
    assert block_manager.active_sequences == 0


def test_ids_come_back_in_order_of_submission() -> None:
    manager = make_manager()
    for number in (5, 3, 9, 1):
        sequence = make_sequence(number, 4)
        sequence.admit()
        manager.add(sequence)
    assert manager.ids_prefilling == [SeqId(5), SeqId(3), SeqId(9), SeqId(1)]


def test_eos_wins_over_a_stop_id_and_a_stop_id_over_the_length() -> None:
    def push_last(token_id: int) -> Sequence:
        sequence = Sequence(
            SeqId(0), [1], SamplingParams(stop_ids=(2, 3)), max_new_tokens=1, eos_ids=frozenset({2})
        )
        sequence.admit()
        sequence.advance_prefill(1)
        assert sequence.push_token(token_id)
        return sequence

    assert push_last(2).state == Finished(FinishReason.EOS)
    assert push_last(3).state == Finished(FinishReason.STOP)
    assert push_last(4).state == Finished(FinishReason.MAX_LENGTH)


def test_the_context_limit_finishes_with_max_length() -> None:
    sequence = Sequence(SeqId(0), [1, 1, 1], max_new_tokens=10, max_seq_len=5)
    sequence.admit()
    sequence.advance_prefill(3)
    assert [sequence.push_token(7), sequence.push_token(7)] == [False, True]
    assert sequence.state == Finished(FinishReason.MAX_LENGTH)


def test_position_of_a_sequence_preempted_mid_prefill_is_what_it_has_computed() -> None:
    sequence = make_sequence(0, 20)
    sequence.admit()
    sequence.advance_prefill(7)
    sequence.preempt()
    assert sequence.state == Preempted(0)
    assert sequence.position == 0


def test_after_a_preemption_chunks_run_over_prompt_and_generated_tokens() -> None:
    sequence = decoding(0, 4)
    for token_id in (1, 2, 3):
        sequence.push_token(token_id)
    sequence.preempt()
    sequence.admit(num_cached=2)
    sequence.advance_prefill(3)
    assert sequence.state == Prefilling(chunk_start=5)
    sequence.advance_prefill(1)
    # Token 6, sampled last, is computed by the decode that follows.
    assert sequence.state == Decoding()
    sequence.push_token(9)
    assert sequence.token_ids == [0, 0, 0, 0, 1, 2, 3, 9]


def test_states_can_be_matched() -> None:
    sequence = make_sequence(0, 20)
    sequence.admit()
    sequence.advance_prefill(3)
    match sequence.state:
        case Prefilling(chunk_start):
            assert chunk_start == 3
        case _:
            pytest.fail("a sequence in prefill is Prefilling")


def test_adapters_are_equal_by_name_and_none_is_the_base_model() -> None:
    assert AdapterKey("sql") == AdapterKey("sql") != AdapterKey("chat")
    assert make_sequence(0, 1).adapter_id is None
    assert str(AdapterKey("sql")) == "sql"


def finished() -> Sequence:
    sequence = decoding(0, 3)
    sequence.push_token(2, 2)
    return sequence


def prefilling() -> Sequence:
    sequence = make_sequence(0, 5)
    sequence.admit()
    sequence.advance_prefill(2)
    return sequence


def preempted() -> Sequence:
    sequence = decoding(0, 3)
    sequence.preempt()
    return sequence


def waiting() -> Sequence:
    return make_sequence(0, 5)


def decoding_three() -> Sequence:
    return decoding(0, 3)


ILLEGAL = [
    (finished, "push_token", (1, None)),
    (prefilling, "push_token", (1, None)),
    (waiting, "push_token", (1, None)),
    (preempted, "push_token", (1, None)),
    (waiting, "advance_prefill", (1,)),
    (decoding_three, "advance_prefill", (1,)),
    (finished, "advance_prefill", (1,)),
    (preempted, "advance_prefill", (1,)),
    (prefilling, "advance_prefill", (4,)),
    (prefilling, "advance_prefill", (0,)),
    (prefilling, "advance_prefill", (-1,)),
    (finished, "preempt", ()),
    (waiting, "preempt", ()),
    (preempted, "preempt", ()),
    (finished, "admit", ()),
    (prefilling, "admit", ()),
    (waiting, "admit", (5,)),
    (waiting, "admit", (-1,)),
    (finished, "finish", (FinishReason.ABORTED,)),
]


@pytest.mark.parametrize(
    ("make", "call", "arguments"), ILLEGAL, ids=[f"{m.__name__}-{c}{a}" for m, c, a in ILLEGAL]
)
def test_an_illegal_transition_is_refused_and_changes_nothing(
    make: Any, call: str, arguments: tuple[Any, ...]
) -> None:
    sequence = make()
    before = facts(sequence)
    with pytest.raises(IllegalTransition, match="seq:0"):
        getattr(sequence, call)(*arguments)
    assert facts(sequence) == before
