"""What the Break it screen tells about an examination: rules, steps, the life of a page.

Invariants: every sentence is made from events and states of the two runs; sequences are called
`seq:1` and pages `p7.2`, so that drawings can find and colour them.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby, zip_longest
from typing import NamedTuple

from pagedviz.engine.events import (
    PageAllocated,
    PageCopied,
    PageEvicted,
    PrefixLookedUp,
    SlotsWritten,
)
from pagedviz.engine.ids import page_label
from pagedviz.engine.snapshot import PageView, Snapshot
from pagedviz.faults import Examination, PageMoment, Play, page_life
from pagedviz.faults.play import PlayedStep
from pagedviz.views.summaries import headline, step_summary
from pagedviz.views.words import count, joined, positions

_STEPS_BEFORE = 2
_MOST_PAGES = 4
_QUOTES = ("'", '"')


class StepPair(NamedTuple):
    """One step on both engines. right: None if the healthy one tells the same, or had finished.
    differs: what is not alike when it is over."""

    number: int
    wrong: str
    right: str | None
    is_same: bool
    is_damage: bool
    is_found: bool
    differs: tuple[str, ...]


class LifeLine(NamedTuple):
    """Something that happened to a page, in a step or in several in a row."""

    first_step: int
    last_step: int
    text: str


# ---- answers -----------------------------------------------------------------------------------


def parting_word(wrong: str, right: str) -> int | None:
    """The first word in which two texts differ; None if they are alike, or one of them is no text
    but a sentence about the answer."""
    if wrong[:1] not in _QUOTES or right[:1] not in _QUOTES:
        return None
    # What ends a text is not a word: 'I had' and 'I had', aborted part after two.
    words = ([word.strip("'\",") for word in text.split()] for text in (wrong, right))
    pairs = enumerate(zip_longest(*words))
    return next((i for i, (ours, theirs) in pairs if ours != theirs), None)


def found_where(examination: Examination) -> str:
    """`Damage in step 4, found in step 4`; and where the board stops, if that is earlier: the live
    check reads the lookup map, of which a state shows nothing."""
    damage, caught, seen_live = examination.damage, examination.caught, examination.seen_live
    if damage is None:
        return "No damage: both engines went through the same states"
    found = "no rule finds it" if caught is None else f"found in step {caught.number}"
    if seen_live is not None and seen_live < damage:
        found += f"; the live check sees a broken rule in step {seen_live} already, before that"
    return f"Damage in step {damage}, {found}"


# ---- steps -------------------------------------------------------------------------------------


def step_pairs(examination: Examination) -> tuple[StepPair, ...]:
    """The steps around the damage; the last is the one in which a rule was found broken."""
    damage, caught = examination.damage, examination.caught
    last = len(examination.faulty.steps) - 1 if caught is None else caught.number
    first = max(0, min(last, last if damage is None else damage) - _STEPS_BEFORE)
    return tuple(_pair(examination, number, last) for number in range(first, last + 1))


def _pair(examination: Examination, number: int, last: int) -> StepPair:
    healthy, faulty = examination.healthy, examination.faulty
    wrong = _told(faulty, faulty.steps[number])
    right: str | None = None
    differs: tuple[str, ...] = ()
    if number < len(healthy.steps):
        right = _told(healthy, healthy.steps[number])
        differs = tuple(_differences(healthy.steps[number], faulty.steps[number]))
    return StepPair(
        number=number,
        wrong=wrong,
        right=None if right == wrong else right,
        is_same=right == wrong,
        is_damage=number == examination.damage,
        is_found=number == last and examination.caught is not None,
        differs=differs,
    )


def _told(play: Play, step: PlayedStep) -> str:
    text = step_summary(step.number, step.events, step.after, play.workload.config, play.token_text)
    return text if step.error is None else f"{text}; then the engine stops: {step.error}"


def _differences(right: PlayedStep, wrong: PlayedStep) -> Iterator[str]:
    """The faulty state after a step, as far as it is not the healthy one."""
    pages = [
        text
        for theirs, ours in zip(right.after.pages, wrong.after.pages, strict=True)
        if (text := _page_difference(theirs, ours))
    ]
    yield from pages[:_MOST_PAGES]
    if len(pages) > _MOST_PAGES:
        yield f"{count(len(pages) - _MOST_PAGES, 'more page')} not alike"
    if not pages and right.after != wrong.after:
        yield "the pages are as they should be, the sequences are not"
    if right.after == wrong.after and right.memory != wrong.memory:
        yield "the books are the same, but other keys and values lie in the pages"


def _page_difference(right: PageView, wrong: PageView) -> str:
    if wrong.generation != right.generation:
        return f"{wrong.label}, {wrong.state}, instead of {right.label}, {right.state}"
    parts = [
        f"{name} {ours} instead of {theirs}"
        for name, ours, theirs in (
            ("state", wrong.state, right.state),
            ("ref count", wrong.ref_count, right.ref_count),
            ("fill", wrong.fill, right.fill),
            ("hash", _hash(wrong), _hash(right)),
        )
        if ours != theirs
    ]
    return f"{wrong.label}: {', '.join(parts)}" if parts else ""


def _hash(page: PageView) -> str:
    return "none" if page.page_hash is None else f"{page.page_hash:016x}"[:8]


# ---- the life of a page ------------------------------------------------------------------------


def life_lines(examination: Examination, page_id: int) -> tuple[LifeLine, ...]:
    """What happened to a page up to the violation; writes of one sequence in a row are one line."""
    play, caught = examination.faulty, examination.caught
    last = len(play.steps) - 1 if caught is None else caught.number
    lines: list[LifeLine] = []
    label = page_label(page_id, 0)
    for writer, group in groupby(page_life(play, page_id, last), _writer):
        moments = list(group)
        if writer is not None:
            lines.append(_written(moments, label))
            continue
        for moment in moments:
            event = moment.event
            if isinstance(event, PageAllocated | PageCopied) and event.page_id == page_id:
                label = page_label(page_id, event.generation)
            text = headline(event, _state(play, moment), play.token_text)
            if isinstance(event, PrefixLookedUp):
                text = f"a lookup of seq:{event.seq_id:d} finds {label}"
            lines.append(LifeLine(moment.step, moment.step, text))
    return tuple(lines)


def _writer(moment: PageMoment) -> int | None:
    event = moment.event
    return event.seq_id if isinstance(event, SlotsWritten) else None


def _written(moments: list[PageMoment], label: str) -> LifeLine:
    """Slots, not tokens: a step writes many tokens, and only some of them into this page."""
    slots = sorted({slot for moment in moments for slot in moment.slots or ()})
    event = moments[0].event
    assert isinstance(event, SlotsWritten)
    where = positions(slots[0], len(slots)).replace("token", "slot")
    text = f"seq:{event.seq_id:d} writes keys and values into {where} of {label}"
    return LifeLine(moments[0].step, moments[-1].step, text)


def _state(play: Play, moment: PageMoment) -> Snapshot:
    """Where a page has the name that the event used: an evicted one had its earlier use."""
    if isinstance(moment.event, PageEvicted) and moment.step:
        return play.steps[moment.step - 1].after
    return play.steps[moment.step].after


def names_of(play: Play, last_step: int) -> str:
    """`seq:0 is clara, seq:1 is lily`."""
    sequences = play.steps[last_step].after.sequences
    return joined(f"seq:{view.seq_id:d} is {view.name}" for view in sequences) if sequences else ""
