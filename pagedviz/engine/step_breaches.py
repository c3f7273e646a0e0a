"""What a step can do wrong on its way, one record for each kind, with the numbers that do not fit.

Invariant: a record says what the events told and nothing about why.
"""

from __future__ import annotations

from typing import NamedTuple


class Scheduled(NamedTuple):
    """A chunk that is empty, starts elsewhere than after the computed (or scheduled before) tokens,
    or ends beyond the known ones of that time."""

    seq_id: int
    start: int
    num_tokens: int
    num_computed: int
    num_known: int


class LookedUp(NamedTuple):
    """A prefix lookup that found all `num_known` tokens of a sequence, or more."""

    seq_id: int
    num_tokens: int
    num_known: int


class Overwritten(NamedTuple):
    """A write from `offset` on into a page findable by `page_hash` whose first `fill` slots, more
    than `offset`, were written already."""

    seq_id: int
    page_id: int
    offset: int
    fill: int
    page_hash: int


class SharedWrite(NamedTuple):
    """A write into a page that is not findable and that `num_owners` sequences held."""

    seq_id: int
    page_id: int
    offset: int
    num_owners: int


class Unwritten(NamedTuple):
    """Attention of `seq_id` needed `needed` slots of its page `logical_index`, `fill` had been
    written; page_id None = it held no such page."""

    seq_id: int
    logical_index: int
    page_id: int | None
    needed: int
    fill: int


class Overread(NamedTuple):
    """Attention of `seq_id` read `num_read` slots where only `stop` tokens were computed or
    scheduled."""

    seq_id: int
    num_read: int
    stop: int


class Unplanned(NamedTuple):
    """A write of other tokens than those scheduled; `planned` = (start, num_tokens)."""

    seq_id: int
    start: int
    num_tokens: int
    planned: tuple[int, int]
