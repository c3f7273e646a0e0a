"""The sequences as data: each with its tokens, cut where its pages begin and end.

Invariants: rows are in order of submission and stay; tokens of a row are in order; those without a
page (not computed yet) come last, in groups of the pages they will need.
"""

from __future__ import annotations

from typing import NamedTuple

from pagedviz.engine.ids import page_label
from pagedviz.engine.snapshot import SequenceView, Snapshot
from pagedviz.views.focus import NOTHING, Focus
from pagedviz.views.words import TokenText, count, visible


class TokenCell(NamedTuple):
    """is_computed: its K/V exist. is_now: the event just past is about it."""

    position: int
    text: str
    is_computed: bool
    is_generated: bool
    is_now: bool


class PageGroup(NamedTuple):
    """The tokens of one page of a sequence. label is None while no page holds them.
    is_hit: the page came from the prefix cache. is_now: the page changed just now."""

    logical_index: int
    page_id: int | None
    label: str | None
    ref_count: int
    is_hit: bool
    is_now: bool
    tokens: tuple[TokenCell, ...]


class SequenceRow(NamedTuple):
    """place: its number in the order of submission, which letter and hue follow.
    chip: its state in a word or three. note: the numbers beside it."""

    seq_id: int
    place: int
    name: str
    state: str
    chip: str
    note: str
    groups: tuple[PageGroup, ...]
    is_now: bool


def sequence_rows(
    snapshot: Snapshot, token_text: TokenText, now: Focus = NOTHING
) -> tuple[SequenceRow, ...]:
    """Every submitted sequence, finished ones included."""
    return tuple(
        SequenceRow(
            seq_id=view.seq_id,
            place=place,
            name=view.name,
            state=view.state,
            chip=_chip(view),
            note=_note(view, snapshot),
            groups=_groups(view, snapshot, token_text, now),
            is_now=view.seq_id in now.seq_ids,
        )
        for place, view in enumerate(snapshot.sequences)
    )


def _groups(
    view: SequenceView, snapshot: Snapshot, token_text: TokenText, now: Focus
) -> tuple[PageGroup, ...]:
    size = snapshot.block_size
    num_groups = max(len(view.page_ids), -(-view.num_tokens // size))
    groups = []
    for index in range(num_groups):
        page_id, label, ref_count = None, None, 0
        if index < len(view.page_ids):
            page_id = view.page_ids[index]
            label = page_label(page_id, view.generations[index])
            ref_count = snapshot.pages[page_id].ref_count
        tokens = tuple(
            TokenCell(
                position=position,
                text=_text(view.token_ids[position], token_text),
                is_computed=position < view.num_computed,
                is_generated=position >= view.num_prompt_tokens,
                is_now=(view.seq_id, position) in now.tokens,
            )
            for position in range(index * size, min((index + 1) * size, view.num_tokens))
        )
        groups.append(
            PageGroup(
                logical_index=index,
                page_id=page_id,
                label=label,
                ref_count=ref_count,
                is_hit=page_id is not None and index * size < view.num_cached,
                is_now=page_id is not None and page_id in now.page_ids,
                tokens=tokens,
            )
        )
    return tuple(groups)


def _text(token_id: int | None, token_text: TokenText) -> str:
    return "?" if token_id is None else visible(token_text(token_id))


def _chip(view: SequenceView) -> str:
    if view.state == "prefilling":
        return f"prefill {view.num_computed} of {view.num_tokens}"
    if view.state == "finished" and view.finish_reason is not None:
        return f"finished: {view.finish_reason.replace('_', ' ')}"
    return view.state


def _note(view: SequenceView, snapshot: Snapshot) -> str:
    made = view.num_tokens - view.num_prompt_tokens
    tokens = count(view.num_tokens, "token")
    match view.state:
        case "waiting":
            return f"{tokens}{_place_in_queue(view, snapshot)}"
        case "preempted":
            return f"{tokens} to compute again{_place_in_queue(view, snapshot)}"
        case "finished":
            return f"{view.num_prompt_tokens} + {made} new tokens"
        case _:
            shared = sum(snapshot.pages[page_id].ref_count > 1 for page_id in view.page_ids)
            pages = count(len(view.page_ids), "page")
            return f"{tokens}, {pages}" + (f", {shared} shared" if shared else "")


def _place_in_queue(view: SequenceView, snapshot: Snapshot) -> str:
    if view.seq_id not in snapshot.waiting:
        return ""
    place = snapshot.waiting.index(view.seq_id)
    return ", next in the queue" if place == 0 else f", {place} ahead in the queue"
