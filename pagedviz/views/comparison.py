"""Two runs of one workload, locked to the same step: what differs, of which kind, and first where.

    decisions   who arrives, is admitted with which hits, computes, is preempted, ends
    pages       active and cached pages, empty slots, host pages; with pages of one size also who
                holds which
    text        tokens that contradict each other, or an answer that ends early in one run
    rules       which rules of the cache were found broken

Invariants: requests are matched by name; a run that has ended stays as it was at its end, so the
longer run decides how long is compared; page ids are compared between pages of one size only. A
token is compared with the one at its place in the other answer, whenever that was sampled, so a run
that is merely later says nothing different; the step is the one in which both are known.
"""

from __future__ import annotations

from itertools import zip_longest
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from pagedviz.trace.queries import occupancy
from pagedviz.trace.run_facts import Decisions, RunFacts, Said, run_facts
from pagedviz.trace.trace import Trace
from pagedviz.views.difference_words import (
    Called,
    decision_words,
    ending_words,
    page_words,
    rule_words,
    table_words,
    token_words,
)
from pagedviz.views.violations import violations_of
from pagedviz.views.words import TokenText, numbered

KINDS = ("decisions", "pages", "text", "rules")
_NOTHING = Decisions({}, {}, {}, {}, {})

_Tables = dict[str, tuple[int, ...]]


class Difference(NamedTuple):
    """kind: one of KINDS. sentence: begins with the step."""

    kind: str
    step: int
    sentence: str


class Comparison(NamedTuple):
    """num_steps: how many were compared. differing: by kind, for each step what differs or None."""

    num_steps: int
    differing: dict[str, tuple[str | None, ...]]

    def at(self, step: int) -> tuple[Difference, ...]:
        """What differs in a step, a sentence for each kind that does."""
        found = []
        for kind in KINDS:
            words = self.differing[kind][step] if step < self.num_steps else None
            if words is not None:
                found.append(Difference(kind, step, f"Step {step}: {words}"))
        return tuple(found)

    def steps(self, kind: str) -> tuple[int, ...]:
        """Steps in which something of a kind differs, ascending."""
        return tuple(s for s, words in enumerate(self.differing[kind]) if words is not None)

    def first(self, kind: str) -> Difference | None:
        """The first difference of a kind."""
        steps = self.steps(kind)
        return next(d for d in self.at(steps[0]) if d.kind == kind) if steps else None


def compare_runs(
    left: Trace, right: Trace, token_text: TokenText = numbered, is_complete: bool = True
) -> Comparison:
    """is_complete: both runs have ended by themselves; otherwise only the steps that both have are
    compared. TraceFormatError if the events of one do not fit together."""
    a, b = run_facts(left), run_facts(right)
    longest = max if is_complete else min
    num_steps = longest(left.num_steps, right.num_steps)
    called = _calling(a, b)
    differing = {
        "decisions": _decisions(a, b, num_steps, called),
        "pages": _pages(left, right, num_steps, called),
        "text": _texts(a, b, num_steps, called, token_text),
        "rules": _rules(left, right, num_steps),
    }
    return Comparison(num_steps, differing)


def _calling(a: RunFacts, b: RunFacts) -> Called:
    """`seq:2 (tom)`; the name alone where the runs have numbered it differently."""

    def called(name: str) -> str:
        ids = {facts.seq_ids[name] for facts in (a, b) if name in facts.seq_ids}
        if len(ids) > 1:
            return name
        label = f"seq:{ids.pop():d}"
        return label if label == name else f"{label} ({name})"

    return called


def _decisions(a: RunFacts, b: RunFacts, num_steps: int, called: Called) -> tuple[str | None, ...]:
    pairs = list(zip_longest(a.decisions, b.decisions, fillvalue=_NOTHING))[:num_steps]
    return tuple(
        None if one == other else decision_words(one, other, called) for one, other in pairs
    )


def _pages(left: Trace, right: Trace, num_steps: int, called: Called) -> tuple[str | None, ...]:
    counts = _counts(left, num_steps), _counts(right, num_steps)
    is_same = np.all(counts[0] == counts[1], axis=1)  # [num_steps]
    sizes = left.header.block_size, right.header.block_size
    holders = _Holders(run_facts(left), run_facts(right), called)
    words: list[str | None] = []
    for step in range(num_steps):
        other_pages = holders.differing(step) if sizes[0] == sizes[1] else None
        if is_same[step]:
            words.append(other_pages)
        else:
            rows = [tuple(map(int, side[step])) for side in counts]
            words.append(page_words(rows[0], rows[1], sizes))
    return tuple(words)


def _counts(trace: Trace, num_steps: int) -> NDArray[np.int64]:
    """Active pages, cached pages, empty slots, host pages after each step: [num_steps, 4]. What is
    free follows from them and the sizes of the pools, which are settings."""
    held = occupancy(trace)
    table = np.stack([held.active, held.cached, held.waste, held.host], axis=1)[:num_steps]
    if not len(table):
        return np.zeros((num_steps, 4), dtype=np.int64)
    return np.pad(table, ((0, num_steps - len(table)), (0, 0)), mode="edge")


class _Holders:
    """Who holds which pages in both runs, kept from step to step: few change in one."""

    def __init__(self, a: RunFacts, b: RunFacts, called: Called) -> None:
        self._steps = a.tables, b.tables
        self._held: tuple[_Tables, _Tables] = ({}, {})
        self._differing: dict[str, None] = {}
        self._called = called

    def differing(self, step: int) -> str | None:
        """To be asked step by step, from 0 on."""
        touched: dict[str, None] = {}
        for held, steps in zip(self._held, self._steps, strict=True):
            if step < len(steps):
                held.update(steps[step])
                touched.update(dict.fromkeys(steps[step]))
        for name in touched:
            pair = [held.get(name, ()) for held in self._held]
            if pair[0] == pair[1]:
                self._differing.pop(name, None)
            else:
                self._differing[name] = None
        if not self._differing:
            return None
        name = next(iter(self._differing))
        pages = [held.get(name, ()) for held in self._held]
        return table_words(self._called(name), pages[0], pages[1])


def _texts(
    a: RunFacts, b: RunFacts, num_steps: int, called: Called, token_text: TokenText
) -> tuple[str | None, ...]:
    words: list[str | None] = [None] * num_steps
    for name in {**a.answers, **b.answers}:
        left, right = a.answers.get(name, ()), b.answers.get(name, ())
        for place, (one, other) in enumerate(zip(left, right, strict=False)):
            if None in (one.token_id, other.token_id) or one.token_id == other.token_id:
                continue
            step = max(one.step, other.step)
            if step < num_steps and words[step] is None:
                words[step] = token_words(
                    called(name), place, one.token_id, other.token_id, token_text
                )
        cut = _ending(name, a, b, left, right)
        if cut is not None and cut[0] < num_steps and words[cut[0]] is None:
            words[cut[0]] = ending_words(called(name), *cut[1:])
    return tuple(words)


def _rules(left: Trace, right: Trace, num_steps: int) -> tuple[str | None, ...]:
    words: list[str | None] = []
    for step in range(num_steps):
        sides = [
            [broken.event for broken in violations_of(trace, step)]
            if step < trace.num_steps
            else []
            for trace in (left, right)
        ]
        is_same = [event.rule for event in sides[0]] == [event.rule for event in sides[1]]
        words.append(None if is_same else rule_words(*sides))
    return tuple(words)


def _ending(
    name: str, a: RunFacts, b: RunFacts, left: tuple[Said, ...], right: tuple[Said, ...]
) -> tuple[int, str, int, str] | None:
    """Step, side, tokens and reason of an answer that has ended where the other one goes on."""
    for side, facts, short, long in (("left", a, left, right), ("right", b, right, left)):
        if name in facts.ends and len(short) < len(long):
            step, reason = facts.ends[name]
            return max(step, long[len(short)].step), side, len(short), reason
    return None
