"""The rules of the paged cache asked of a running engine: does everything hold, yes or no?

Each function recomputes what must be the case and compares it as a whole with what the engine
has. Invariants: a function believes nothing it audits; it says no at least whenever the rule of the
same number in state_rules or step_rules finds something, and these then say what it is.
"""

from __future__ import annotations

from itertools import chain
from operator import attrgetter

from pagedviz.engine.live_state import LiveState
from pagedviz.engine.sequence import Sequence
from pagedviz.engine.step_facts import StepFacts

_get_number = attrgetter("number")
_get_pages, _get_host_pages = attrgetter("table.page_ids"), attrgetter("host_page_ids")


def queue_and_counts_hold(state: LiveState, counts: list[int], last: LiveState | None) -> bool:
    """Rules 1 and 2, and of rule 3 that no table points at an unowned page: ref counts are what the
    tables add up to, and the queue has every other page once."""
    if counts != state.ref_counts:
        return False
    queue = state.queue
    if last is not None and counts == last.counts and queue == last.queue:
        return True
    queued = set(queue)
    if queue and not (min(queued) >= 0 and max(queued) < state.num_pages):
        return False
    # As many as have no owner, no two the same, and none that has one: so just these.
    num_unowned = counts.count(0)
    return len(queue) == len(queued) == num_unowned and not any(
        [counts[page_id] for page_id in queue]  # noqa: C419  # a list is faster
    )


def host_pages_are_free_or_held(state: LiveState) -> bool:
    """Rule 1 of the host pool: each of its pages is free or one sequence's."""
    host = state.engine.host_pool
    if host is None or not host.num_pages:
        return True
    held = [page_id for sequence in state.sequences for page_id in sequence.host_page_ids]
    return sorted(host.free_ids + held) == [*range(host.num_pages)]


def generations_stand(state: LiveState, last: LiveState | None) -> bool:
    """Rule 3: every page in a table is still in the use it was given in."""
    generations, tables, given = state.generations, state.tables, state.given
    if last is not None and state.has_same_tables and generations == last.generations:
        return True
    return [*map(len, tables)] == [*map(len, given)] and [
        generations[page_id] for page_id in chain.from_iterable(tables)
    ] == [*chain.from_iterable(given)]


def tables_cover_tokens(
    state: LiveState, counts: list[int], fills: list[int], last: LiveState | None
) -> bool:
    """Rule 4: tables are as long as their tokens need, and pages as full as events say, as the pool
    says, and as their owners have computed."""
    if state.engine.scheduler.reserves_prompts:
        if not _prompts_are_reserved(state):
            return False
    else:
        size = state.block_size
        for page_ids, num_computed in zip(state.tables, state.num_computed, strict=True):
            # One page more than this, or a part of it, would be too much.
            if not 0 <= len(page_ids) * size - num_computed < size:
                return False
    if state.pool.has_storage and state.pool.fills != fills:
        return False
    return fills == state.expected_fills(counts, last)


def _prompts_are_reserved(state: LiveState) -> bool:
    """A prompt has all its pages from its first chunk on; a decoding sequence may have just those
    of its computed tokens."""
    size = state.block_size
    for sequence, page_ids in zip(state.sequences, state.tables, strict=True):
        is_exact = 0 <= len(page_ids) * size - sequence.num_computed < size
        if sequence.is_running:
            is_exact &= sequence.is_decoding
            is_exact |= len(page_ids) == -(-len(sequence.token_ids) // size)
        if not is_exact:
            return False
    return True


def map_is_consistent(state: LiveState) -> bool:
    """Rule 5: lookups find a page exactly by the entry that the page is listed under, and each
    entry under its own hash."""
    read = state.map.read
    # As many pages are found as are listed, and each of these by the entry that it is listed under,
    # which is one that lookups find: so just these.
    return (
        sum([len(entry.page_ids) for entry in read.finders]) == len(read.pages)
        and all([p in e.page_ids for p, e in zip(read.pages, read.entries, strict=True)])  # noqa: C419
        and (state.has_same_map or read.keys == read.names)
        and (state.has_same_map or {*read.entries} <= {*read.finders})
    )


def hits_left_the_map_alone(state: LiveState, facts: StepFacts) -> bool:
    """Rule 9: hashes and tokens are those of before, but for pages handed out or hashed since.
    Rule 5 compares what is new in a page with its owner's tokens."""
    if not state.changed and not facts.hashes:
        return True
    evicted = facts.evicted - facts.hits.keys()
    return not (state.changed - evicted - facts.hashes.keys()) and all(
        state.hashes.get(page_id) == page_hash for page_id, page_hash in facts.hashes.items()
    )


def something_makes_progress(state: LiveState, facts: StepFacts, more_arrivals: bool) -> bool:
    """Rule 7."""
    scheduler = state.engine.scheduler
    return bool(not scheduler.waiting or scheduler.running or facts.has_moved or more_arrivals)


def owners_agree(state: LiveState) -> bool:
    """Rule 11: who shares a page without a hash has the same tokens there, in the same place and
    under the same adapter."""
    shared = state.shared
    if not shared:
        return True
    size = state.block_size
    first: dict[int, tuple[int, Sequence]] = {}
    for sequence, page_ids in zip(state.sequences, state.tables, strict=True):
        for index, page_id in enumerate(page_ids):
            if page_id not in shared:
                continue
            other_index, other = first.setdefault(page_id, (index, sequence))
            if other is sequence:
                continue
            stop = min((index + 1) * size, sequence.num_computed, other.num_computed)
            if (
                other_index != index
                or other.adapter_id != sequence.adapter_id
                or other.token_ids[index * size : stop] != sequence.token_ids[index * size : stop]
            ):
                return False
    return True


def everybody_open_is_listed_once(state: LiveState) -> bool:
    """Of rule 7 that every open sequence waits or runs, once, and nobody else does."""
    scheduler = state.engine.scheduler
    listed = [*map(_get_number, scheduler.waiting), *map(_get_number, scheduler.running)]
    return sorted(listed) == state.numbers


def who_left_holds_nothing(state: LiveState) -> bool:
    """Rule 12."""
    ended = state.roll.ended
    if any(map(_get_pages, ended)) or any(map(_get_host_pages, ended)):
        return False
    if not state.roll.aborted or not state.roll.has_forks:
        return True
    get = state.engine.sequences.get
    for sequence in state.sequences:
        parent_id = sequence.parent_id
        while parent_id is not None:
            if parent_id in state.roll.aborted:
                return False
            parent_id = get(parent_id).parent_id
    return True
