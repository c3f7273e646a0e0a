"""Copies a running engine, so that one copy can go on while the other stays where it is.

Invariants: both behave the same from here on and share nothing that either changes; the model is
shared, it never changes. Ids are immutable and shared too: copying thousands would cost more than
all the rest.
"""

from __future__ import annotations

from copy import deepcopy
from typing import Any

from pagedviz.engine.engine import Engine
from pagedviz.engine.events import Emit
from pagedviz.engine.prefix_cache import SharedPrefixCache
from pagedviz.engine.prefix_entry import Entry


def copy_engine(engine: Engine, emit: Emit, new_emit: Emit) -> Engine:
    """An engine in the same state. `emit`: the one `engine` was given; the copy gets `new_emit`."""
    memo: dict[int, Any] = {id(emit): new_emit, id(engine.model): engine.model}
    memo |= {id(page_id): page_id for page_id in engine.block_manager.pool.page_ids}
    _copy_entries(engine.block_manager.cache, memo)
    return deepcopy(engine, memo)


def _copy_entries(cache: SharedPrefixCache, memo: dict[int, Any]) -> None:
    """Parents first: a prefix is a chain as long as its pages, and deepcopy, which follows it link
    by link, would run out of stack."""
    pending: list[tuple[Entry, Entry | None]] = [(root, None) for root in cache.roots]
    while pending:
        entry, parent = pending.pop()
        copied = Entry(entry.page_hash, parent, entry.token_ids)
        copied.page_ids = dict(entry.page_ids)
        if parent is not None:
            parent.children[copied] = None
        memo[id(entry)] = copied
        # Reversed, because the last one pushed is copied first: children keep their order.
        pending += [(child, copied) for child in reversed(entry.children)]
