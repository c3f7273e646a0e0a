"""One page at one moment: its tokens, its owners, its hash chain and the story of its life.

Invariants: a page is told about as it was at the moment, never later; everything comes from the
snapshot and the events up to there.
"""

from __future__ import annotations

from typing import NamedTuple

from pagedviz.engine.events import PageAllocated, PageHashed, SlotsWritten
from pagedviz.engine.snapshot import Snapshot
from pagedviz.trace.queries import PageMoment, page_history
from pagedviz.trace.trace import Moment, Trace
from pagedviz.views.context import Context
from pagedviz.views.sentences import sentence
from pagedviz.views.theme import places
from pagedviz.views.words import TokenText, count, positions, visible


class Slot(NamedTuple):
    """position: of the token in its sequence; None when nobody tells which token is there."""

    offset: int
    position: int | None
    text: str | None
    is_filled: bool


class Owner(NamedTuple):
    """The page is page `logical_index` of this sequence; place: its number, for hue and letter."""

    seq_id: int
    place: int
    name: str
    logical_index: int


class ChainLink(NamedTuple):
    """A page of the prefix that ends with this page: the hash covers `num_tokens` tokens."""

    page_id: int
    label: str
    page_hash: int
    num_tokens: int


class StoryLine(NamedTuple):
    """Something that happened to the page; `moment` is right after it, or after the last of
    several writes in a row."""

    moment: Moment
    generation: int
    text: str


class PageReport(NamedTuple):
    page_id: int
    label: str
    state: str
    fill: int
    ref_count: int
    queue_place: int | None
    slots: tuple[Slot, ...]
    owners: tuple[Owner, ...]
    chain: tuple[ChainLink, ...]
    story: tuple[StoryLine, ...]
    num_earlier: int


def page_report(
    trace: Trace, moment: Moment, page_id: int, token_text: TokenText, story_lines: int = 24
) -> PageReport:
    """`story_lines`: the most lines told, the latest; `num_earlier` says how many were left out.
    MomentNotFound."""
    snapshot = trace.at(*moment)
    page = snapshot.pages[page_id]
    owners = page_owners(snapshot, page_id)
    history = [entry for entry in page_history(trace, page_id) if _is_past(entry.moment, moment)]
    told = _story(trace, history, token_text, story_lines)
    queue = snapshot.free_queue
    return PageReport(
        page_id=page_id,
        label=page.label,
        state=page.state,
        fill=page.fill,
        ref_count=page.ref_count,
        queue_place=queue.index(page_id) if page_id in queue else None,
        slots=_slots(snapshot, page_id, owners, token_text),
        owners=owners,
        chain=_chain(trace, history, page.page_hash),
        story=tuple(told[0]),
        num_earlier=told[1],
    )


def page_owners(snapshot: Snapshot, page_id: int) -> tuple[Owner, ...]:
    """Whose page table holds the page, in order of submission."""
    place_of = places(snapshot)
    return tuple(
        Owner(view.seq_id, place_of[view.seq_id], view.name, view.page_ids.index(page_id))
        for view in snapshot.sequences
        if page_id in view.page_ids
    )


def _slots(
    snapshot: Snapshot, page_id: int, owners: tuple[Owner, ...], token_text: TokenText
) -> tuple[Slot, ...]:
    page, size = snapshot.pages[page_id], snapshot.block_size
    token_ids: tuple[int | None, ...] = page.token_ids
    start: int | None = None
    if owners:
        start = owners[0].logical_index * size
        token_ids = snapshot.sequence(owners[0].seq_id).token_ids[start : start + size]
    slots = []
    for offset in range(size):
        token_id = token_ids[offset] if offset < len(token_ids) else None
        slots.append(
            Slot(
                offset,
                None if start is None else start + offset,
                None if token_id is None else visible(token_text(token_id)),
                offset < page.fill,
            )
        )
    return tuple(slots)


def _chain(trace: Trace, history: list[PageMoment], page_hash: int | None) -> tuple[ChainLink, ...]:
    """The pages before it as they were when it was hashed: a cached page has no owner to ask."""
    if page_hash is None:
        return ()
    hashed = next(entry for entry in reversed(history) if isinstance(entry.event, PageHashed))
    event = hashed.event
    assert isinstance(event, PageHashed)
    then = trace.at(*hashed.moment)
    links = []
    for index, page_id in enumerate(
        then.sequence(event.seq_id).page_ids[: event.logical_index + 1]
    ):
        page = then.pages[page_id]
        if page.page_hash is not None:
            num_tokens = (index + 1) * then.block_size
            links.append(ChainLink(page_id, page.label, page.page_hash, num_tokens))
    return tuple(links)


def _story(
    trace: Trace, history: list[PageMoment], token_text: TokenText, most: int
) -> tuple[list[StoryLine], int]:
    groups: list[list[PageMoment]] = []
    generation, generations = 0, []
    for entry in history:
        last = groups[-1][-1].event if groups else None
        if (
            isinstance(entry.event, SlotsWritten)
            and isinstance(last, SlotsWritten)
            and last.seq_id == entry.event.seq_id
        ):
            groups[-1].append(entry)
            continue
        if isinstance(entry.event, PageAllocated):
            generation = entry.event.generation
        groups.append([entry])
        generations.append(generation)
    lines = [
        StoryLine(group[-1].moment, generation, _told(trace, group, token_text))
        for group, generation in list(zip(groups, generations, strict=True))[-most:]
    ]
    return lines, max(0, len(groups) - most)


def _told(trace: Trace, group: list[PageMoment], token_text: TokenText) -> str:
    first, last = group[0], group[-1]
    if len(group) > 1:
        assert isinstance(first.event, SlotsWritten) and isinstance(last.event, SlotsWritten)
        written = last.event.start + last.event.num_tokens - first.event.start
        return (
            f"seq:{first.event.seq_id:d} writes keys and values of "
            f"{positions(first.event.start, written)} in {count(len(group), 'step')}, "
            f"{first.moment.step} to {last.moment.step}"
        )
    step, event = first.moment
    assert event is not None
    events = trace.events(step)
    following = events[event] if event < len(events) else None
    before = trace.at(step, event - 1)
    return sentence(first.event, Context(before, token_text, None, following))


def _is_past(moment: Moment, now: Moment) -> bool:
    if moment.step != now.step:
        return moment.step < now.step
    return now.event is None or (moment.event or 0) <= now.event
