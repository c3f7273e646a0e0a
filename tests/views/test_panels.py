"""Attention, pages and memory as the panels show them: right numbers, axes that stay."""

from __future__ import annotations

import numpy as np
import pytest

from pagedviz.engine.config import EngineConfig
from pagedviz.engine.events import PageHashed
from pagedviz.trace.queries import page_history
from pagedviz.trace.replay import PageTensors, SequenceAttention
from pagedviz.trace.trace import Moment
from pagedviz.views.attention_view import (
    attention_sentence,
    attention_shares,
    page_share_chart,
    token_share_chart,
)
from pagedviz.views.page_charts import kv_chart, norm_chart
from pagedviz.views.page_view import page_report
from pagedviz.views.theme import DARK, LIGHT
from tests.views.runs import Request, record, shared_start, tight, word


def attention() -> SequenceAttention:
    """Two layers, two heads, the last two of six tokens looked; pages of four slots."""
    weights = np.zeros((2, 2, 2, 6), dtype=np.float32)
    weights[:, :, 0, :5] = 0.2
    weights[1, 0, 1] = [0.5, 0.1, 0, 0, 0.4, 0]
    weights[1, 1, 1] = [0, 0, 0, 0.1, 0, 0.9]
    return SequenceAttention(7, 3, 4, (9, 2), (1, 4), weights)


def test_shares_are_those_of_the_last_query_summed_over_each_page() -> None:
    shares = attention_shares(attention(), 1, 0, block_size=4)
    assert shares.query == 5
    assert [(p.logical_index, p.label, p.first, p.last) for p in shares.pages] == [
        (0, "p9.1", 0, 3),
        (1, "p2.4", 4, 5),
    ]
    assert [p.share for p in shares.pages] == pytest.approx([0.6, 0.4])


def test_without_a_head_the_heads_are_averaged() -> None:
    shares = attention_shares(attention(), 1, None, block_size=4)
    assert [p.share for p in shares.pages] == pytest.approx([0.35, 0.65])
    assert shares.tokens.sum() == pytest.approx(1)


def test_the_sentence_names_the_page_and_the_token_that_got_most() -> None:
    shares = attention_shares(attention(), 1, 0, block_size=4)
    assert attention_sentence(shares, (0, 1, 2, 3, 4, 5), word) == (
        "In step 7 token 5 of seq:3, \u201cwas\u201d, was computed: in layer 1 head 0 gave 60 % "
        "to page 0 (p9.1) and 50 % to token 0, \u201cOnce\u201d"
    )


def test_axes_of_attention_are_those_of_the_whole_run() -> None:
    shares = attention_shares(attention(), 1, 0, block_size=4)
    pages = page_share_chart(shares, 9, LIGHT, 0, 100)
    assert list(pages.layout.xaxis.range) == [-0.5, 8.5]
    tokens = token_share_chart(shares, tuple(range(36)), word, 4, DARK, 0, 100)
    assert list(tokens.layout.xaxis.range) == [-0.5, 35.5]
    assert [bar**2 for bar in tokens.data[0].y] == pytest.approx([0.5, 0.1, 0, 0, 0.4, 0])
    for figure in (pages, tokens):
        assert figure.layout.xaxis.fixedrange and figure.layout.yaxis.fixedrange
        assert figure.layout.uirevision == "run"
        assert len(figure.to_json()) < 6_000


def test_a_token_that_looks_like_html_is_shown_as_text() -> None:
    shares = attention_shares(attention(), 1, 0, block_size=4)
    figure = token_share_chart(shares, tuple(range(6)), lambda i: "<b>&", 4, DARK, 0, 100)
    assert figure.data[0].customdata[0][0] == "\u201c&lt;b>&amp;\u201d"


def test_keys_are_drawn_slot_by_slot_and_empty_slots_stay_empty() -> None:
    keys = np.full((2, 3, 2, 4), 0.03, dtype=np.float32)  # two layers, three slots filled
    keys[1, 2, 1, 3] = -3.2
    figure = kv_chart(keys[1], "key", 8, LIGHT, 200)
    (heatmap,) = figure.data
    assert np.array(heatmap.z).shape == (3, 8)
    assert heatmap.z[2][7] == pytest.approx(-3.2)
    assert (heatmap.zmin, heatmap.zmax) == (-5, 5)
    assert list(figure.layout.yaxis.range) == [7.5, -0.5]
    norms = norm_chart(PageTensors(keys, keys), 0, 8, LIGHT, 200)
    assert list(norms.data[0].x) == pytest.approx([0.06] * 3)


def test_nothing_is_divided_by_an_empty_page() -> None:
    empty = np.zeros((1, 0, 2, 4), dtype=np.float32)
    assert kv_chart(empty[0], "key", 8, LIGHT, 200).data[0].zmax == 1
    assert list(norm_chart(PageTensors(empty, empty), 0, 8, DARK, 200).data[0].x) == []


# ---- one page ----------------------------------------------------------------------------------


def test_a_shared_page_names_its_owners_its_tokens_and_its_chain() -> None:
    report = page_report(shared_start(), Moment(1), 0, word)
    assert (report.label, report.state, report.fill, report.ref_count) == ("p0.1", "active", 4, 2)
    assert [(o.seq_id, o.place, o.logical_index) for o in report.owners] == [(0, 0, 0), (1, 1, 0)]
    assert [slot.text for slot in report.slots] == [" Once", " upon", " a", " time"]
    assert [(link.label, link.num_tokens) for link in report.chain] == [("p0.1", 4)]


def test_the_story_is_told_up_to_the_moment_and_no_further() -> None:
    trace = shared_start()
    whole = page_report(trace, Moment(trace.num_steps - 1), 0, word)
    assert len(whole.story) > 4
    for line in whole.story:
        part = page_report(trace, line.moment, 0, word)
        assert all(told in whole.story for told in part.story[:-1])
        assert part.story[-1].moment == line.moment
    start = page_report(trace, Moment(0, 0), 0, word)
    assert start.story == () and start.label == "p0" and start.queue_place == 0


def test_tokens_written_one_a_step_are_one_line() -> None:
    trace = record(EngineConfig(num_pages=4, block_size=8), Request(0, [1], [2, 3, 4, 5]))
    report = page_report(trace, Moment(2), 0, word)
    assert report.story[-1].text == (
        "seq:0 writes keys and values of tokens 0 to 2 in 3 steps, 0 to 2"
    )
    assert [slot.is_filled for slot in report.slots] == [True] * 3 + [False] * 5


def test_a_long_life_is_cut_and_says_so() -> None:
    trace = tight()
    report = page_report(trace, Moment(trace.num_steps - 1), 0, word, story_lines=2)
    assert len(report.story) == 2 and report.num_earlier > 2
    full = page_report(trace, Moment(trace.num_steps - 1), 0, word, story_lines=99)
    assert full.story[-2:] == report.story


def test_a_cached_page_still_tells_its_chain_and_its_place_in_the_queue() -> None:
    trace = shared_start()
    end = Moment(trace.num_steps - 1)
    cached = [p for p in trace.final.pages if p.state == "cached"]
    for page in cached:
        report = page_report(trace, end, page.page_id, word)
        assert report.chain[-1].page_hash == page.page_hash
        assert report.queue_place == trace.final.free_queue.index(page.page_id)
        hashed = [e for e in page_history(trace, page.page_id) if isinstance(e.event, PageHashed)]
        assert len(report.chain) == hashed[-1].event.logical_index + 1  # type: ignore[union-attr]
    assert max(len(page_report(trace, end, p.page_id, word).chain) for p in cached) == 2
