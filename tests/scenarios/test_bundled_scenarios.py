"""The scenarios of the package show what they promise, and paging never changes what is said."""

from __future__ import annotations

import json
from collections import Counter
from functools import cache
from itertools import pairwise

import pytest

from pagedviz.engine import Snapshot
from pagedviz.engine.events import (
    AdmissionDeferred,
    Event,
    PageAllocated,
    PageCopied,
    PageEvicted,
    PageReleased,
    PageShared,
    PrefixLookedUp,
    SequenceAdmitted,
    SequenceFinished,
    SequenceForked,
    SequencePreempted,
    SequenceScheduled,
    SequenceSubmitted,
    SwappedIn,
    SwappedOut,
    TokenSampled,
)
from pagedviz.engine.invariants import check_step
from pagedviz.engine.state_hash import state_hash
from pagedviz.model import LanguageModel, load_tiny
from pagedviz.scenarios import ScenarioRun, apply_settings, load_scenario, scenario_names
from pagedviz.trace.codec import dumps, loads
from pagedviz.trace.costs import admissions, hit_rate, preemption_cost
from pagedviz.trace.queries import occupancy
from tests.scenarios.kit import assert_same_outputs

# More than all sequences of any scenario need together, even in pages of one slot.
ROOMY = 1024


@cache
def model() -> LanguageModel:
    return load_tiny()


@cache
def run(name: str) -> ScenarioRun:
    """The whole scenario as it comes."""
    return changed_run(name)


def changed_run(name: str, **settings: object) -> ScenarioRun:
    result = ScenarioRun(apply_settings(load_scenario(name), settings), model(), "tiny")
    result.run(max_steps=2000)
    assert result.is_done
    return result


@cache
def snapshots(name: str) -> list[Snapshot]:
    """The engine's own, after every step of a second run of the same scenario."""
    again = ScenarioRun(load_scenario(name), model(), "tiny")
    found = []
    while not again.is_done:
        again.step()
        found.append(again.engine.snapshot())
    return found


def events(name: str) -> list[tuple[int, Event]]:
    return [(step, e) for step, record in enumerate(run(name).trace.steps) for e in record.events]


def of_type(name: str, kind: type[Event]) -> list[tuple[int, Event]]:
    return [(step, event) for step, event in events(name) if isinstance(event, kind)]


@pytest.mark.parametrize("name", scenario_names())
def test_the_events_alone_give_the_engines_state_after_every_step(name: str) -> None:
    trace = run(name).trace
    expected = snapshots(name)
    assert trace.num_steps == len(expected)
    for folded in trace.walk():
        assert folded.after == expected[folded.step], folded.step
    for step in (0, trace.num_steps // 2, trace.num_steps - 1):
        assert trace.at(step) == expected[step]
        assert trace.state_hash(step) == state_hash(expected[step])


@pytest.mark.parametrize("name", scenario_names())
def test_no_rule_is_broken(name: str) -> None:
    trace = run(name).trace
    for folded in trace.walk():
        more = folded.step < trace.num_steps - 1
        violations = check_step(folded.before, folded.events, folded.after, more_arrivals=more)
        assert violations == [], folded.step


@pytest.mark.parametrize("name", scenario_names())
def test_all_pages_are_free_at_the_end(name: str) -> None:
    final = run(name).trace.final
    assert sorted(final.free_queue) == list(range(len(final.pages)))
    assert all(sequence.state == "finished" for sequence in final.sequences)


@pytest.mark.parametrize("name", scenario_names())
def test_a_trace_file_gives_the_same_run_again(name: str) -> None:
    trace = run(name).trace
    again = loads(dumps(trace))
    assert again.header == trace.header
    assert again.steps == trace.steps


# What must happen in each step that a scenario points at.
LOOKS: dict[str, dict[int, tuple[type[Event], ...]]] = {
    "growing": {
        0: (SequenceAdmitted, PageAllocated),
        2: (PageAllocated,),
        3: (TokenSampled,),
        37: (SequenceFinished, PageReleased),
    },
    "shared_prompt": {
        0: (PageShared,),
        16: (SequenceSubmitted, PageShared),
        20: (SequenceSubmitted, PrefixLookedUp),
        45: (SequenceFinished, PageReleased),
    },
    "burst": {
        5: (SequenceSubmitted, AdmissionDeferred),
        9: (SequenceAdmitted, AdmissionDeferred),
        10: (SequenceAdmitted, AdmissionDeferred),
        15: (PageShared,),
    },
    "thrash": {
        4: (SequencePreempted, PageAllocated),
        6: (PageEvicted,),
        16: (SequencePreempted,),
        30: (PageShared, PageEvicted),
    },
    "swap": {
        6: (SequencePreempted, SwappedOut, PageAllocated),
        27: (SequencePreempted, SwappedOut),
        38: (SwappedIn, SequenceAdmitted, PageEvicted),
        90: (SwappedIn, PageShared),
    },
    "samples": {
        0: (SequenceForked, PageShared),
        1: (PageCopied,),
        4: (SequenceSubmitted, SequenceForked),
        6: (SequenceForked, SequenceFinished, PageCopied),
    },
    "chat": {
        58: (SequenceSubmitted, PageShared),
        62: (SequenceSubmitted, PageShared),
        70: (SequenceSubmitted, PageShared),
        76: (SequenceFinished,),
    },
    "adapters": {
        0: (SequenceSubmitted, PageAllocated),
        3: (TokenSampled,),
        8: (SequenceSubmitted, PageShared),
        12: (TokenSampled,),
    },
}


@pytest.mark.parametrize("name", scenario_names())
def test_the_moments_to_look_at_are_there(name: str) -> None:
    scenario, trace = run(name).scenario, run(name).trace
    assert [moment.step for moment in scenario.look_for] == list(LOOKS[name])
    for step, kinds in LOOKS[name].items():
        happened = {type(event) for event in trace.events(step)}
        assert set(kinds) <= happened, step
    assert scenario.start_step in LOOKS[name]


def test_what_is_said_of_those_moments_is_so() -> None:
    runs = {name: run(name) for name in scenario_names()}
    growing, shared, burst, thrash, chat, adapters = (
        runs[name] for name in ("growing", "shared_prompt", "burst", "thrash", "chat", "adapters")
    )
    tokenizer = growing.model.tokenizer
    assert tokenizer is not None

    def found(result: ScenarioRun, name: str) -> list[tuple[int, int, int]]:
        seq_id = result.seq_ids[name]
        rows = [a for a in admissions(result.trace) if a.seq_id == seq_id]
        return [(a.step, a.num_hit, a.num_tokens) for a in rows]

    def scheduled(result: ScenarioRun, step: int) -> list[tuple[int, int]]:
        names = {seq_id: name for name, seq_id in result.seq_ids.items()}
        events = result.trace.events(step)
        return [(names[e.seq_id], e.num_tokens) for e in events if isinstance(e, SequenceScheduled)]

    # Fourteen pages, and "yellow" eleven pages back.
    lily = growing.trace.at(3).sequence(growing.seq_ids["lily"])
    assert len(growing.trace.at(0).sequence(lily.seq_id).page_ids) == 14
    assert tokenizer.token_text(lily.token_ids[-1]) == " yellow"
    assert (lily.num_computed - 1) // 4 - lily.token_ids.index(lily.token_ids[-1]) // 4 == 11

    assert found(shared, "tom") == [(0, 40, 53)] and found(shared, "zoe") == [(0, 40, 49)]
    assert found(shared, "max") == [(16, 40, 53)] and found(shared, "nora") == [(20, 0, 32)]
    assert [page.ref_count for page in shared.trace.at(16).pages[:5]] == [4] * 5
    assert [page.ref_count for page in shared.trace.at(45).pages[:5]] == [3] * 5

    assert scheduled(burst, 5) == [("teller", 1), ("kite", 16), ("drum", 15)]
    assert scheduled(burst, 9) == [("teller", 1), ("kite", 16), ("drum", 12), ("boat", 3)]
    assert scheduled(burst, 10) == [
        ("teller", 1),
        ("kite", 10),
        ("drum", 1),
        ("boat", 16),
        ("lamp", 4),
    ]
    assert found(burst, "stone") == [(15, 8, 85)]

    preempted = {
        step: [(e.seq_id, e.by) for e in thrash.trace.events(step) if type(e) is SequencePreempted]
        for step in (4, 16)
    }
    ben, mia = thrash.seq_ids["ben"], thrash.seq_ids["mia"]
    assert preempted == {4: [(ben, mia)], 16: [(mia, mia)]}
    assert next(step for step, _ in of_type("thrash", PageEvicted)) == 6
    assert found(thrash, "mia") == [(0, 0, 37), (30, 28, 53)]

    assert found(chat, "rosa 2") == [(58, 64, 78)]
    assert found(chat, "tom 2") == [(62, 72, 87)]
    assert found(chat, "tom 3") == [(70, 88, 103)]
    assert chat.trace.num_steps == 77

    swap, samples = runs["swap"], runs["samples"]
    lily, tom, mia, hugo = (swap.seq_ids[name] for name in ("lily", "tom", "mia", "hugo"))
    assert [(e.seq_id, e.by) for _, e in of_type("swap", SequencePreempted)][:2] == [
        (mia, lily),
        (tom, tom),
    ]
    assert [len(e.host_page_ids) for _, e in of_type("swap", SwappedOut)][:1] == [11]
    back = {
        step: [e for e in swap.trace.events(step) if isinstance(e, SwappedIn)] for step in (38, 90)
    }
    assert [e.seq_id for e in back[38]] == [tom, mia]
    assert [(e.seq_id, e.num_tokens) for e in back[90]] == [(hugo, 3)]

    assert [e.source_ref_count for e in samples.trace.events(1) if isinstance(e, PageCopied)] == [
        2,
        1,
    ]
    forked = [e for e in samples.trace.events(4) if isinstance(e, SequenceForked)]
    assert [e.parent_id for e in forked] == [samples.seq_ids["searched"]] * 2
    pruned = [e for e in samples.trace.events(6) if isinstance(e, SequenceFinished)]
    assert [e.reason for e in pruned] == ["pruned"] * 2

    said = [e.token_id for e in adapters.trace.events(3) if isinstance(e, TokenSampled)]
    assert [tokenizer.token_text(token_id) for token_id in said] == [" yellow", " golden"]
    assert adapters.trace.at(3).sequence(adapters.seq_ids["brief"]).state == "finished"
    assert found(adapters, "golden again") == [(8, 48, 60)]
    park = adapters.trace.at(12).sequence(adapters.seq_ids["golden again"]).token_ids[-1]
    assert tokenizer.token_text(park) == " park"


@pytest.mark.parametrize("name", scenario_names())
def test_a_screen_can_show_every_page(name: str) -> None:
    engine = load_scenario(name).engine
    assert 16 <= engine.num_pages <= 64
    assert 4 <= engine.block_size <= 16


# ---- what each one promises ------------------------------------------------------------------


def test_growing_takes_page_after_page() -> None:
    taken = Counter(step for step, _ in of_type("growing", PageAllocated))
    prompt_pages = taken.pop(0)
    assert len(run("growing").engine.sequences) == 1
    assert prompt_pages >= 3
    assert len(taken) >= 6 and set(taken.values()) == {1}
    steps = sorted(taken)
    block_size = run("growing").scenario.engine.block_size
    assert {b - a for a, b in pairwise(steps)} == {block_size}


def test_shared_prompt_hits_in_the_same_step_and_later() -> None:
    found = {a.seq_id: a for a in admissions(run("shared_prompt").trace)}
    seq_ids = run("shared_prompt").seq_ids
    first, *others = (found[seq_id] for seq_id in seq_ids.values())
    assert first.num_hit == 0
    hits = [a for a in others if a.num_hit]
    assert len(hits) >= 3 and len({a.num_hit for a in hits}) == 1
    assert {a.step for a in hits} > {first.step}
    shared = max(page.ref_count for s in snapshots("shared_prompt") for page in s.pages)
    assert shared >= 3


def test_shared_prompt_explains_a_miss() -> None:
    ends = {e.seq_id: e.end for _, e in of_type("shared_prompt", PrefixLookedUp)}
    assert "diverged" in ends.values()


def test_burst_takes_prompts_in_chunks_while_another_decodes() -> None:
    engine = load_scenario("burst").engine
    chunks = Counter[int]()
    by_step = dict[int, list[int]]()
    for step, event in of_type("burst", SequenceScheduled):
        by_step.setdefault(step, []).append(event.num_tokens)
        chunks[event.seq_id] += event.num_tokens > 1
    assert max(chunks.values()) >= 4
    assert max(map(sum, by_step.values())) == engine.max_tokens_per_step
    assert engine.chunk_size is not None
    assert max(map(max, by_step.values())) == engine.chunk_size
    mixed = [sizes for sizes in by_step.values() if 1 in sizes and max(sizes) > 1]
    assert len(mixed) >= 5
    reasons = {e.reason for _, e in of_type("burst", AdmissionDeferred)}
    assert "budget" in reasons


def test_thrash_preempts_resumes_and_evicts() -> None:
    thrash = run("thrash")
    assert len(thrash.engine.sequences) >= 8
    assert thrash.trace.num_steps >= 120
    cost = preemption_cost(thrash.trace)
    assert cost.num_preemptions >= 5
    assert cost.num_rehit > 0 and cost.num_recomputed > 0 and cost.num_pending == 0
    assert any(a.is_resumed for a in admissions(thrash.trace))
    assert len(of_type("thrash", PageEvicted)) >= 20
    preempted = {e.seq_id for _, e in of_type("thrash", SequencePreempted)}
    assert len(preempted) >= 3
    assert occupancy(thrash.trace).active.max() == thrash.scenario.engine.num_pages


def test_thrash_is_small_on_disk() -> None:
    trace = run("thrash").trace
    lines = dumps(trace).splitlines(keepends=True)[1:-1]
    sizes = []
    for line in lines:
        item = json.loads(line)
        item.pop("logprobs", None)
        sizes.append(len(json.dumps(item, separators=(",", ":"), ensure_ascii=False)) + 1)
    assert len(sizes) == trace.num_steps
    assert sum(sizes) / trace.num_steps <= 300
    assert sum(sizes) / trace.total_events <= 120


def test_chat_finds_the_earlier_turns() -> None:
    chat = run("chat")
    block_size = chat.scenario.engine.block_size
    num_cached = {e.seq_id: e.num_cached for _, e in of_type("chat", SequenceAdmitted)}
    turns = 0
    for request in chat.scenario.requests:
        if request.follows is None:
            continue
        before = chat.sequence(request.follows)
        # The last token was sampled and never computed.
        full = (before.num_tokens - 1) // block_size * block_size
        assert num_cached[chat.seq_ids[request.name]] == full > 0
        turns += 1
    assert turns >= 4
    assert hit_rate(chat.trace).rate is not None and hit_rate(chat.trace).rate > 0.4


def test_adapters_share_pages_only_with_their_own() -> None:
    ends = {e.seq_id: e.end for _, e in of_type("adapters", PrefixLookedUp)}
    assert list(ends.values()) == ["never_seen", "other_adapter", "other_adapter", "diverged"]
    first = snapshots("adapters")[0]
    chains = [set(view.page_ids) for view in first.sequences]
    assert len(set.union(*chains)) == sum(map(len, chains)) == 21
    golden = first.sequence(run("adapters").seq_ids["golden"]).page_ids
    again = snapshots("adapters")[8].sequence(run("adapters").seq_ids["golden again"]).page_ids
    assert again[:6] == golden[:6] and again[6] != golden[6]


# ---- what the pages do never shows in the text -----------------------------------------------


@pytest.mark.parametrize("name", scenario_names())
@pytest.mark.parametrize(
    ("what", "settings"),
    [
        ("caching off", {"prefix_caching": False}),
        ("never preempted", {"num_pages": ROOMY}),
        ("whole prompts", {"chunk_size": None, "max_tokens_per_step": 4096}),
        ("chunks of 5", {"chunk_size": 5}),
        ("victims computed again", {"preemption": "recompute"}),
        ("victims swapped", {"preemption": "swap", "host_pages": 64}),
        ("a host of five pages", {"preemption": "swap", "host_pages": 5}),
        ("as nano-vllm does", {"profile": "nano_vllm", "chunk_size": None}),
        ("one at a time", {"max_running": 1}),
        ("pages of one slot", {"block_size": 1, "num_pages": ROOMY}),
        (
            "nothing shared, nobody waits",
            {"num_pages": ROOMY, "prefix_caching": False, "max_tokens_per_step": 4096},
        ),
    ],
    ids=lambda value: value.replace(" ", "-") if isinstance(value, str) else "",
)
def test_the_text_is_the_same(name: str, what: str, settings: dict[str, object]) -> None:
    widest = max(max(r.num_samples, r.beam_width) for r in run(name).scenario.requests)
    if "max_running" in settings:
        settings = {"max_running": widest}
    other = changed_run(name, **settings)
    if "num_pages" in settings:
        assert preemption_cost(other.trace).num_preemptions == 0
    if settings.get("prefix_caching") is False:
        assert not of_hits(other)
    assert_same_outputs(run(name), other, what)


def of_hits(result: ScenarioRun) -> list[int]:
    return [
        event.num_cached
        for record in result.trace.steps
        for event in record.events
        if isinstance(event, SequenceAdmitted) and event.num_cached
    ]


@pytest.mark.parametrize("name", scenario_names())
def test_what_the_prompts_tell_comes_back(name: str) -> None:
    """A wrong word on screen must mean a damaged page, never a prompt the model cannot read."""
    for request, words in RECALLED[name].items():
        text = run(name).text(request)
        assert [word for word in words if word not in text] == [], (request, text)


RECALLED_OF_THRASH = ("lily", "tom", "mia", "ben", "ruby", "hugo")
RECALLED: dict[str, dict[str, tuple[str, ...]]] = {
    "growing": {"lily": ("The kite was yellow.", "It was Lily.", "went to the park.")},
    "shared_prompt": {
        "lily": ("girl named Lily", "a red kite"),
        "tom": ("Tom was a little boy", "The boat was blue"),
        "zoe": ("girl called Zoe",),
        "max": ("boy named Max", "The lamp was green"),
        "nora": ("girl called Nora", "The shell was white"),
    },
    "burst": {
        "teller": ("girl named Mia", "The bell was orange"),
        "kite": ("The kite was red.",),
        "drum": ("Hugo went to the forest.",),
        "boat": ("It was Finn.",),
        "lamp": ("found near the bridge.",),
        "stone": ("It was Leo.",),
    },
    "thrash": {
        "lily": ("The kite was red.", "It was Lily.", "Lily went to the park."),
        "tom": ("Tom went to the lake.", "It was Tom.", "The boat was blue."),
        "mia": ("It was Mia.", "The box was green."),
        "ben": ("The bell was orange.", "It was Ben."),
        "ruby": ("Ruby went to the library.", "It was Ruby.", "The lamp was yellow."),
        "hugo": ("It was Hugo.", "The bag was brown."),
        "nora": ("The doll was white.", "It was Nora.", "Nora went to the forest."),
        "carl": ("Carl went to the garden.", "The key was grey.", "It was Carl."),
        "clara": ("It was Clara.", "The basket was pink."),
        "finn": ("The ring was golden.", "It was Finn.", "Finn went to the beach."),
    },
    "samples": {"sampled": ("The drum was white.",), "searched": ("play all day.",)},
    "chat": {
        "tom 1": ("The kite was blue.", "Tom went to the river."),
        "rosa 1": ("The bell was golden.", "Rosa went to the barn"),
        "tom 2": ("The kite was blue.",),
        "rosa 2": ("Rosa went to the barn.",),
        "tom 3": ("Tom went to the river.",),
        "rosa 3": ("It was Rosa.",),
    },
    "adapters": {
        "plain": ("The kite was yellow. Who had the kite? It was Lily.",),
        "brief": ("yellow.",),
        "golden": ("The kite was golden.",),
        "golden again": ("Lily went to the park.",),
    },
}


# The same stories, so the same answers.
RECALLED["swap"] = {name: RECALLED["thrash"][name] for name in RECALLED_OF_THRASH}


def test_a_difference_that_is_not_rounding_is_found() -> None:
    growing = run("growing")
    prompt = growing.scenario.requests[0].prompt
    assert prompt is not None
    changed = {"lily": {"prompt": prompt.replace("yellow", "grey")}}
    with pytest.raises(AssertionError, match="of lily differs"):
        assert_same_outputs(growing, changed_run("growing", requests=changed), "another colour")
