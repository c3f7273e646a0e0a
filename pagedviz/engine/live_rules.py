"""The rules of the paged cache asked of a running engine: does everything hold, yes or no?

Each function recomputes what must be the case and compares it as a whole with what the engine
has. Invariants: a function believes nothing it audits; it says no at least whenever the rule of the
same number in state_rules or step_rules finds something, and these then say what it is.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import compress
from operator import attrgetter, ne

from pagedviz.engine.live_state import LiveState
from pagedviz.engine.sequence import Sequence
from pagedviz.engine.step_facts import StepFacts, StepStart

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


def generations_stand(state: LiveState, last: LiveState | None) -> bool:
    """Rule 3: every page in a table is still in the use it was given in."""
    generations, tables = state.generations, state.tables
    places: Iterable[int] = range(len(tables))
    if last is not None and last.counts is not None:
        # The other tables were right, and neither they nor the use of their pages has changed.
        places = state.new_places
        if generations != last.generations:
            renewed = {*compress(range(state.num_pages), map(ne, generations, last.generations))}
            places = [
                place
                for place, page_ids in enumerate(tables)
                if place in places or not renewed.isdisjoint(page_ids)
            ]
    return all(
        [generations[page_id] for page_id in tables[place]] == state.given[place]
        for place in places
    )


def tables_cover_tokens(
    state: LiveState, counts: list[int], fills: list[int], last: LiveState | None
) -> bool:
    """Rule 4: tables are as long as their tokens need, and pages as full as events say, as the pool
    says, and as their owners have computed."""
    size = state.block_size
    for page_ids, num_computed in zip(state.tables, state.num_computed, strict=True):
        # One page more than this, or a part of it, would be too much.
        if not 0 <= len(page_ids) * size - num_computed < size and not (
            state.engine.scheduler.reserves_prompts
        ):
            return False
    if state.engine.scheduler.reserves_prompts and not _prompts_are_reserved(state):
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
    if state.has_same_map:
        return True
    now, (num_pages, num_entries) = state.map, state.num_same
    keys, found = now.keys[num_entries:], now.found[num_entries:]
    finders = now.finders[num_entries:]
    # Those before were right and stand as they stood. Of the others, as many pages are found as are
    # listed, and each of these by the entry it is listed under: so just these.
    return (
        sum(map(len, found)) == len(now.pages) - num_pages
        and {p: entry for entry, pages in zip(finders, found, strict=True) for p in pages}
        == dict(zip(now.pages[num_pages:], now.entries[num_pages:], strict=True))
        and keys == [entry.page_hash for entry in finders]
    )


def hits_left_the_map_alone(state: LiveState, start: StepStart, facts: StepFacts) -> bool:
    """Rule 9: hashes and tokens are those of before, but for pages handed out or hashed since."""
    if not facts.hashes and not facts.evicted:
        if state.hashes is start.hashes and state.contents is start.contents:
            return True
        return state.hashes == start.hashes and state.contents == start.contents
    hashes, contents = dict(start.hashes), dict(start.contents)
    exempt = facts.evicted - facts.hits.keys() - facts.hashes.keys()
    for page_id, page_hash in facts.hashes.items():
        if page_hash is None:
            hashes.pop(page_id, None)
        else:
            hashes[page_id] = page_hash
        # Rule 5 compares what is new in a page with its owner's tokens.
        if page_id in state.contents:
            contents[page_id] = state.contents[page_id]
        else:
            contents.pop(page_id, None)
    for page_id in exempt:
        if page_id in state.hashes:
            hashes[page_id], contents[page_id] = state.hashes[page_id], state.contents[page_id]
        else:
            hashes.pop(page_id, None)
            contents.pop(page_id, None)
    return state.hashes == hashes and state.contents == contents


def something_makes_progress(state: LiveState, facts: StepFacts, more_arrivals: bool) -> bool:
    """Rule 7."""
    scheduler = state.engine.scheduler
    return bool(not scheduler.waiting or scheduler.running or facts.has_moved or more_arrivals)


def owners_agree(state: LiveState, counts: list[int]) -> bool:
    """Rule 11: who shares a page without a hash has the same tokens there, in the same place and
    under the same adapter."""
    if max(counts) < 2:
        return True
    shared = {p for p, count in enumerate(counts) if count > 1 and p not in state.hashes}
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
