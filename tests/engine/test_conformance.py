"""Every recorded run of vLLM 0.33 is reproduced step for step: tokens scheduled and computed,
prefix hits, page ids, the whole free queue, cached pages, preemptions, finish order, queues."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pagedviz.scenarios.replay import replay
from pagedviz.scenarios.workload import Workload, load_workload, parse_workload

WORKLOADS = (
    "w1_single",
    "w1b_single_nocache",
    "w2_shared",
    "w3_fullhit",
    "w4_evict",
    "w5_preempt",
    "w5b_preempt_nocache",
    "w6_chunked",
    "w7_freeorder",
)
NUM_RANDOM = 40


def assert_same_steps(workload: Workload, recorded: list[dict[str, Any]]) -> None:
    ours = list(replay(workload))
    for our_step, recorded_step in zip(ours, recorded, strict=False):
        assert our_step == {"workload": workload.name, **recorded_step}
    assert len(ours) == len(recorded)


def page_ids(blocks: list[int]) -> list[int]:
    """Block 0 of vLLM is its null block, which we do not have."""
    return [block - 1 for block in blocks]


def from_trace_line(line: dict[str, Any], first_id: int = 1) -> dict[str, Any]:
    def page_ids(blocks: list[int]) -> list[int]:
        return [block - first_id for block in blocks]

    after = line["after_output"]
    return {
        "step": line["step"],
        "scheduled": {
            name: [
                item["num_scheduled_tokens"],
                item["num_computed_tokens"],
                item["cached_tokens"],
                page_ids(item["block_ids"]),
            ]
            for name, item in line["scheduled"].items()
        },
        "preempted": line["preempted"],
        "finished": line["finished"],
        "free_queue": page_ids(after["free_queue"]),
        "cached": sorted(page_ids([int(block) for block in after["cached"]])),
        "running": line["running"],
        "waiting": line["waiting"],
    }


def from_random_step(step: dict[str, Any]) -> dict[str, Any]:
    return step | {
        "scheduled": {
            name: [scheduled, computed, cached, page_ids(blocks)]
            for name, (scheduled, computed, cached, blocks) in step["scheduled"].items()
        },
        "free_queue": page_ids(step["free_queue"]),
        "cached": page_ids(step["cached"]),
    }


@pytest.mark.parametrize("name", WORKLOADS)
def test_a_recorded_workload_is_reproduced_step_for_step(oracle_dir: Path, name: str) -> None:
    schedulers = oracle_dir / "schedulers"
    with open(schedulers / "vllm_0.33.0" / f"{name}.jsonl", encoding="utf-8") as file:
        lines = [json.loads(line) for line in file]
    recorded = [from_trace_line(line) for line in lines if "meta" not in line]
    assert len(recorded) == len(lines) - 1
    assert_same_steps(load_workload(schedulers / "workloads" / f"{name}.json"), recorded)


@pytest.mark.parametrize("name", WORKLOADS)
def test_a_run_of_nano_vllm_is_reproduced_step_for_step(oracle_dir: Path, name: str) -> None:
    schedulers = oracle_dir / "schedulers"
    with open(schedulers / "nano_vllm" / f"{name}.jsonl", encoding="utf-8") as file:
        meta, *lines = [json.loads(line) for line in file]
    assert meta["meta"]["engine"] == "nano-vllm"
    # It has no null block, so its ids are ours.
    recorded: list[dict[str, Any]] = []
    for line in lines:
        if line.get("idle"):  # nothing arrives, nothing runs: its record says just that
            nothing = {"scheduled": {}, "preempted": [], "finished": []}
            recorded.append({**recorded[-1], "step": line["step"], **nothing})
        else:
            recorded.append(from_trace_line(line, first_id=0))
    assert_same_steps(
        load_workload(schedulers / "workloads" / f"{name}.json", "nano_vllm"), recorded
    )


def random_cases(oracle_dir: Path) -> Iterator[tuple[Workload, list[dict[str, Any]]]]:
    with gzip.open(oracle_dir / "schedulers" / "random40.jsonl.gz", "rt", encoding="utf-8") as file:
        for line in file:
            case = json.loads(line)
            yield (
                parse_workload(case["workload"]),
                [from_random_step(step) for step in case["steps"]],
            )


@pytest.fixture(scope="module")
def cases(oracle_dir: Path) -> list[tuple[Workload, list[dict[str, Any]]]]:
    return list(random_cases(oracle_dir))


def test_no_recorded_run_is_left_out(
    oracle_dir: Path, cases: list[tuple[Workload, list[dict[str, Any]]]]
) -> None:
    files = (oracle_dir / "schedulers" / "vllm_0.33.0").glob("*.jsonl")
    assert sorted(file.stem for file in files) == sorted(WORKLOADS)
    assert len(cases) == NUM_RANDOM


@pytest.mark.parametrize("number", range(NUM_RANDOM))
def test_a_random_workload_is_reproduced_step_for_step(
    cases: list[tuple[Workload, list[dict[str, Any]]]], number: int
) -> None:
    assert_same_steps(*cases[number])


def test_the_random_workloads_preempt_share_evict_and_chunk(
    cases: list[tuple[Workload, list[dict[str, Any]]]],
) -> None:
    """What the comparison above is worth."""
    steps = [step for _, recorded in cases for step in recorded]
    scheduled = [item for step in steps for item in step["scheduled"].values()]
    assert sum(len(step["preempted"]) for step in steps) > 50
    assert sum(bool(cached) for _, _, cached, _ in scheduled) > 100
    assert sum(cached is None and tokens > 1 for tokens, _, cached, _ in scheduled) > 50
