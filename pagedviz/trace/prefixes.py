"""Every prefix that was ever hashed in a run, and what it continues.

Invariant: a prefix is known by its hash; its parent is the page before it in the sequence that was
first to hash it, so the answer is the same at every moment.
"""

from __future__ import annotations

from typing import NamedTuple

from pagedviz.engine.events import (
    PageCopied,
    PageHashed,
    PageReleased,
    PageShared,
    SequenceForked,
    SequenceSubmitted,
    TokenSampled,
)
from pagedviz.trace.queries import remembered
from pagedviz.trace.trace import Trace


class Prefix(NamedTuple):
    """The prefix that `page_hash` stands for. parent: hash of the prefix one page shorter, None
    for a first page. token_ids: of its last page; None where a foreign trace does not tell.
    logical_index: of its last page in a sequence, from 0."""

    page_hash: int
    parent: int | None
    token_ids: tuple[int | None, ...]
    logical_index: int
    adapter: str | None


@remembered
def prefixes(trace: Trace) -> dict[int, Prefix]:
    """By hash, in the order in which they were first hashed."""
    size = trace.header.block_size
    found: dict[int, Prefix] = {}
    tokens: dict[int, list[int | None]] = {}
    adapters: dict[int, str | None] = {}
    tables: dict[int, list[int | None]] = {}
    """seq_id -> hashes of its pages from the first on; None for one that has none."""
    hash_of: dict[int, int] = {}
    for step in range(trace.num_steps):
        for event in trace.events(step):
            match event:
                case SequenceSubmitted():
                    prompt: list[int | None] = list(event.prompt_ids)
                    tokens[event.seq_id] = prompt or [None] * event.num_prompt_tokens
                    adapters[event.seq_id] = event.adapter
                case SequenceForked():
                    tokens[event.seq_id] = tokens[event.parent_id][: event.num_tokens]
                    adapters[event.seq_id] = adapters[event.parent_id]
                case PageCopied():
                    hash_of.pop(event.page_id, None)
                case TokenSampled():
                    tokens[event.seq_id].append(event.token_id)
                case PageShared() if event.page_id in hash_of:
                    _note(tables, event.seq_id, event.logical_index, hash_of[event.page_id])
                case PageHashed():
                    seq_id, index = event.seq_id, event.logical_index
                    hash_of[event.page_id] = event.page_hash
                    _note(tables, seq_id, index, event.page_hash)
                    if event.page_hash not in found:
                        found[event.page_hash] = Prefix(
                            event.page_hash,
                            tables[seq_id][index - 1] if index else None,
                            tuple(tokens[seq_id][index * size : (index + 1) * size]),
                            index,
                            adapters[seq_id],
                        )
                case PageReleased():
                    tables.pop(event.seq_id, None)
                case _:
                    pass
    return found


def _note(tables: dict[int, list[int | None]], seq_id: int, index: int, page_hash: int) -> None:
    table = tables.setdefault(seq_id, [])
    del table[index:]
    table += [None] * (index - len(table))
    table.append(page_hash)
