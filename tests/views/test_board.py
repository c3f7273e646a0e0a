"""The board of a moment holds what there is to see, page by page and token by token."""

from __future__ import annotations

import pytest

from pagedviz.engine.config import EngineConfig
from pagedviz.engine.errors import MomentNotFound
from pagedviz.engine.events import SlotsWritten
from pagedviz.engine.snapshot import PageView, SequenceView, Snapshot
from pagedviz.trace.trace import Moment
from pagedviz.views.board import make_board, moment_focus
from pagedviz.views.focus import focus
from pagedviz.views.lanes import most_at_once
from pagedviz.views.pool_map import pool_map
from pagedviz.views.sequence_view import sequence_rows
from pagedviz.views.ticks import ticks
from tests.views.runs import Request, record, shared_start, tight, word

SNAPSHOT = Snapshot(
    num_steps=3,
    block_size=4,
    pages=(
        PageView(0, 1, 2, 4, 0xABC, (0, 1, 2, 3)),
        PageView(1, 2, 1, 2),
        PageView(2, 1, 0, 4, 0xDEF, (4, 5, 6, 7)),
        PageView(3),
    ),
    free_queue=(2, 3),
    sequences=(
        SequenceView(
            5, "lily", None, 5, 8, (0, 1, 2, 3, 4, 5, 9), "decoding", 6, 0, 4, 0, (0, 1), (1, 2)
        ),
        SequenceView(
            7, "tom", None, 6, 8, (0, 1, 2, 3, 9, 8), "prefilling", 4, 2, 4, 0, (0,), (1,)
        ),
        SequenceView(9, "mia", None, 2, 8, (9, 8), "waiting"),
    ),
    waiting=(9,),
    running=(5, 7),
)


def test_every_page_has_one_cell_that_says_state_fill_and_owners() -> None:
    pool = pool_map(SNAPSHOT, word)
    assert [(c.label, c.state, c.fill, c.owners, c.ref_count) for c in pool.cells] == [
        ("p0.1", "active", 4, (0, 1), 2),
        ("p1.2", "active", 2, (0,), 1),
        ("p2.1", "cached", 4, (), 0),
        ("p3", "free", 0, (), 0),
    ]
    assert (pool.num_active, pool.num_cached, pool.num_free, pool.empty_slots) == (2, 1, 1, 2)
    assert pool.cells[2].content == "“there was a shy”"
    assert pool.cells[1].content is None


@pytest.mark.parametrize(("num_pages", "detail"), [(64, "slots"), (512, "fill"), (4096, "state")])
def test_how_much_a_cell_shows_depends_on_the_pool_alone(num_pages: int, detail: str) -> None:
    pages = tuple(PageView(page_id) for page_id in range(num_pages))
    pool = pool_map(SNAPSHOT._replace(pages=pages, sequences=()), word)
    assert pool.detail == detail
    assert [cell.page_id for cell in pool.cells] == list(range(num_pages))


def test_tokens_are_cut_where_pages_end_and_hits_are_told_apart() -> None:
    lily, tom, mia = sequence_rows(SNAPSHOT, word)
    assert [(g.logical_index, g.label, len(g.tokens), g.is_hit) for g in lily.groups] == [
        (0, "p0.1", 4, True),
        (1, "p1.2", 3, False),
    ]
    newest = lily.groups[1].tokens[-1]
    assert (newest.text, newest.position) == (" named", 6)
    assert (newest.is_computed, newest.is_generated) == (False, True)
    assert lily.groups[1].tokens[0].is_generated is False
    assert (lily.chip, lily.note) == ("decoding", "7 tokens, 2 pages, 1 shared")
    assert (tom.chip, tom.note) == ("prefill 4 of 6", "6 tokens, 1 page, 1 shared")
    assert [(g.label, len(g.tokens)) for g in tom.groups] == [("p0.1", 4), (None, 2)]
    assert (mia.chip, mia.note) == ("waiting", "2 tokens, next in the queue")
    assert [row.place for row in (lily, tom, mia)] == [0, 1, 2]


def test_a_foreign_trace_without_tokens_is_shown_with_question_marks() -> None:
    view = SequenceView(0, "x", None, 3, 8, (None, None, None), "waiting")
    (row,) = sequence_rows(SNAPSHOT._replace(sequences=(view,)), word)
    assert [token.text for token in row.groups[0].tokens] == ["?", "?", "?"]


def test_the_slot_written_now_is_marked_where_the_page_table_leads() -> None:
    now = focus([SlotsWritten(5, 5)], SNAPSHOT)
    assert now.slots == {(1, 1)}
    assert now.page_ids == {1}
    assert now.tokens == {(5, 5)}
    cell = pool_map(SNAPSHOT, word, now).cells[1]
    assert cell.is_now and cell.now == {1}
    assert sequence_rows(SNAPSHOT, word, now)[0].groups[1].tokens[1].is_now


def test_slots_of_a_sequence_that_finished_in_the_same_step_are_still_marked() -> None:
    trace = record(EngineConfig(num_pages=4, block_size=4), Request(0, [0, 1, 2, 3, 4], [5]))
    assert trace.num_steps == 1
    assert trace.final.sequences[0].page_ids == ()
    assert moment_focus(trace, Moment(0)).slots == {(0, 0), (0, 1), (0, 2), (0, 3), (1, 0)}


def test_a_board_agrees_with_the_trace_at_every_moment() -> None:
    trace = tight()
    for step in range(trace.num_steps):
        for event in (*range(trace.num_events(step) + 1), None):
            board = make_board(trace, Moment(step, event), word)
            snapshot = trace.at(step, event)
            assert board.state_hash == trace.state_hash(step, event)
            assert board.num_events == trace.num_events(step)
            pool = board.pool
            assert pool.num_active + pool.num_cached + pool.num_free == len(snapshot.pages)
            assert board.queues.num_free == len(snapshot.free_queue)
            for row, view in zip(board.sequences, snapshot.sequences, strict=True):
                assert [g.page_id for g in row.groups if g.page_id is not None] == list(
                    view.page_ids
                )
                assert sum(len(group.tokens) for group in row.groups) == view.num_tokens


def test_the_budget_counts_up_with_the_events_of_a_step() -> None:
    trace = tight()
    assert make_board(trace, Moment(0, 0), word).queues.budget == ()
    assert make_board(trace, Moment(0), word).queues.budget == ((0, 3), (1, 3))
    assert make_board(trace, Moment(0), word).queues.budget_total == 8


def test_a_moment_that_is_not_recorded_is_refused() -> None:
    with pytest.raises(MomentNotFound, match="step 99 is not recorded"):
        make_board(shared_start(), Moment(99), word)


def test_ticks_name_what_matters_most_in_a_step() -> None:
    assert [(tick.moment.step, tick.kind) for tick in ticks(tight())] == [
        (2, "preemption"),
        (4, "preemption"),
        (5, "finish"),
        (6, "eviction"),
        (7, "preemption"),
        (8, "eviction"),
    ]
    assert [(tick.moment, tick.kind) for tick in ticks(shared_start())] == [
        (Moment(1, 5), "hit"),
        (Moment(2, 7), "finish"),
    ]


def test_room_is_made_for_the_sequences_that_are_unfinished_at_once() -> None:
    one_after_another = record(
        EngineConfig(num_pages=4, block_size=4),
        Request(0, [0, 1], [2, 3]),
        Request(3, [0, 1], [2, 3]),
    )
    assert most_at_once(one_after_another) == 1
    assert most_at_once(tight()) == 3
