"""Twelve faults of real engines, each one wrong method in place of a right one.

Invariants: the engine is untouched: a fault derives from a part of it; no two faults replace the
same method.
"""

from __future__ import annotations

from pagedviz.engine.errors import PagedVizError
from pagedviz.faults import (
    counted_first,
    doubled_token,
    freed_duplicate,
    narrow_hash,
    orphans,
    own_hit_evicted,
    refused_hit,
    shared_tail,
    stale_entry,
    unwritten_slots,
    whole_prompt_hit,
    wiped_hash,
)
from pagedviz.faults.examine import Difference, Examination, examine
from pagedviz.faults.fault import SCENARIOS, Fault, Source, overridden, source_of
from pagedviz.faults.page_life import PageMoment, page_life
from pagedviz.faults.play import Play
from pagedviz.faults.workload import Workload

__all__ = [
    "FAULTS",
    "SCENARIOS",
    "Difference",
    "Examination",
    "Fault",
    "PageMoment",
    "Play",
    "Source",
    "UnknownFault",
    "Workload",
    "examine",
    "find_fault",
    "overridden",
    "page_life",
    "source_of",
]

FAULTS: tuple[Fault, ...] = (
    narrow_hash.FAULT,
    refused_hit.FAULT,
    own_hit_evicted.FAULT,
    stale_entry.FAULT,
    wiped_hash.FAULT,
    whole_prompt_hit.FAULT,
    counted_first.FAULT,
    unwritten_slots.FAULT,
    doubled_token.FAULT,
    orphans.FAULT,
    shared_tail.FAULT,
    freed_duplicate.FAULT,
)
"""By number, from 1."""


class UnknownFault(PagedVizError):
    """No fault has that name or number."""


def find_fault(name: str) -> Fault:
    """A fault by its name or number. UnknownFault."""
    for fault in FAULTS:
        if name in (fault.name, str(fault.number)):
            return fault
    known = ", ".join(fault.name for fault in FAULTS)
    raise UnknownFault(f"there is no fault {name[:40]!r}; there are {known}, or their numbers")
