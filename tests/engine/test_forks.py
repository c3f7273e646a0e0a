"""Forks: pages shared to the last slot, copied at the first write, and released by whoever leaves."""

from __future__ import annotations

import pytest

from pagedviz.engine import Engine, EngineConfig, SamplingParams, SeqId
from pagedviz.engine.errors import ConfigError, IllegalTransition, SequenceNotFound
from pagedviz.engine.events import PageCopied, PageShared, SequenceForked
from pagedviz.model import load_tiny
from tests.engine.kit import ChainModel, CheckedEngine, of_type, table

CONFIG = EngineConfig(num_pages=12, block_size=4, max_running=4)


def running_lab(config: EngineConfig = CONFIG) -> CheckedEngine:
    """seq:0 with six prompt tokens, one generated: p0 is full, two of four slots of p1 are."""
    lab = CheckedEngine(config)
    lab.submit([1, 1, 1, 1, 2, 2], [7, 8, 9, 7, 8, 9])
    lab.step()
    return lab


def test_a_fork_holds_all_pages_of_its_parent_the_partial_tail_included() -> None:
    lab = running_lab()
    child = lab.engine.fork(SeqId(0), forced_ids=[5, 6, 5, 6, 5])
    snapshot = lab.engine.snapshot()
    assert table(snapshot, child) == table(snapshot, 0) == [0, 1]
    assert [page.ref_count for page in snapshot.pages[:3]] == [2, 2, 0]
    assert snapshot.running == (0, 1)
    assert snapshot.sequence(1).parent_id == 0
    assert snapshot.sequence(1).name == "seq:0/2"


def test_the_first_to_write_copies_the_tail_and_the_last_keeps_it() -> None:
    lab = running_lab()
    lab.engine.fork(SeqId(0), forced_ids=[5, 6, 5, 6, 5])
    lab.step()
    [copied] = of_type(lab.all_events[-1], PageCopied)
    # seq:0 writes first: its tail moves to p2; seq:1 is then the only owner of p1.
    assert copied == PageCopied(2, 1, 1, 1, 0, 1, 2)
    assert table(lab.after, 0) == [0, 2]
    assert table(lab.after, 1) == [0, 1]
    assert [page.ref_count for page in lab.after.pages[:3]] == [2, 1, 1]
    assert [page.fill for page in lab.after.pages[:3]] == [4, 3, 3]


def test_three_forks_make_three_copies_of_the_tail() -> None:
    lab = running_lab()
    for first in (4, 5, 6):
        lab.engine.fork(SeqId(0), forced_ids=[first] * 5)
    lab.step()
    assert [e.source_ref_count for e in of_type(lab.all_events[-1], PageCopied)] == [3, 2, 1]
    assert len({table(lab.after, seq_id)[1] for seq_id in range(4)}) == 4
    lab.finish()
    lab.assert_all_is_free()


def test_a_full_tail_is_shared_and_never_copied() -> None:
    lab = CheckedEngine(CONFIG)
    lab.submit([1, 1, 1, 1], [7, 8, 9])
    lab.step()
    lab.engine.fork(SeqId(0), forced_ids=[5, 6])
    lab.step()
    assert not of_type(lab.all_events[-1], PageCopied)
    assert [table(lab.after, seq_id)[0] for seq_id in (0, 1)] == [0, 0]


def test_a_copy_that_does_not_fit_preempts_the_last_running_sequence() -> None:
    lab = running_lab(EngineConfig(num_pages=3, block_size=4))
    for _ in range(2):
        lab.engine.fork(SeqId(0), forced_ids=[5] * 5)
    outcome = lab.step()
    # seq:0 took the last free page for its copy; with seq:2 preempted, seq:1 is alone in p1.
    assert outcome.plan.preempted == [SeqId(2)]
    assert [copied.seq_id for copied in of_type(lab.all_events[-1], PageCopied)] == [0]
    lab.finish()
    assert [s.generated_ids[1:] for s in lab.after.sequences] == [(8, 9, 7, 8, 9), *[(5,) * 5] * 2]
    lab.assert_all_is_free()


def test_a_fork_of_a_waiting_sequence_waits_without_pages() -> None:
    lab = CheckedEngine(CONFIG)
    lab.submit([1, 2, 3], [4, 5])
    lab.engine.fork(SeqId(0), forced_ids=[6, 7])
    lab.step()
    assert lab.finish() == 1
    assert [s.generated_ids for s in lab.after.sequences] == [(4, 5), (6, 7)]


def test_an_aborted_request_takes_its_forks_with_it_and_a_fork_only_itself() -> None:
    lab = running_lab()
    child = lab.engine.fork(SeqId(0), forced_ids=[5, 6, 5, 6, 5])
    grandchild = lab.engine.fork(child, forced_ids=[5, 6, 5, 6, 5])
    lab.engine.abort(child)
    lab.step()
    assert [lab.after.sequence(i).finish_reason for i in (0, child, grandchild)] == [
        None,
        "aborted",
        "aborted",
    ]
    other = lab.engine.fork(SeqId(0), forced_ids=[5, 6, 5, 6, 5])
    lab.engine.abort(SeqId(0))
    lab.step()
    assert lab.after.sequence(other).finish_reason == "aborted"
    lab.assert_all_is_free()


def test_forks_of_a_request_that_has_ended_can_still_be_aborted_through_it() -> None:
    lab = running_lab()
    lab.engine.fork(SeqId(0), forced_ids=[5] * 5)
    while lab.engine.sequences.get(SeqId(0)).is_active:
        lab.step()
    if lab.engine.has_unfinished:
        lab.engine.abort(SeqId(0))
    with pytest.raises(IllegalTransition, match="seq:0 has finished"):
        lab.engine.abort(SeqId(0))


@pytest.mark.parametrize(
    ("seq_id", "error", "says"),
    [(9, SequenceNotFound, "seq:9"), (0, ConfigError, "4 sequences run")],
)
def test_a_fork_that_cannot_be_made_changes_nothing(
    seq_id: int, error: type[Exception], says: str
) -> None:
    lab = running_lab()
    for _ in range(3):
        lab.engine.fork(SeqId(0), forced_ids=[5] * 5)
    before, num_events = lab.engine.snapshot(), len(lab.events)
    with pytest.raises(error, match=says):
        lab.engine.fork(SeqId(seq_id), forced_ids=[5] * 5)
    assert lab.engine.snapshot() == before
    assert len(lab.events) == num_events


def test_parallel_samples_share_one_computed_prompt() -> None:
    lab = CheckedEngine(CONFIG)
    lab.engine.submit(
        [1, 1, 1, 1, 2, 2],
        max_new_tokens=2,
        forced_ids=[7, 8],
        num_samples=3,
        forced_forks=[[4, 5], [5, 6]],
    )
    outcome = lab.step()
    assert outcome.plan.num_tokens == [6]
    assert outcome.forked == [SeqId(1), SeqId(2)]
    assert len(of_type(lab.all_events[-1], SequenceForked)) == 2
    assert len(of_type(lab.all_events[-1], PageShared)) == 4
    lab.step()
    assert [s.generated_ids for s in lab.after.sequences] == [(7, 8), (4, 5), (5, 6)]
    lab.assert_all_is_free()


def test_a_request_is_admitted_only_when_all_its_samples_may_run() -> None:
    lab = CheckedEngine(CONFIG)
    lab.submit([1], [2] * 6)
    lab.engine.submit(
        [3], max_new_tokens=4, forced_ids=[4] * 4, num_samples=4, forced_forks=[[4] * 4] * 3
    )
    lab.step()
    assert lab.after.waiting == (1,)
    lab.finish()
    assert [len(s.generated_ids) for s in lab.after.sequences] == [6, 4, 4, 4, 4]


@pytest.mark.parametrize(
    ("request_", "says"),
    [
        ({"num_samples": 0}, "num_samples must be at least 1, got 0"),
        ({"num_samples": 5}, "num_samples is 5, but at most 4"),
        ({"beam_width": 5}, "beam_width is 5, but at most 4"),
        ({"beam_width": 2, "num_samples": 2}, "one of them must be 1"),
        ({"beam_width": 2, "sampling": SamplingParams(temperature=1)}, "temperature must be 0"),
        ({"num_samples": 2, "forced_forks": [[1], [1]]}, "given for 2 further samples"),
    ],
)
def test_samples_and_beams_that_cannot_be_run_are_refused(
    request_: dict[str, object], says: str
) -> None:
    engine = Engine(CONFIG, ChainModel())
    with pytest.raises(ConfigError, match=says):
        engine.submit([1], **request_)  # type: ignore[arg-type]
    assert engine.sequences.is_empty


def test_beams_need_a_model() -> None:
    with pytest.raises(ConfigError, match="needs a model"):
        Engine(CONFIG).submit([1], max_new_tokens=1, forced_ids=[1], beam_width=2)


# ---- the same tokens as without forks ------------------------------------------------------------

STORY = "Once upon a time there was a girl"


def continuations(config: EngineConfig, requests: list[SamplingParams], num_samples: int) -> list:
    """Of all sequences, in order of submission."""
    model = load_tiny()
    assert model.tokenizer is not None
    lab = CheckedEngine(config, model)
    for sampling in requests:
        lab.engine.submit(
            model.tokenizer.encode(STORY), sampling, max_new_tokens=24, num_samples=num_samples
        )
    lab.finish()
    lab.assert_all_is_free()
    return [s.generated_ids for s in lab.after.sequences]


ROOMY = EngineConfig(num_pages=64, block_size=4, max_running=8)
TIGHT = EngineConfig(num_pages=13, block_size=4, max_running=8)


@pytest.mark.parametrize("config", [ROOMY, TIGHT], ids=["roomy", "tight"])
def test_greedy_forks_give_equal_texts(config: EngineConfig) -> None:
    [alone] = continuations(ROOMY, [SamplingParams()], 1)
    assert continuations(config, [SamplingParams()], 4) == [alone] * 4


@pytest.mark.parametrize("config", [ROOMY, TIGHT], ids=["roomy", "tight"])
@pytest.mark.parametrize("seed", [0, 17])
def test_seeded_samples_of_forks_equal_those_of_separate_requests(
    config: EngineConfig, seed: int
) -> None:
    separate = [SamplingParams(temperature=0.9, seed=seed + i) for i in range(4)]
    expected = continuations(ROOMY, separate, 1)
    assert len(set(expected)) > 1
    assert continuations(config, separate[:1], 4) == expected


@pytest.mark.parametrize("after", [1, 2, 3, 5])
def test_a_fork_in_mid_text_goes_on_as_its_parent_would(after: int) -> None:
    model = ChainModel()
    lab = CheckedEngine(EngineConfig(num_pages=30, block_size=4), model)
    prompt = [1, 2, 3, 1, 2]
    lab.engine.submit(prompt, max_new_tokens=12)
    for _ in range(after):
        lab.step()
    if lab.engine.has_unfinished:
        lab.engine.fork(SeqId(0))
    lab.finish()
    expected = tuple(model.continuation(prompt, 12))
    assert {s.generated_ids for s in lab.after.sequences} == {expected}
