"""Replays a workload without a model: one record a step of what the scheduler decided.

Invariants: the records are folded from the engine's events and its state after the step; nothing in
the engine is touched to see them; a replay always ends: finished, stalled, or at `max_steps`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pagedviz.engine.engine import Engine
from pagedviz.engine.errors import PagedVizError
from pagedviz.engine.events import (
    Emitted,
    PageAllocated,
    PageCopied,
    PageReleased,
    PageShared,
    SequenceAdmitted,
    SlotsWritten,
    TokenSampled,
    as_event,
)
from pagedviz.engine.snapshot import Snapshot
from pagedviz.scenarios.workload import Workload, WorkloadRequest


class Stall(PagedVizError):
    """A workload that can never finish, or did not within its max_steps."""


def replay(workload: Workload) -> Iterator[dict[str, Any]]:
    """Records until all requests have finished; the keys, in order:

    workload: its name. step: from 0, idle ones included. scheduled: by request id, [tokens of this
    step, tokens computed before it (hits included), tokens found in the prefix cache or None if it
    ran already, page ids of its table once the step is planned]. preempted: in the order they now
    wait in. finished: by id. free_queue (front first), cached (ascending page ids), running,
    waiting: after the step.

    Raises Stall, after the record that shows it, when nothing will ever change again.
    """
    tables = _Tables()
    engine = Engine(workload.engine, emit=tables.fold)
    # sorted() is stable: requests of one step are submitted in the order of the file.
    arrivals = sorted(workload.requests, key=lambda request: request.arrival_step)[::-1]
    requests: dict[int, WorkloadRequest] = {}
    sampled_before: int | None = None
    while arrivals or engine.has_unfinished:
        step = engine.num_steps
        if workload.max_steps is not None and step >= workload.max_steps:
            unfinished = len(workload.requests) - _num_finished(engine)
            raise Stall(
                f"{workload.name}: {unfinished} of {len(workload.requests)} requests have not "
                f"finished after {step} steps, the workload's max_steps"
            )
        while arrivals and arrivals[-1].arrival_step <= step:
            request = arrivals.pop()
            seq_id = engine.submit(
                request.prompt_ids,
                max_new_tokens=len(request.output_ids),
                forced_ids=request.output_ids,
                name=request.name,
            )
            requests[seq_id] = request
        outcome = engine.step()
        plan, state = outcome.plan, engine.snapshot()
        yield {
            "workload": workload.name,
            "step": step,
            "scheduled": {
                requests[seq_id].name: list(scheduled)
                for seq_id, scheduled in tables.take().items()
            },
            # The last one preempted waits in front.
            "preempted": [requests[seq_id].name for seq_id in reversed(plan.preempted)],
            "finished": sorted(requests[seq_id].name for seq_id in outcome.finished),
            "free_queue": [int(page_id) for page_id in state.free_queue],
            "cached": [int(page_id) for page_id in state.cached_page_ids],
            **_queues(engine, state, {seq_id: r.name for seq_id, r in requests.items()}),
        }
        if arrivals or plan.sequences or state.running or not state.waiting:
            continue
        # Nothing ran and nothing runs. Without a preemption the next step is the same. With one,
        # a request had all pages and needed more; if nothing was sampled since that happened
        # before, it will happen again.
        if not plan.preempted or tables.num_sampled == sampled_before:
            raise _stall(workload, requests[state.waiting[0]], step)
        sampled_before = tables.num_sampled


def _queues(engine: Engine, state: Snapshot, names: dict[int, str]) -> dict[str, list[str]]:
    """Who runs and who waits, by name, as the profile's engine calls it."""
    early = [
        seq_id
        for seq_id in state.running
        if engine.profile.lists_prefilling_as_waiting
        and state.sequence(seq_id).state == "prefilling"
    ]
    running = [seq_id for seq_id in state.running if seq_id not in early]
    return {
        "running": [names[seq_id] for seq_id in running],
        "waiting": [names[seq_id] for seq_id in (*early, *state.waiting)],
    }


def _stall(workload: Workload, head: WorkloadRequest, step: int) -> Stall:
    config = workload.engine
    return Stall(
        f"{workload.name}: stalled at step {step}: request {head.name!r} needs "
        f"{head.pages_needed(config.block_size)} pages of {config.block_size} slots, the pool has "
        f"{config.num_pages}; enlarge it or shorten the request"
    )


def _num_finished(engine: Engine) -> int:
    return sum(not view.is_active for view in engine.sequences)


class _Tables:
    """Page tables folded from events, and what each sequence of the step under way was given."""

    def __init__(self) -> None:
        self.num_sampled = 0
        self._tables: dict[int, list[int]] = {}
        self._num_cached: dict[int, int] = {}
        self._scheduled: dict[int, tuple[int, int, int | None, list[int]]] = {}

    def fold(self, emitted: Emitted) -> None:
        event = as_event(emitted)
        match event:
            case PageAllocated() | PageShared():
                self._tables.setdefault(event.seq_id, []).append(int(event.page_id))
            case PageCopied():
                self._tables[event.seq_id][event.logical_index] = int(event.page_id)
            case PageReleased():
                self._tables[event.seq_id].remove(event.page_id)
            case SequenceAdmitted():
                self._num_cached[event.seq_id] = event.num_cached
            case SlotsWritten():
                # Written after all is planned and before anything is released.
                self._scheduled[event.seq_id] = (
                    event.num_tokens,
                    event.start,
                    self._num_cached.get(event.seq_id),
                    list(self._tables[event.seq_id]),
                )
            case TokenSampled():
                self.num_sampled += 1
            case _:
                pass

    def take(self) -> dict[int, tuple[int, int, int | None, list[int]]]:
        """By sequence, in the order of the plan: tokens, start, tokens found cached, page ids."""
        scheduled, self._scheduled, self._num_cached = self._scheduled, {}, {}
        return scheduled
