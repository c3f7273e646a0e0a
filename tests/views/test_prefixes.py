"""What can be found, as a tree, and what each lookup found: the tree of the cache itself."""

from __future__ import annotations

import pytest

from pagedviz.engine.config import EngineConfig
from pagedviz.engine.events import PageEvicted
from pagedviz.engine.prefix_hash import prefix_hash_seed, roll_hash
from pagedviz.trace.prefixes import prefixes
from pagedviz.trace.trace import Moment, StepRecord, Trace
from pagedviz.views.lookup_view import lookup_report, lookups
from pagedviz.views.prefix_tree import prefix_tree
from tests.trace.runs import bookkeeping_run
from tests.views.runs import Request, record, shared_start, tight, word


@pytest.mark.parametrize("seed", [1, 4, 9])
def test_a_prefix_is_its_parent_and_its_tokens(seed: int) -> None:
    trace = bookkeeping_run(seed).trace
    known = prefixes(trace)
    assert len(known) > 10
    for prefix in known.values():
        before = prefix_hash_seed(None) if prefix.parent is None else prefix.parent
        token_ids = [token for token in prefix.token_ids if token is not None]
        assert len(token_ids) == 4
        assert roll_hash(before, token_ids) == prefix.page_hash
        if prefix.parent is not None:
            assert known[prefix.parent].logical_index == prefix.logical_index - 1


@pytest.mark.parametrize("seed", [1, 4])
def test_the_tree_holds_every_findable_page_once_at_every_step(seed: int) -> None:
    trace = bookkeeping_run(seed).trace
    for step in range(trace.num_steps):
        rows = prefix_tree(trace, Moment(step), word)
        drawn = [page_id for row in rows for page in row.pages for page_id in page.page_ids]
        assert sorted(drawn) == list(trace.at(step).cached_page_ids)
        for row in rows:
            assert row.pages[-1].state != "gone" or any(r.depth > row.depth for r in rows)
            for page in row.pages:
                assert (page.state == "gone") == (not page.labels)


def test_a_page_that_was_evicted_before_what_continues_it_keeps_its_place() -> None:
    """Our engine frees the tail first; another one's trace may tell of such a state."""
    trace = shared_start()
    page = next(p for p in trace.final.pages if p.token_ids == (0, 1, 2, 3))
    assert page.page_hash is not None
    evicted = StepRecord((PageEvicted(page.page_id, page.page_hash),))
    foreign = Trace(trace.header, [*trace.steps, evicted])
    first, *branches = prefix_tree(foreign, Moment(trace.num_steps), word)
    assert (first.pages[0].state, first.pages[0].labels) == ("gone", ())
    assert {row.pages[0].state for row in branches} == {"cached"}


def test_two_texts_with_one_start_branch_where_they_differ() -> None:
    trace = shared_start()
    rows = prefix_tree(trace, Moment(trace.num_steps - 1), word)
    assert [(row.depth, row.first, len(row.pages)) for row in rows] == [
        (0, 0, 1),
        (1, 4, 1),
        (1, 4, 1),
    ]
    assert rows[0].pages[0].text == " Once upon a time"
    during = prefix_tree(trace, Moment(1), word)
    assert during[0].pages[0].owners == (0, 1)


def test_a_run_without_branching_is_one_row() -> None:
    trace = record(EngineConfig(num_pages=8, block_size=2), Request(0, range(9), [3, 4]))
    (row,) = prefix_tree(trace, Moment(0), word)
    assert [page.labels for page in row.pages] == [("p0.1",), ("p1.1",), ("p2.1",), ("p3.1",)]


def test_nothing_is_drawn_when_the_cache_is_off() -> None:
    config = EngineConfig(num_pages=8, block_size=2, prefix_caching=False)
    trace = record(config, Request(0, range(9), [3, 4]))
    assert prefix_tree(trace, Moment(0), word) == ()
    report = lookup_report(trace, lookups(trace)[0], word)
    assert {page.verdict for page in report.pages} == {"computed: the cache is off"}


# ---- lookups -----------------------------------------------------------------------------------


def test_a_lookup_is_aligned_with_the_cached_text_up_to_the_token_that_differs() -> None:
    trace = shared_start()
    listed = lookups(trace)
    assert [(k.name, k.num_found, k.num_tokens, k.end) for k in listed] == [
        ("seq:0", 0, 7, "never seen"),
        ("seq:1", 4, 9, "differs"),
    ]
    report = lookup_report(trace, listed[1], word)
    assert [(p.logical_index, p.label, p.verdict) for p in report.pages] == [
        (0, "p0.1", "found"),
        (1, "p1.1", "computed: token 5 differs"),
        (2, None, "computed: not a whole page"),
    ]
    differing = report.pages[1].tokens
    assert [(t.position, t.prompt, t.cached) for t in differing if not t.is_same] == [
        (5, f"{word(9)}", f"{word(5)}"),
    ]


def test_a_full_hit_still_computes_its_last_token_and_says_why() -> None:
    trace = record(
        EngineConfig(num_pages=8, block_size=4),
        Request(0, range(8), [1, 2]),
        Request(4, range(8), [1, 2]),
    )
    report = lookup_report(trace, lookups(trace)[1], word)
    assert report.lookup.end == "found all it may"
    assert [page.verdict for page in report.pages] == [
        "found",
        "computed: its last token has to give the next one",
    ]


def test_an_evicted_page_is_named_with_its_step() -> None:
    trace = tight()
    ends = {lookup.end for lookup in lookups(trace)}
    if "evicted" not in ends:
        trace = evicting()
    lookup = next(k for k in lookups(trace) if k.end == "evicted")
    verdicts = [page.verdict for page in lookup_report(trace, lookup, word).pages]
    assert any("it was cached, and evicted in step" in verdict for verdict in verdicts)


def evicting() -> Trace:
    return record(
        EngineConfig(num_pages=4, block_size=2),
        Request(0, [0, 1, 2, 3, 4], [5]),
        Request(2, [9, 8, 7, 6, 5, 4], [5, 6]),
        Request(6, [0, 1, 2, 3, 4], [5]),
    )


def test_a_long_prompt_is_cut_behind_its_end_and_says_so() -> None:
    trace = record(EngineConfig(num_pages=40, block_size=1), Request(0, range(30), [1]))
    report = lookup_report(trace, lookups(trace)[0], word, max_pages=5)
    assert (len(report.pages), report.num_hidden) == (5, 25)


def test_the_verdicts_agree_with_what_the_cache_itself_finds() -> None:
    """The pages marked as found are those that the engine then shares."""
    trace = bookkeeping_run(3).trace
    checked = 0
    for lookup in lookups(trace):
        report = lookup_report(trace, lookup, word)
        found = [page for page in report.pages if page.verdict == "found"]
        assert len(found) * 4 == lookup.num_found
        assert all(token.is_same for page in found for token in page.tokens)
        checked += len(found)
    assert checked > 5
