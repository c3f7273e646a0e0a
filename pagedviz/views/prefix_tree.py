"""The prefix cache at one moment, as a tree: which texts can be found, page by page.

    [p0.1 p1.1 p2.1]  You are a kind ..    pages without a branching are one row
       |- [p5.1]      Lily and a red kite
       `- [p9.1]      Tom and a blue boat

Invariants: a row's pages are findable now, but for those that are marked as gone: they were
evicted, and keep their place while something behind them is still cached.
"""

from __future__ import annotations

from typing import NamedTuple

from pagedviz.engine.snapshot import PageView, Snapshot
from pagedviz.trace.prefixes import Prefix, prefixes
from pagedviz.trace.trace import Moment, Trace
from pagedviz.views.theme import places
from pagedviz.views.words import TokenText, visible


class TreePage(NamedTuple):
    """A page of a prefix. labels: the pages that hold it, the one that is found first; empty: it
    was evicted. owners: numbers of the sequences that hold it now."""

    page_hash: int
    page_ids: tuple[int, ...]
    labels: tuple[str, ...]
    state: str
    owners: tuple[int, ...]
    text: str


class TreeRow(NamedTuple):
    """Pages in a line. depth: how many branchings lie before it. first: position of its first
    token."""

    depth: int
    first: int
    adapter: str | None
    pages: tuple[TreePage, ...]


def prefix_tree(trace: Trace, moment: Moment, token_text: TokenText) -> tuple[TreeRow, ...]:
    """Rows from the top, each before its branches. MomentNotFound."""
    snapshot = trace.at(*moment)
    known = prefixes(trace)
    pages: dict[int, list[PageView]] = {}
    for page in snapshot.pages:
        if page.page_hash is not None:
            pages.setdefault(page.page_hash, []).append(page)
    shown: set[int] = set()
    for page_hash in pages:
        walked: int | None = page_hash
        while walked is not None and walked not in shown and walked in known:
            shown.add(walked)
            walked = known[walked].parent
    children: dict[int | None, list[Prefix]] = {}
    for prefix in known.values():
        if prefix.page_hash in shown:
            children.setdefault(prefix.parent, []).append(prefix)
    owners = _owners(snapshot)
    rows: list[TreeRow] = []
    pending = [(prefix, 0) for prefix in reversed(children.get(None, []))]
    while pending:
        prefix, depth = pending.pop()
        line = [prefix]
        while len(children.get(line[-1].page_hash, ())) == 1:
            line.append(children[line[-1].page_hash][0])
        drawn = tuple(
            _page(link, pages.get(link.page_hash, []), owners, token_text) for link in line
        )
        rows.append(
            TreeRow(depth, prefix.logical_index * snapshot.block_size, prefix.adapter, drawn)
        )
        branches = children.get(line[-1].page_hash, [])
        pending += [(branch, depth + 1) for branch in reversed(branches)]
    return tuple(rows)


def _owners(snapshot: Snapshot) -> dict[int, list[int]]:
    place_of = places(snapshot)
    owners: dict[int, list[int]] = {}
    for view in snapshot.sequences:
        for page_id in view.page_ids:
            owners.setdefault(page_id, []).append(place_of[view.seq_id])
    return owners


def _page(
    prefix: Prefix, pages: list[PageView], owners: dict[int, list[int]], token_text: TokenText
) -> TreePage:
    held = sorted({place for page in pages for place in owners.get(page.page_id, ())})
    state = "active" if held else "cached" if pages else "gone"
    return TreePage(
        prefix.page_hash,
        tuple(page.page_id for page in pages),
        tuple(page.label for page in pages),
        state,
        tuple(held),
        "".join("?" if i is None else visible(token_text(i)) for i in prefix.token_ids),
    )
