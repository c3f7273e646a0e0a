"""StepStart: what held before a step, as far as the rules need it to judge the step.

Invariant: a value of its own; what the step changes leaves it alone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from pagedviz.engine.snapshot import Snapshot


class StepStart(NamedTuple):
    """What held before a step, as far as a step can go wrong because of it.

    tables: pages of each sequence that holds some. computed, known: tokens of each sequence that
    has not finished. fills: written slots of each page. hashes, contents: hash and tokens of each
    findable page. has_forks: whether a sequence was ever forked; only forks hold an unhashed page
    together, so only with them need owners be counted. is_right: it was checked that all rules
    hold, so that the fills of each table cover its computed tokens.
    """

    block_size: int
    tables: Mapping[int, Sequence[int]]
    computed: dict[int, int]
    known: dict[int, int]
    fills: list[int]
    hashes: dict[int, int]
    contents: dict[int, tuple[int | None, ...]]
    has_forks: bool
    is_right: bool = False

    @classmethod
    def of(cls, snapshot: Snapshot) -> StepStart:
        sequences = [view for view in snapshot.sequences if view.finish_reason is None]
        return cls(
            snapshot.block_size,
            {view.seq_id: view.page_ids for view in snapshot.sequences if view.page_ids},
            {view.seq_id: view.num_computed for view in sequences},
            {view.seq_id: view.num_tokens for view in sequences},
            [page.fill for page in snapshot.pages],
            {p.page_id: p.page_hash for p in snapshot.pages if p.page_hash is not None},
            {p.page_id: p.token_ids for p in snapshot.pages if p.token_ids},
            any(view.parent_id is not None for view in snapshot.sequences),
        )
