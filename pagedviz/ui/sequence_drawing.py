"""Draws the sequences of a Board: state, tokens cut at page boundaries, page chain; and the queues.

Invariant: every text that is not ours is escaped.
"""

from __future__ import annotations

from collections.abc import Iterable
from html import escape
from typing import NamedTuple

from pagedviz.ui.marks import badges, now
from pagedviz.views.board import Queues
from pagedviz.views.sequence_view import PageGroup, SequenceRow, TokenCell
from pagedviz.views.theme import letter


def draw_queues(queues: Queues, num_hues: int) -> str:
    """Who runs, who waits, and how much of the step's budget is used."""
    return (
        f'<span class="queue">running {badges(queues.running, num_hues)}</span>'
        f'<span class="queue">waiting {badges(queues.waiting, num_hues)}</span>'
        f"{_budget(queues, num_hues)}"
    )


def _budget(queues: Queues, num_hues: int) -> str:
    used = sum(num_tokens for _, num_tokens in queues.budget)
    if queues.budget_total is None:
        return f'<span class="queue">{used} tokens in this step</span>'
    parts = "".join(
        f'<i class="h{place % num_hues}" style="width:{100 * tokens / queues.budget_total:.2f}%"'
        f' title="{letter(place)}: {tokens} tokens"></i>'
        for place, tokens in queues.budget
    )
    return (
        f'<span class="queue budget">budget <span class="bar">{parts}</span>'
        f"<span>{used} of {queues.budget_total} tokens</span></span>"
    )


def draw_sequence(row: SequenceRow, num_hues: int) -> str:
    """One card."""
    named = (
        "" if row.name == f"seq:{row.seq_id:d}" else f'<span class="name">{escape(row.name)}</span>'
    )
    is_live = row.state in ("prefilling", "decoding")
    shown = _shown_groups(row)
    groups = "".join(_group(group) for group in shown.groups)
    if shown.num_before:
        groups = f'<span class="more">{shown.num_before} tokens before</span>{groups}'
    if shown.num_after:
        groups += f'<span class="more">and {shown.num_after} more tokens</span>'
    return (
        f'<article class="seq h{row.place % num_hues} {row.state}{now(row.is_now)}"'
        f' data-seq="{row.seq_id:d}">'
        f'<header><b class="badge">{letter(row.place)}</b><b>seq:{row.seq_id:d}</b>{named}'
        f'<span class="chip{" strong" if is_live else ""}">{escape(row.chip)}</span>'
        f'<span class="note">{escape(row.note)}</span></header>'
        f'<div class="text"><div class="groups">{groups}</div></div></article>'
    )


class _Shown(NamedTuple):
    """The groups to draw, and how many tokens are left out on both sides."""

    groups: tuple[PageGroup, ...]
    num_before: int = 0
    num_after: int = 0


def _shown_groups(row: SequenceRow) -> _Shown:
    """What fits and matters: of what is still to be computed only the next page's worth, or the
    front would be pushed out of sight; of a waiting text the part that the event is about."""
    groups = row.groups
    if row.state in ("prefilling", "decoding"):
        end = sum(group.label is not None for group in groups) + 1
        return _Shown(groups[:end], num_after=_num_tokens(groups[end:]))
    first = next((i for i, g in enumerate(groups) if any(t.is_now for t in g.tokens)), 0)
    start = max(0, first - 1)
    return _Shown(groups[start:], num_before=_num_tokens(groups[:start]))


def _num_tokens(groups: Iterable[PageGroup]) -> int:
    return sum(len(group.tokens) for group in groups)


def _group(group: PageGroup) -> str:
    tokens = "".join(_token(token) for token in group.tokens)
    if group.label is None:
        return f'<span class="group todo"><span class="tokens">{tokens}</span></span>'
    shared = f" \u00d7{group.ref_count}" if group.ref_count > 1 else ""
    kind = f" k{group.page_id}{' hit' if group.is_hit else ''}{now(group.is_now)}"
    where = "from the prefix cache" if group.is_hit else "computed by this sequence"
    return (
        f'<span class="group{kind}" title="page {group.logical_index} is {group.label}, {where}">'
        f'<span class="tokens">{tokens}</span>'
        f'<span class="at">{group.logical_index} \u2192 {group.label}{shared}</span></span>'
    )


def _token(token: TokenCell) -> str:
    kind = "t" if token.is_computed else "t todo"
    kind += " new" if token.is_generated else ""
    return (
        f'<span class="{kind}{now(token.is_now)}" title="token {token.position}">'
        f"{escape(token.text)}</span>"
    )
