"""The rules of the paged cache as one table: what must hold after every step.

Numbers that are missing stand for rules that need a model.
"""

from __future__ import annotations

from typing import NamedTuple


class Rule(NamedTuple):
    """What must hold, in a few words and in a sentence."""

    name: str
    sentence: str


RULES: dict[int, Rule] = {
    1: Rule(
        "free, cached or active",
        "Free, cached and active pages are all pages, each in one of these states, and the free "
        "queue holds every page without an owner exactly once; a host page is free or one "
        "sequence's.",
    ),
    2: Rule("ref counts", "The ref count of a page is the number of page tables that hold it."),
    3: Rule(
        "tables point at their own pages",
        "No page table points at a free or cached page, and the generation it was given still "
        "stands.",
    ),
    4: Rule(
        "tables cover what is computed",
        "A page table covers exactly its computed and scheduled tokens, and a page is filled just "
        "as far as its owners have computed.",
    ),
    5: Rule(
        "hashes tell the content",
        "A findable hash points at a full page with exactly the tokens and the adapter it stands "
        "for.",
    ),
    6: Rule(
        "shared content is never written",
        "A hashed page is never written again, and a page that others hold too is copied first.",
    ),
    7: Rule(
        "something makes progress",
        "No sequence waits while nothing runs and nothing will change; each one that has not "
        "finished waits or runs, once.",
    ),
    9: Rule("a hit leaves the map alone", "A prefix hit changes neither the map nor the hashes."),
    10: Rule(
        "scheduled tokens are known",
        "At least one token is scheduled, and computed plus scheduled tokens are at most the known "
        "ones.",
    ),
    11: Rule(
        "attention reads own written slots",
        "Attention reads only slots below computed plus scheduled, all written for this sequence's "
        "tokens.",
    ),
    12: Rule(
        "who left holds nothing",
        "No page is held by a finished or aborted sequence, nor by a fork of one that was aborted.",
    ),
}


def logit_tolerance(largest: float) -> float:
    """By how much paged logits may differ from dense ones whose largest magnitude is `largest`.

    1e-4 * max(1, largest / 16): both are float32 sums in another order, and the rounding grows with
    the logits.
    """
    return 1e-4 * max(1.0, largest / 16)
