"""What the live checker finds once something does not hold: the slow rules asked of a snapshot, and
the lookup map, which no snapshot shows, asked entry by entry.

Invariant: a finding names one place once, by rule, page and sequence; looking changes nothing.
"""

from __future__ import annotations

from collections import Counter

from pagedviz.engine.events import InvariantViolated
from pagedviz.engine.invariants import Violation, check_facts, check_snapshot
from pagedviz.engine.live_state import Audited, LiveState
from pagedviz.engine.prefix_entry import Entry
from pagedviz.engine.rules import RULES
from pagedviz.engine.snapshot import Snapshot
from pagedviz.engine.snapshot_builder import build_snapshot
from pagedviz.engine.step_facts import StepFacts
from pagedviz.engine.step_start import StepStart

# Some list the tokens of a page, which may be large.
MAX_MESSAGE = 500


def explain(
    state: LiveState,
    start: StepStart | None,
    facts: StepFacts | None,
    fills: list[int],
    more_arrivals: bool,
) -> list[Violation]:
    """What the slow rules find, asked with the fills that the engine tells and with those that
    its events add up to."""
    after = audited_snapshot(state.engine)
    reserves = state.engine.scheduler.reserves_prompts
    if start is None or facts is None:
        found = check_snapshot(after, reserves_prompts=reserves)
    else:
        found = check_facts(start, facts, after, more_arrivals, reserves)
    pages = tuple(page._replace(fill=fill) for page, fill in zip(after.pages, fills, strict=True))
    if pages != after.pages:
        found += check_snapshot(after._replace(pages=pages), reserves_prompts=reserves)
    found += _map_errors(state) + _host_errors(state)
    return one_by_place(found)


def one_by_place(found: list[Violation]) -> list[Violation]:
    by_place = {(v.rule, v.page_id, v.seq_id): v for v in reversed(found)}
    return sorted(by_place.values(), key=lambda v: (v.rule, v.page_id or 0, v.seq_id or 0))


def violated_event(violation: Violation) -> InvariantViolated:
    """What a trace has of a violation."""
    page_id = violation.page_id
    if page_id is not None and page_id < 0:
        page_id = None  # a broken table; the message has the number
    message = violation.message
    if len(message) > MAX_MESSAGE:
        message = f"{message[: MAX_MESSAGE - 1]}\u2026"
    return InvariantViolated(violation.rule, message, page_id, violation.seq_id)


def _map_errors(state: LiveState) -> list[Violation]:
    """Pages that a lookup finds by another entry than the one they are listed under."""
    found = []
    cache = state.engine.block_manager.cache
    listed_under = {int(p): e for p, e in cache.entry_of.items()}
    wrong: list[tuple[int, Entry | None, Entry | None]] = [
        (int(page_id), entry, listed_under.get(page_id))
        for entry in cache.entries.values()
        for page_id in entry.page_ids
        if listed_under.get(page_id) is not entry
    ]
    missing = listed_under.keys() - {p for entry in cache.entries.values() for p in entry.page_ids}
    wrong += [(page_id, None, listed_under[page_id]) for page_id in sorted(missing)]
    for page_id, looked_up, listed in wrong:
        names = ["nothing" if e is None else f"{e.page_hash:016x}" for e in (looked_up, listed)]
        found.append(
            Violation(
                5,
                RULES[5].name,
                f"a lookup finds p{page_id:d} by {names[0]}, the page is listed under {names[1]}",
                page_id,
            )
        )
    for page_hash, entry in cache.entries.items():
        if page_hash != entry.page_hash and entry.page_ids:
            found.append(
                Violation(
                    5,
                    RULES[5].name,
                    f"a lookup of {page_hash:016x} finds p{entry.oldest_page:d}, which holds "
                    f"{entry.page_hash:016x}",
                    entry.oldest_page,
                )
            )
    return found


def _host_errors(state: LiveState) -> list[Violation]:
    """Host pages that are not in just one place."""
    host = state.engine.host_pool
    if host is None:
        return []
    free = Counter(host.free_ids)
    held: dict[int, list[int]] = {}
    for sequence in state.sequences:
        for host_id in sequence.host_page_ids:
            held.setdefault(host_id, []).append(sequence.number)
    found = []
    for host_id in sorted({*range(host.num_pages), *free, *held}):
        owners = held.get(host_id, [])
        wanted = 1 if 0 <= host_id < host.num_pages else 0
        if free[host_id] + len(owners) != wanted:
            found.append(
                Violation(
                    1,
                    RULES[1].name,
                    f"host page {host_id} is free {free[host_id]} times and held "
                    f"{len(owners)} times; the host pool has {host.num_pages}, each in one place",
                    None,
                    owners[0] if owners else None,
                )
            )
    return found


def audited_snapshot(engine: Audited) -> Snapshot:
    return build_snapshot(
        engine.num_steps, engine.block_manager, engine.sequences, engine.scheduler
    )
