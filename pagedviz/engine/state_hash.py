"""A 64-bit number for a whole snapshot, so that two screens can see that they show the same.

It is the sum, modulo 2**64, of one hash per field, so it does not depend on the order in which the
fields are visited and a change costs only the fields that changed. Another program that holds the
same fields computes the same number: paths, values and arithmetic below are all there is to know.

    step                          page/<id>/generation|ref_count|fill|hash|token/<offset>
    queue/head  queue/next/<id>   (likewise waiting/..., running/...: links, so that a change at
                                   one place does not renumber what stands behind it)
    seq/<id>/index|name|adapter|num_prompt_tokens|max_new_tokens|num_tokens|token/<i>|state|
             num_computed|num_scheduled|num_cached|num_preemptions|page/<i>|generation/<i>|
             finish_reason|parent|num_swapped|host/<i>

A field that is None has no part in the sum. A page hash counts as its 16 hexadecimal digits.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from itertools import pairwise

from pagedviz.engine.snapshot import PageView, SequenceView, Snapshot

_MASK = (1 << 64) - 1
_FNV_OFFSET = 0xCBF29CE484222325
_FNV_PRIME = 0x100000001B3

Field = tuple[str, int | str]


def field_hash(path: str, value: int | str) -> int:
    """FNV-1a 64 of the UTF-8 text `path=value` (integers in decimal), then murmur3's 64-bit
    finaliser: FNV alone leaves the hashes of neighbouring numbers related, and a sum of related
    numbers collides."""
    text = f"{path}={value}" if isinstance(value, str) else f"{path}={value:d}"
    return _text_hash(text)


@lru_cache(maxsize=1 << 14)
def _text_hash(text: str) -> int:
    state = _FNV_OFFSET
    for byte in text.encode("utf-8", "surrogatepass"):
        state = ((state ^ byte) * _FNV_PRIME) & _MASK
    state = ((state ^ (state >> 33)) * 0xFF51AFD7ED558CCD) & _MASK
    state = ((state ^ (state >> 33)) * 0xC4CEB9FE1A85EC53) & _MASK
    return state ^ (state >> 33)


def snapshot_fields(snapshot: Snapshot) -> Iterator[Field]:
    """Every (path, value) that takes part in the sum."""
    yield "step", snapshot.num_steps
    for page in snapshot.pages:
        yield from _page_fields(page)
    for index, sequence in enumerate(snapshot.sequences):
        yield from _sequence_fields(index, sequence)
    for name, ids in _lists(snapshot):
        yield from _links(name, ids).items()


def state_hash(snapshot: Snapshot) -> int:
    """The 64-bit state hash, computed from nothing."""
    total = field_hash("step", snapshot.num_steps)
    total += sum(map(_page_hash, snapshot.pages))
    total += sum(_sequence_hash(*item) for item in enumerate(snapshot.sequences))
    for name, ids in _lists(snapshot):
        total += sum(field_hash(*field) for field in _links(name, ids).items())
    return total & _MASK


def updated_state_hash(old_hash: int, old: Snapshot, new: Snapshot) -> int:
    """The state hash of `new`, given that of `old`; visits only what differs.

    Both snapshots must be of one engine: the same pages, and sequences only ever added or
    (going back) taken away at the end.
    """
    total = old_hash + field_hash("step", new.num_steps) - field_hash("step", old.num_steps)
    for old_page, new_page in zip(old.pages, new.pages, strict=True):
        if old_page is not new_page and old_page != new_page:
            total += _page_hash(new_page) - _page_hash(old_page)
    shared = min(len(old.sequences), len(new.sequences))
    for index in range(shared):
        before, after = old.sequences[index], new.sequences[index]
        if before is not after and before != after:
            total += _difference(
                dict(_sequence_fields(index, before)), dict(_sequence_fields(index, after))
            )
    for index in range(shared, len(new.sequences)):
        total += _sequence_hash(index, new.sequences[index])
    for index in range(shared, len(old.sequences)):
        total -= _sequence_hash(index, old.sequences[index])
    for (name, old_ids), (_, new_ids) in zip(_lists(old), _lists(new), strict=True):
        if old_ids != new_ids:
            total += _difference(_links(name, old_ids), _links(name, new_ids))
    return total & _MASK


def format_state_hash(value: int) -> str:
    """Short enough to read out in a room: the first 32 of the 64 bits, `a3f9 10c4`."""
    digits = state_hash_hex(value)
    return f"{digits[:4]} {digits[4:8]}"


def state_hash_hex(value: int) -> str:
    """All 64 bits as 16 hexadecimal digits."""
    return f"{value:016x}"


def _difference(old: dict[str, int | str], new: dict[str, int | str]) -> int:
    total = 0
    for path, value in old.items():
        if new.get(path) != value:
            total -= field_hash(path, value)
    for path, value in new.items():
        if old.get(path) != value:
            total += field_hash(path, value)
    return total


def _lists(snapshot: Snapshot) -> tuple[tuple[str, tuple[int, ...]], ...]:
    return (
        ("queue", snapshot.free_queue),
        ("waiting", snapshot.waiting),
        ("running", snapshot.running),
    )


def _links(name: str, ids: tuple[int, ...]) -> dict[str, int | str]:
    links: dict[str, int | str] = {f"{name}/head": int(ids[0])} if ids else {}
    links |= {f"{name}/next/{here:d}": int(following) for here, following in pairwise(ids)}
    return links


# The views are shared between snapshots, so one that did not change is hashed once. Free pages of
# a large pool differ in their id only and would crowd out the rest of a smaller cache.
@lru_cache(maxsize=1 << 13)
def _page_hash(page: PageView) -> int:
    return sum(field_hash(*field) for field in _page_fields(page))


@lru_cache(maxsize=1 << 12)
def _sequence_hash(index: int, sequence: SequenceView) -> int:
    return sum(field_hash(*field) for field in _sequence_fields(index, sequence))


def _page_fields(page: PageView) -> Iterator[Field]:
    prefix = f"page/{page.page_id:d}"
    yield f"{prefix}/generation", page.generation
    yield f"{prefix}/ref_count", page.ref_count
    yield f"{prefix}/fill", page.fill
    if page.page_hash is not None:
        yield f"{prefix}/hash", f"{page.page_hash:016x}"
    yield from _numbered(f"{prefix}/token", page.token_ids)


def _sequence_fields(index: int, sequence: SequenceView) -> Iterator[Field]:
    prefix = f"seq/{sequence.seq_id:d}"
    yield f"{prefix}/index", index
    yield f"{prefix}/name", sequence.name
    if sequence.adapter is not None:
        yield f"{prefix}/adapter", sequence.adapter
    yield f"{prefix}/num_prompt_tokens", sequence.num_prompt_tokens
    yield f"{prefix}/max_new_tokens", sequence.max_new_tokens
    # Tokens may be unknown (None), their number never is.
    yield f"{prefix}/num_tokens", sequence.num_tokens
    yield from _numbered(f"{prefix}/token", sequence.token_ids)
    yield f"{prefix}/state", sequence.state
    yield f"{prefix}/num_computed", sequence.num_computed
    yield f"{prefix}/num_scheduled", sequence.num_scheduled
    yield f"{prefix}/num_cached", sequence.num_cached
    yield f"{prefix}/num_preemptions", sequence.num_preemptions
    yield from _numbered(f"{prefix}/page", sequence.page_ids)
    yield from _numbered(f"{prefix}/generation", sequence.generations)
    if sequence.finish_reason is not None:
        yield f"{prefix}/finish_reason", sequence.finish_reason
    if sequence.parent_id is not None:
        yield f"{prefix}/parent", int(sequence.parent_id)
    if sequence.num_swapped is not None:
        yield f"{prefix}/num_swapped", sequence.num_swapped
    yield from _numbered(f"{prefix}/host", sequence.host_page_ids)


def _numbered(prefix: str, values: tuple[int | None, ...]) -> Iterator[Field]:
    for index, value in enumerate(values):
        if value is not None:
            yield f"{prefix}/{index}", value
