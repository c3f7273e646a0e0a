"""Every event is told in one plain sentence: what happened, and why."""

from __future__ import annotations

import pytest

from pagedviz.engine.config import EngineConfig
from pagedviz.engine.events import (
    EVENT_TYPES,
    AdmissionDeferred,
    Event,
    InvariantViolated,
    PageAllocated,
    PageCopied,
    PageEvicted,
    PageHashed,
    PageReleased,
    PageShared,
    PrefixLookedUp,
    SequenceAdmitted,
    SequenceFinished,
    SequenceForked,
    SequencePreempted,
    SequenceScheduled,
    SequenceSubmitted,
    SlotsWritten,
    StateChanged,
    SwappedIn,
    SwappedOut,
    TokenSampled,
)
from pagedviz.engine.snapshot import PageView, SequenceView, Snapshot
from pagedviz.trace.trace import Moment, Trace
from pagedviz.views.board import event_lines, moment_sentence
from pagedviz.views.context import Context
from pagedviz.views.sentences import sentence
from pagedviz.views.summaries import headline
from tests.views.runs import shared_start, tight, word

# p0 is shared, p1 the tail of seq:0, p2 cached, p3 and p4 free. Pages of 4 slots.
PAGES = (
    PageView(0, 1, 2, 4, 0xABC, (0, 1, 2, 3)),
    PageView(1, 2, 1, 2),
    PageView(2, 1, 0, 4, 0xDEF, (4, 5, 6, 7)),
    PageView(3, 1),
    PageView(4),
)
SEQUENCES = (
    SequenceView(0, "lily", None, 5, 8, (0, 1, 2, 3, 4, 5), "decoding", 6, 0, 0, 0, (0, 1), (1, 2)),
    SequenceView(1, "tom", None, 9, 8, (0, 1, 2, 3, 9, 8, 7, 6, 5), "waiting"),
    SequenceView(2, "mia", None, 3, 8, (9, 8, 7, 6), "preempted", num_preemptions=1),
)
BEFORE = Snapshot(3, 4, PAGES, (2, 3, 4), SEQUENCES, (1, 2), (0,))
SETTINGS = EngineConfig(num_pages=5, block_size=4, max_tokens_per_step=16)

SAID: list[tuple[Event, str]] = [
    (
        SequenceSubmitted(3, "zoe", 3, 8, (0, 1, 2)),
        "seq:3 arrives (“Once upon a”, 3 prompt tokens, at most 8 new) and joins the waiting queue "
        "behind 2 others",
    ),
    (
        SequenceSubmitted(3, "zoe", 3, 8),
        "seq:3 arrives (3 prompt tokens, at most 8 new) and joins the waiting queue behind 2 "
        "others",
    ),
    (
        AdmissionDeferred(1, "budget", 3, 3),
        "seq:1 has to wait, and so does the one behind it: the 16 tokens of this step are all "
        "given away",
    ),
    (
        AdmissionDeferred(1, "max_running", 3, 3),
        "seq:1 has to wait, and so does the one behind it: 1 sequence runs already, the most that "
        "may",
    ),
    (
        AdmissionDeferred(1, "preempting_step", 3, 3),
        "seq:1 has to wait, and so does the one behind it: a step that preempts admits nobody, or "
        "both would fight over the same pages",
    ),
    (
        AdmissionDeferred(1, "pages", 3, 1),
        "seq:1 has to wait, and so does the one behind it: its first chunk needs 3 pages and 1 is "
        "free",
    ),
    (
        AdmissionDeferred(1, "full_prompt_gate", 3, 2),
        "seq:1 has to wait, and so does the one behind it: its 9 tokens need 3 pages and 2 are "
        "free; started now, it would soon run out",
    ),
    (
        AdmissionDeferred(1, "watermark", 5, 4),
        "seq:1 has to wait, and so does the one behind it: with the reserve kept for running "
        "sequences it needs 5 pages and 4 are free",
    ),
    (
        PageEvicted(2, 0xDEF),
        "A page is needed: the head of the free queue is p2.1, which still held the cached text "
        "“there was a shy”, so that is evicted and no prompt can find it any more",
    ),
    (
        PageAllocated(3, 2, 1, 0),
        "seq:1 takes p3.2 from the head of the free queue (use 2 of that page), as its page 0 for "
        "tokens 0 to 3: it has no page yet",
    ),
    (
        PageAllocated(4, 1, 0, 2),
        "seq:0 takes p4.1 from the head of the free queue, as its page 2 for tokens 8 to 11: its "
        "pages end with token 7",
    ),
    (
        PageShared(0, 3, 1, 0),
        "p0.1 holds tokens 0 to 3 of this very text already: seq:1 takes it as its page 0 instead "
        "of computing it, now 3 sequences read it",
    ),
    (
        PageShared(2, 1, 1, 1),
        "p2.1 holds tokens 4 to 7 of this very text already: seq:1 takes it as its page 1 instead "
        "of computing it, it leaves the free queue with its content",
    ),
    (
        SequenceForked(3, 0, "lily/2", 8, 6, 6),
        "seq:3 goes on from tokens 0 to 5 of seq:0: it runs at once and holds the same 2 pages, so "
        "that 6 tokens are there twice and stored once",
    ),
    (
        SequenceForked(3, 1, "tom/2", 8, 9, 0),
        "seq:3 goes on from tokens 0 to 8 of seq:1 and waits: it holds no page yet and computes "
        "them again",
    ),
    (
        PageCopied(3, 2, 1, 1, 0, 1, 2),
        "seq:0 is about to write into p1.2, which 1 other still holds: the 2 slots written so far "
        "are copied to p3.2 from the head of the free queue, its own page 1 from now on",
    ),
    (
        PageHashed(1, 0x123, 0, 1),
        "This step fills p1.2, so it becomes findable under the hash 0000000000000123 of the first "
        "8 tokens of seq:0",
    ),
    (
        PageHashed(1, 0xDEF, 0, 1),
        "This step fills p1.2, so it becomes findable under the hash 0000000000000def of the first "
        "8 tokens of seq:0; p2.1 has the same text and is found first",
    ),
    (
        PageReleased(1, 0, 0, 2),
        "seq:0 is decoding and lets go of p1.2: nobody could find its content, so it goes to the "
        "front of the free queue, to be taken first",
    ),
    (
        PageReleased(0, 0, 1),
        "seq:0 is decoding and lets go of p0.1, which 1 other sequence still holds",
    ),
    (
        PageReleased(0, 0, 0),
        "seq:0 is decoding and lets go of p0.1: it stays findable, and waits at the back of the "
        "free queue to be evicted as late as possible",
    ),
    (SequenceAdmitted(1), "seq:1 is admitted: all its 9 tokens are to compute"),
    (
        SequenceAdmitted(2, 3),
        "seq:2 is resumed with 3 of its 4 tokens from the prefix cache: 1 is left to compute",
    ),
    (
        SequenceScheduled(0, 5),
        "seq:0 gets one token of the budget: it computes token 5, “was”, to find the next (1 of "
        "16 used)",
    ),
    (
        SequenceScheduled(1, 4, 3),
        "seq:1 gets 3 of the budget: it computes tokens 4 to 6 of 9; 2 tokens left for later steps "
        "(3 of 16 used)",
    ),
    (
        SequenceScheduled(2, 0, 4),
        "seq:2 gets 4 of the budget: it computes tokens 0 to 3 of 4 again, the last it knows (4 of "
        "16 used)",
    ),
    (
        SequencePreempted(0, 5, 6),
        "seq:5 needs a page and none is free, so seq:0, the last one running, is preempted: it "
        "loses 2 pages and 6 computed tokens, keeps its text and waits in front",
    ),
    (
        SequencePreempted(0, 0, 6),
        "seq:0 needs a page, none is free and it is the last one running, so it is preempted "
        "itself: it loses 2 pages and 6 computed tokens, keeps its text and waits in front",
    ),
    (
        SequencePreempted(0, 1, 6, 2),
        "seq:1 needs a page and none is free, so the beam seq:0, which only waits for the others, "
        "is preempted: it loses 2 pages and 6 computed tokens, keeps its text and waits at the "
        "back",
    ),
    (
        SwappedOut(0, 6, (0, 1)),
        "Keys and values of tokens 0 to 5 of seq:0 are copied to 2 host pages, so that they need "
        "not be computed again",
    ),
    (
        SwappedIn(0, 4, 2),
        "Keys and values of tokens 4 to 5 of seq:0 are copied back from the host, and its host "
        "pages are free again",
    ),
    (
        SwappedIn(0, 8, 0),
        "seq:0 lets go of its host pages: the prefix cache has all that was in them",
    ),
    (
        SequenceAdmitted(1, 4, 3),
        "seq:1 is admitted with 4 from the prefix cache and 3 back from the host of its 9 tokens: "
        "2 are left to compute",
    ),
    (
        SlotsWritten(0, 5),
        "Keys and values of seq:0's token 5, “was”, are in p1.2, slot 1",
    ),
    (
        SlotsWritten(0, 4, 2),
        "Keys and values of seq:0's tokens 4 to 5 are in p1.2, slots 0 to 1",
    ),
    (
        SlotsWritten(0, 2, 4),
        "Keys and values of seq:0's tokens 2 to 5 are in p0.1 slot 2 to p1.2 slot 1, over 2 pages",
    ),
    (TokenSampled(0, 7), "seq:0 samples token 6: “shy”"),
    (TokenSampled(0), "seq:0 samples token 6: an unknown token"),
    (
        StateChanged(0, "decoding"),
        "seq:0 is now decoding: all it knew is computed, from now on it is one token a step",
    ),
    (
        SequenceFinished(0, "eos"),
        "seq:0 is finished with 1 new token: the model ended the text",
    ),
    (
        InvariantViolated(2, "p0 has ref count 2, 1 page table holds it", 0),
        "Rule 2 is broken (ref counts): p0 has ref count 2, 1 page table holds it",
    ),
    (
        InvariantViolated(99, "p9 is odd", 9),
        "Rule 99 is broken (unknown here): p9 is odd",
    ),
    (
        PrefixLookedUp(1, 0, "disabled"),
        "seq:1 gets nothing from the prefix cache: prefix caching is off in this run",
    ),
    (
        PrefixLookedUp(1, 8, "full_hit", (0, 2)),
        "seq:1 hits: its first 8 of 9 tokens are in p0.1 and p2.1; the rest is always computed, "
        "because its last token has to give the next one",
    ),
    (
        PrefixLookedUp(1, 4, "diverged", (0,), 5, 6, 8),
        "seq:1 hits: its first 4 of 9 tokens are in p0.1; token 5 differs: “girl” here, “a” in "
        "the cache",
    ),
    (
        PrefixLookedUp(1, 4, "evicted", (0,), 4, evicted_step=2),
        "seq:1 hits: its first 4 of 9 tokens are in p0.1; the page from token 4 on was there, but "
        "was evicted in step 2",
    ),
    (
        PrefixLookedUp(1, 0, "never_seen", position=0),
        "seq:1 misses: none of its 9 tokens are in the prefix cache; no other prompt has started "
        "like this",
    ),
    (
        PrefixLookedUp(1, 4, "never_seen", (0,), 4),
        "seq:1 hits: its first 4 of 9 tokens are in p0.1; nobody has computed what comes next",
    ),
    (
        PrefixLookedUp(1, 0, "other_adapter", position=0),
        "seq:1 misses: none of its 9 tokens are in the prefix cache; the text is there, but "
        "computed with another adapter",
    ),
    (
        PrefixLookedUp(2, 0, "prompt_shorter_than_a_page"),
        "seq:2 misses: none of its 4 tokens are in the prefix cache; only whole pages of 4 with a "
        "token after them can be found",
    ),
]


@pytest.mark.parametrize(("event", "said"), SAID, ids=lambda value: type(value).__name__)
def test_it_says_what_happened_and_why(event: Event, said: str) -> None:
    assert sentence(event, Context(BEFORE, word, SETTINGS)) == said


def test_every_event_type_is_among_the_examples() -> None:
    assert {type(event) for event, _ in SAID} == set(EVENT_TYPES)


def test_an_eviction_names_who_needs_the_page_when_the_next_event_tells() -> None:
    context = Context(BEFORE, word, SETTINGS, following=PageAllocated(2, 2, 1, 2))
    assert sentence(PageEvicted(2, 0xDEF), context) == (
        "seq:1 needs a page for token 8: the head of the free queue is p2.1, which still held the "
        "cached text “there was a shy”, so that is evicted and no prompt can find it any more"
    )


def test_a_sampled_token_is_compared_with_its_nearest_rival() -> None:
    context = Context(BEFORE, word, candidates=((7, -0.0513), (8, -3.0)))
    assert sentence(TokenSampled(0, 7), context) == (
        "seq:0 samples token 6: “shy” (the model gives it 95 %, “girl” would be next with 5 %)"
    )


def test_without_settings_no_total_is_made_up() -> None:
    said = sentence(SequenceScheduled(0, 5), Context(BEFORE, word))
    assert said.endswith("to find the next")


@pytest.mark.parametrize("trace", [shared_start(), tight()], ids=["shared start", "tight"])
def test_every_moment_of_a_run_has_a_sentence_that_fits(trace: Trace) -> None:
    for step in range(trace.num_steps):
        lines = event_lines(trace, step, word)
        assert [line.number for line in lines] == list(range(1, trace.num_events(step) + 1))
        assert all(len(line.text) <= 60 for line in lines)
        for event in (*range(trace.num_events(step) + 1), None):
            said = moment_sentence(trace, Moment(step, event), word)
            assert 20 < len(said) <= 220
            assert not said.endswith(".")


@pytest.mark.parametrize(("event", "said"), SAID, ids=lambda value: type(value).__name__)
def test_the_line_of_an_event_list_is_shorter(event: Event, said: str) -> None:
    line = headline(event, BEFORE, word)
    assert 10 < len(line) <= 60
    assert not line.endswith(".")


def test_a_step_is_summed_up_by_who_computed_what_and_what_changed() -> None:
    trace = shared_start()
    assert moment_sentence(trace, Moment(0, 0), word) == (
        "Step 0 begins with nothing to do: all 8 pages are unowned"
    )
    assert moment_sentence(trace, Moment(1, 0), word) == (
        "Step 1 begins: 1 sequence runs, none waits, 6 of 8 pages can be taken"
    )
    assert moment_sentence(trace, Moment(1), word) == (
        "Step 1: seq:1 hit with 4 tokens, then token 5 is “named”, not “was”; "
        "seq:0 computed one token and seq:1 computed tokens 4 to 8 (6 of 512 in budget); "
        "seq:1 admitted; 2 pages taken; 1 page shared"
    )


def test_the_summary_of_a_step_begins_with_its_preemptions_and_their_cost() -> None:
    assert moment_sentence(tight(), Moment(2), word) == (
        "Step 2: seq:0 needed a page, none was free, so seq:2 was preempted and lost 3 computed "
        "tokens; seq:0 and seq:1 computed one token each (2 of 8 in budget); 2 pages taken; "
        "1 page evicted"
    )


def test_a_later_preemption_says_which_one_it_is() -> None:
    for already, said in ((0, ""), (1, " for the 2nd time"), (10, " for the 11th time")):
        tom = SEQUENCES[1]._replace(num_preemptions=already)
        before = BEFORE._replace(sequences=(SEQUENCES[0], tom))
        told = sentence(SequencePreempted(1, 0, 5), Context(before, word))
        assert f"seq:1, the last one running, is preempted{said}: it loses" in told
