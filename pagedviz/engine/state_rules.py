"""Rules of the paged cache that one snapshot alone can break, one function each.

Invariant: a rule believes nothing it audits. It counts tables instead of reading ref counts, rolls
hashes over the sequences' tokens instead of reading the cache, and needs only the read model, so
the trace of any engine can be checked. Snapshots are those at the end of a step.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from functools import lru_cache
from typing import NamedTuple

from pagedviz.engine.ids import page_label
from pagedviz.engine.prefix_hash import prefix_hash_seed, roll_hash
from pagedviz.engine.snapshot import PageView, SequenceView, Snapshot


class Finding(NamedTuple):
    """One broken promise in words, with both numbers, and whom it is about."""

    message: str
    page_id: int | None = None
    seq_id: int | None = None


def pages_are_free_cached_or_active(snapshot: Snapshot) -> Iterator[Finding]:
    """Rule 1. The free queue holds every page without an owner once, and no other."""
    places = Counter(snapshot.free_queue)
    for page in snapshot.pages:
        count, wanted = places.get(page.page_id, 0), 0 if page.ref_count else 1
        if count != wanted:
            yield Finding(
                f"p{page.page_id:d} is in the free queue {count} times; with ref_count "
                f"{page.ref_count} it belongs there {wanted} times",
                page.page_id,
            )
    for page_id in places.keys() - set(range(len(snapshot.pages))):
        yield Finding(
            f"the free queue holds p{page_id:d}, the pool has {len(snapshot.pages)} pages", page_id
        )


def ref_counts_count_tables(snapshot: Snapshot) -> Iterator[Finding]:
    """Rule 2. The ref count of a page is the number of page tables that hold it."""
    # A table that holds a page twice is one table: such a page has a count that nobody will undo.
    holders = Counter(
        page_id for sequence in snapshot.sequences for page_id in set(sequence.page_ids)
    )
    for page in snapshot.pages:
        count = holders.get(page.page_id, 0)
        if page.ref_count != count:
            yield Finding(
                f"p{page.page_id:d} has ref_count {page.ref_count}, {count} page tables hold it",
                page.page_id,
            )


def tables_point_at_their_own_pages(snapshot: Snapshot) -> Iterator[Finding]:
    """Rule 3. No table points at an unowned page, or at one that was handed out again since."""
    unowned = set(snapshot.free_queue)
    num_pages = len(snapshot.pages)
    for sequence in snapshot.sequences:
        seq_id = sequence.seq_id
        if len(sequence.page_ids) != len(sequence.generations):
            yield Finding(
                f"the table of seq:{seq_id:d} lists {len(sequence.page_ids)} pages and "
                f"{len(sequence.generations)} generations",
                seq_id=seq_id,
            )
        for index, (page_id, generation) in enumerate(
            zip(sequence.page_ids, sequence.generations, strict=False)
        ):
            if not 0 <= page_id < num_pages:
                yield Finding(
                    f"page {index} of seq:{seq_id:d} is p{page_id:d}, the pool has {num_pages}",
                    page_id,
                    seq_id,
                )
                continue
            page = snapshot.pages[page_id]
            if page_id in unowned or not page.ref_count:
                where = "in the free queue" if page_id in unowned else "in no queue"
                yield Finding(
                    f"page {index} of seq:{seq_id:d} is {page.label}, which is {where} with "
                    f"ref_count {page.ref_count}",
                    page_id,
                    seq_id,
                )
            if page.generation != generation:
                yield Finding(
                    f"page {index} of seq:{seq_id:d} was given as {page_label(page_id, generation)}"
                    f" and is {page.label} now",
                    page_id,
                    seq_id,
                )


def tables_cover_what_is_computed(
    snapshot: Snapshot, reserves_prompts: bool = False
) -> Iterator[Finding]:
    """Rule 4. A table has just enough pages for its computed and scheduled tokens (or, with
    `reserves_prompts`, for all that are known while there is a prompt to compute), and pages are
    filled just as far as their owners have computed."""
    size = snapshot.block_size
    reached: dict[int, int] = {}
    for sequence in snapshot.sequences:
        for index, page_id in enumerate(sequence.page_ids):
            reach = max(0, min(size, sequence.num_computed - index * size))
            reached[page_id] = max(reached.get(page_id, 0), reach)
        covered = sequence.num_computed + sequence.num_scheduled
        wanted = -(-covered // size)
        if reserves_prompts and sequence.state in ("prefilling", "decoding"):
            # One that was preempted decodes again when all but its newest token are computed.
            all_known = -(-sequence.num_tokens // size)
            if sequence.state == "prefilling" or len(sequence.page_ids) == all_known:
                wanted = all_known
        if sequence.finish_reason is None and len(sequence.page_ids) != wanted:
            yield Finding(
                f"seq:{sequence.seq_id:d} holds {len(sequence.page_ids)} pages, its {covered} "
                f"computed and scheduled tokens need {wanted} pages of {size} slots",
                seq_id=sequence.seq_id,
            )
    for page in snapshot.pages:
        wanted_fill = reached.get(page.page_id)
        if wanted_fill is not None and page.fill != wanted_fill:
            yield Finding(
                f"p{page.page_id:d} has fill {page.fill}, its owners have computed {wanted_fill} "
                "tokens of it",
                page.page_id,
            )
        elif wanted_fill is None and page.page_hash is None and page.fill:
            yield Finding(
                f"p{page.page_id:d} has fill {page.fill}, but nobody owns or finds it: it should "
                "be 0",
                page.page_id,
            )


def hashes_tell_the_content(snapshot: Snapshot) -> Iterator[Finding]:
    """Rule 5. A findable page is full, and holds the tokens its hash stands for, under that
    adapter: those of whoever owns it, and of a prefix that was really submitted."""
    size = snapshot.block_size
    owned: set[int] = set()
    for sequence in snapshot.sequences:
        if sequence.page_ids:
            owned.update(sequence.page_ids)
            yield from _owned_content(snapshot, sequence)
    unowned: dict[int, list[PageView]] = {}
    for page in snapshot.pages:
        if page.page_hash is None:
            continue
        if page.fill != size:
            yield Finding(
                f"p{page.page_id:d} is findable with {page.fill} of {size} slots filled",
                page.page_id,
            )
        if len(page.token_ids) != size:
            yield Finding(
                f"p{page.page_id:d} is findable with {len(page.token_ids)} tokens, "
                f"a page holds {size}",
                page.page_id,
            )
        elif page.page_id not in owned:
            unowned.setdefault(page.page_hash, []).append(page)
    for page in _never_submitted(snapshot, unowned):
        yield Finding(
            f"p{page.page_id:d} is findable by {page.page_hash:016x} with tokens "
            f"{list(page.token_ids)}: none of {len(snapshot.sequences)} sequences has a prefix "
            "with that hash that ends in these tokens",
            page.page_id,
        )


def _never_submitted(snapshot: Snapshot, pages: dict[int, list[PageView]]) -> list[PageView]:
    """Those of `pages`, by their hash, that no sequence can have computed; none if any sequence
    keeps its tokens to itself."""
    # The newest first: they are the likeliest to have left what is still cached.
    for sequence in reversed(snapshot.sequences):
        if not pages:
            return []
        for prefix_hash, token_ids in page_prefixes(
            sequence.token_ids, sequence.adapter, snapshot.block_size
        ):
            if prefix_hash in pages:
                others = [page for page in pages.pop(prefix_hash) if page.token_ids != token_ids]
                if others:
                    pages[prefix_hash] = others
    if any(None in sequence.token_ids for sequence in snapshot.sequences):
        return []
    return [page for same_hash in pages.values() for page in same_hash]


def _owned_content(snapshot: Snapshot, sequence: SequenceView) -> Iterator[Finding]:
    size, seq_id = snapshot.block_size, sequence.seq_id
    chain = page_prefixes(sequence.token_ids, sequence.adapter, size)
    for index, page_id in enumerate(sequence.page_ids):
        page = _page(snapshot, page_id)
        if page is None or page.page_hash is None:
            continue
        wanted = sequence.token_ids[index * size : (index + 1) * size]
        offset = first_difference(page.token_ids, wanted)
        if offset is not None:
            yield Finding(
                f"slot {offset} of p{page_id:d} holds token {page.token_ids[offset]}, token "
                f"{index * size + offset} of seq:{seq_id:d} is {wanted[offset]}",
                page_id,
                seq_id,
            )
        elif index < len(chain) and page.page_hash != chain[index][0]:
            yield Finding(
                f"p{page_id:d} is findable by {page.page_hash:016x}, the prefix of seq:{seq_id:d} "
                f"up to its end has hash {chain[index][0]:016x}",
                page_id,
                seq_id,
            )


PagePrefix = tuple[int, tuple[int | None, ...]]


def first_difference(left: tuple[int | None, ...], right: tuple[int | None, ...]) -> int | None:
    """Where two runs of tokens differ first, over their common length; unknown ones never do."""
    if left == right:
        return None
    for offset, (a, b) in enumerate(zip(left, right, strict=False)):
        if a != b and a is not None and b is not None:
            return offset
    return None


@lru_cache(maxsize=1024)
def page_prefixes(
    token_ids: tuple[int | None, ...], adapter: str | None, block_size: int
) -> tuple[PagePrefix, ...]:
    """(hash of the prefix up to its end, tokens) of each full page before the first unknown token;
    the hash is FNV-1a 64, see prefix_hash."""
    state = prefix_hash_seed(adapter)
    prefixes: list[PagePrefix] = []
    for stop in range(block_size, len(token_ids) + 1, block_size):
        page = token_ids[stop - block_size : stop]
        if None in page:
            break
        state = _roll(state, page)
        prefixes.append((state, page))
    return tuple(prefixes)


# A function of its arguments alone. Sequences grow by a token a step, so nearly all their pages
# were rolled over in the step before.
@lru_cache(maxsize=1 << 14)
def _roll(state: int, page: tuple[int | None, ...]) -> int:
    return roll_hash(state, [token_id for token_id in page if token_id is not None])


def _page(snapshot: Snapshot, page_id: int) -> PageView | None:
    return snapshot.pages[page_id] if 0 <= page_id < len(snapshot.pages) else None


def everybody_open_is_listed_once(snapshot: Snapshot) -> Iterator[Finding]:
    """Rule 7. A sequence that neither waits nor runs can never go on; one in two places goes on
    twice."""
    places = Counter(snapshot.waiting + snapshot.running)
    for sequence in snapshot.sequences:
        count = places.pop(sequence.seq_id, 0)
        wanted = 1 if sequence.finish_reason is None else 0
        if count != wanted:
            yield Finding(
                f"seq:{sequence.seq_id:d}, {sequence.state}, waits or runs in {count} places of "
                f"the scheduler's lists; it belongs into {wanted}",
                _first(sequence),
                sequence.seq_id,
            )
    for seq_id in places:
        yield Finding(f"the scheduler lists seq:{seq_id:d}, which nobody has submitted")


def who_left_holds_nothing(snapshot: Snapshot) -> Iterator[Finding]:
    """Rule 12. No page is held by a finished sequence, nor by a fork of an aborted one."""
    aborted: dict[int, int] = {}  # sequence -> the one that was aborted: itself or an ancestor
    for sequence in snapshot.sequences:
        seq_id = sequence.seq_id
        ancestor = None if sequence.parent_id is None else aborted.get(sequence.parent_id)
        if ancestor is not None:
            aborted[seq_id] = ancestor
        elif sequence.finish_reason == "aborted":
            aborted[seq_id] = seq_id
        held = len(sequence.page_ids) + len(sequence.host_page_ids)
        if sequence.finish_reason is not None and held:
            yield Finding(
                f"seq:{seq_id:d} has finished ({sequence.finish_reason}) and holds {held} pages",
                _first(sequence),
                seq_id,
            )
        elif ancestor is not None and sequence.finish_reason is None:
            yield Finding(
                f"seq:{seq_id:d} was forked from seq:{ancestor:d}, which was aborted, and still "
                f"holds {held} pages",
                _first(sequence),
                seq_id,
            )


def _first(sequence: SequenceView) -> int | None:
    return sequence.page_ids[0] if sequence.page_ids else None
