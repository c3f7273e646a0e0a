"""Workload files: requests with known output tokens, as schedulers are compared with.

    {"name": ..., "num_blocks": 9, "block_size": 16, "max_num_batched_tokens": 512,
     "max_num_seqs": 16, "enable_prefix_caching": true, "requests": [
         {"id": "a", "arrival_step": 0, "prompt_token_ids": [...], "output_token_ids": [...]}],
     "vllm": {"reserve_full_isl": true, "watermark": 0.0, "max_steps": 3000}}

`note`, `nano_vllm` and `vllm` with its keys may be missing. The format is not ours: keys that it
gains are let pass. Invariants: every key that is used was checked; block 0 of `num_blocks` is
vLLM's null block, which holds nothing, so our pool has one page less and page p is block p + 1.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

from pagedviz.engine.config import MAX_BLOCK_SIZE, MAX_PAGES, EngineConfig
from pagedviz.engine.errors import ConfigError, ScenarioError
from pagedviz.scenarios.tables import Table, show

MAX_FILE_BYTES = 100_000_000
MAX_REQUESTS = 100_000
MAX_TOKENS = 1_000_000
MAX_COUNT = 1_000_000_000
MAX_STEPS = 1_000_000
MAX_NAME_CHARS = 1_000
MAX_NOTE_CHARS = 100_000


@dataclass(frozen=True, slots=True)
class WorkloadRequest:
    """arrival_step: the step it is submitted before. output_ids: taken instead of sampled ones."""

    name: str
    arrival_step: int
    prompt_ids: tuple[int, ...]
    output_ids: tuple[int, ...]

    def pages_needed(self, block_size: int) -> int:
        """At its end; the last output token is never computed and needs no slot."""
        return -(-(len(self.prompt_ids) + len(self.output_ids) - 1) // block_size)


@dataclass(frozen=True, slots=True)
class Workload:
    """max_steps: where a replay that has not finished gives up; None = nowhere."""

    name: str
    engine: EngineConfig
    requests: tuple[WorkloadRequest, ...]
    max_steps: int | None


def load_workload(path: str | Path, profile: str = "vllm") -> Workload:
    """profile: as EngineConfig takes it; the format itself is every engine's.

    ScenarioError is one sentence that says what is wrong with the file and where."""
    try:
        with open(path, "rb") as file:
            data = file.read(MAX_FILE_BYTES + 1)
    except OSError as error:
        raise ScenarioError(f"cannot read {path}: {error.strerror}") from None
    except ValueError as error:  # a null character in the name
        raise ScenarioError(f"cannot read {show(str(path))}: {error}") from None
    if len(data) > MAX_FILE_BYTES:
        raise ScenarioError(f"{path} is larger than {MAX_FILE_BYTES} bytes, the most that is read")
    try:
        return parse_workload(_parse_json(data), profile)
    except ScenarioError as error:
        raise ScenarioError(f"{path}: {error}") from None


def parse_workload(values: object, profile: str = "vllm") -> Workload:
    """The workload in the object of a JSON file. ScenarioError names the key."""
    table = Table("", values)
    if "note" in table:
        table.text("note", MAX_NOTE_CHARS)
    table.table("nano_vllm")  # another engine's switches
    vllm = table.table("vllm")
    try:
        config = EngineConfig(
            num_pages=table.whole("num_blocks", 2, MAX_PAGES + 1) - 1,
            block_size=table.whole("block_size", 1, MAX_BLOCK_SIZE),
            max_running=table.whole("max_num_seqs", 1, MAX_COUNT),
            max_tokens_per_step=table.whole("max_num_batched_tokens", 1, MAX_COUNT),
            prefix_caching=table.flag("enable_prefix_caching"),
            full_prompt_gate=vllm.flag("reserve_full_isl", default=True),
            watermark=vllm.number("watermark", 0.0),
            reject_impossible=False,
            profile=profile,
        )
    except ConfigError as error:
        raise ScenarioError(f'"vllm": {error}') from None
    return Workload(
        name=table.line("name", MAX_NAME_CHARS),
        engine=config,
        requests=_parse_requests(table),
        max_steps=vllm.whole("max_steps", 1, MAX_COUNT) if "max_steps" in vllm else None,
    )


def _parse_requests(workload: Table) -> tuple[WorkloadRequest, ...]:
    items = workload.list("requests", MAX_REQUESTS)
    if not items:
        raise workload.error('"requests" is empty: at least one is needed')
    requests: dict[str, WorkloadRequest] = {}
    for number, item in enumerate(items, 1):
        table = Table(f"request {number}", item)
        name = table.line("id", MAX_NAME_CHARS)
        if name in requests:
            raise workload.error(f"request {number}: the id {show(name)} is taken")
        requests[name] = WorkloadRequest(
            name,
            table.whole("arrival_step", 0, MAX_STEPS),
            table.token_ids("prompt_token_ids", MAX_TOKENS),
            table.token_ids("output_token_ids", MAX_TOKENS),
        )
    return tuple(requests.values())


def _parse_json(data: bytes) -> object:
    try:
        return json.loads(
            data.decode("utf-8"), object_pairs_hook=_unique_keys, parse_constant=_no_constant
        )
    except UnicodeDecodeError as error:
        raise ScenarioError(f"byte {error.start} is not UTF-8") from None
    except json.JSONDecodeError as error:
        raise ScenarioError(
            f"not JSON: {error.msg} in line {error.lineno}, column {error.colno}"
        ) from None
    except ValueError as error:  # int() refuses numbers of thousands of digits
        raise ScenarioError(f"not JSON that can be read: {error}") from None
    except RecursionError:
        raise ScenarioError("not JSON that can be read: it is nested too deeply") from None


def _unique_keys(pairs: list[tuple[str, Any]]) -> Mapping[str, Any]:
    result = dict(pairs)
    if len(result) < len(pairs):
        keys = [key for key, _ in pairs]
        twice = next(key for key in keys if keys.count(key) > 1)
        raise ScenarioError(f"the key {show(twice)} is given twice in one object")
    return result


def _no_constant(word: str) -> NoReturn:
    raise ScenarioError(f"{word} is not a number of JSON")
