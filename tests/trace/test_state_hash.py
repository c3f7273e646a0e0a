"""The state hash: literal values from an independent program, and incremental = from nothing."""

import random

from pagedviz.engine.ids import PageId, SeqId
from pagedviz.engine.snapshot import PageView, SequenceView, Snapshot
from pagedviz.engine.state_hash import (
    field_hash,
    format_state_hash,
    snapshot_fields,
    state_hash,
    state_hash_hex,
    updated_state_hash,
)
from tests.trace.runs import bookkeeping_run

# Computed with JavaScript's BigInt: the browser's own arithmetic.
JAVASCRIPT = {
    ("step", 0): 0x9508B7775524BA82,
    ("page/3/fill", 8): 0xDC5C40446A7B8ECE,
    ("seq/0/name", "Zoë"): 0x76271CD4DB68FAB2,
    ("page/3/hash", "00000000000000ff"): 0x3D507B46171355E8,
    ("queue/next/11", 12): 0xDA34779F2ADA4EEE,
}


def test_a_field_hashes_as_in_javascript() -> None:
    assert {field: field_hash(*field) for field in JAVASCRIPT} == JAVASCRIPT


def test_ids_hash_as_the_numbers_they_are() -> None:
    assert field_hash("queue/next/11", PageId(12)) == field_hash("queue/next/11", 12)


SMALL = Snapshot(
    num_steps=4,
    block_size=2,
    pages=(PageView(PageId(0), 1, 1, 2, 255, (7, 8)), PageView(PageId(1))),
    free_queue=(PageId(1),),
    sequences=(
        SequenceView(
            SeqId(5), "a", None, 2, 3, (7, 8, None), "decoding", 2, page_ids=(0,), generations=(1,)
        ),
    ),
    waiting=(),
    running=(SeqId(5),),
)


def test_every_known_field_takes_part_once() -> None:
    fields = list(snapshot_fields(SMALL))
    assert len(dict(fields)) == len(fields)
    assert dict(fields) == {
        "step": 4,
        "page/0/generation": 1,
        "page/0/ref_count": 1,
        "page/0/fill": 2,
        "page/0/hash": "00000000000000ff",
        "page/0/token/0": 7,
        "page/0/token/1": 8,
        "page/1/generation": 0,
        "page/1/ref_count": 0,
        "page/1/fill": 0,
        "seq/5/index": 0,
        "seq/5/name": "a",
        "seq/5/num_prompt_tokens": 2,
        "seq/5/max_new_tokens": 3,
        "seq/5/num_tokens": 3,
        "seq/5/token/0": 7,
        "seq/5/token/1": 8,
        "seq/5/state": "decoding",
        "seq/5/num_computed": 2,
        "seq/5/num_scheduled": 0,
        "seq/5/num_cached": 0,
        "seq/5/num_preemptions": 0,
        "seq/5/page/0": 0,
        "seq/5/generation/0": 1,
        "queue/head": 1,
        "running/head": 5,
    }


def test_the_state_hash_is_the_sum_over_the_fields() -> None:
    total = sum(field_hash(path, value) for path, value in snapshot_fields(SMALL))
    assert state_hash(SMALL) == total % 2**64


def test_every_single_change_of_a_field_changes_the_hash() -> None:
    page, sequence = SMALL.pages[0], SMALL.sequences[0]
    changed = [
        SMALL._replace(pages=(page._replace(**{name: value}), SMALL.pages[1]))
        for name, value in (
            ("generation", 2),
            ("ref_count", 2),
            ("fill", 1),
            ("page_hash", 254),
            ("token_ids", (7, 9)),
        )
    ]
    changed += [
        SMALL._replace(sequences=(sequence._replace(**{name: value}),))
        for name, value in (
            ("name", "b"),
            ("adapter", "x"),
            ("num_prompt_tokens", 1),
            ("max_new_tokens", 4),
            ("token_ids", (7, 8)),
            ("state", "finished"),
            ("num_computed", 1),
            ("num_scheduled", 1),
            ("num_cached", 1),
            ("num_preemptions", 1),
            ("page_ids", (1,)),
            ("generations", (2,)),
            ("finish_reason", "eos"),
        )
    ]
    changed += [
        SMALL._replace(free_queue=()),
        SMALL._replace(waiting=(5,)),
        SMALL._replace(running=()),
        SMALL._replace(num_steps=5),
    ]
    hashes = {state_hash(snapshot) for snapshot in (SMALL, *changed)}
    assert len(hashes) == len(changed) + 1


def test_the_incremental_hash_is_the_whole_one_forwards_and_backwards() -> None:
    trace = bookkeeping_run(seed=3).trace
    moments = [
        (step, event)
        for step in range(trace.num_steps)
        for event in range(trace.num_events(step) + 1)
    ]
    # Every neighbour, then jumps to anywhere.
    jumps = random.Random(0).sample(moments, 150)
    old, old_hash = trace.initial, state_hash(trace.initial)
    for moment in [*moments, *jumps]:
        new = trace.at(*moment)
        old, old_hash = new, updated_state_hash(old_hash, old, new)
        assert old_hash == state_hash(new), moment
        assert trace.state_hash(*moment) == old_hash


def test_the_short_form_is_the_first_half_of_the_long_one() -> None:
    assert format_state_hash(0xA3F910C4_01234567) == "a3f9 10c4"
    assert state_hash_hex(0xA3F910C4_01234567) == "a3f910c401234567"
    assert format_state_hash(5) == "0000 0000"
