"""Fault: one wrong method in place of a right one, with the workloads that show it.

Invariant: the wrong part is a subclass of the healthy part with one method of its own, so that what
is wrong and what is right can be read side by side.
"""

from __future__ import annotations

import inspect
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from pagedviz.engine.profiles import Profile
from pagedviz.faults.workload import Workload
from pagedviz.model.paged_attention import PagedAttention

Part = type[Any]
"""A class that a Profile names, or PagedAttention."""

SCENARIOS = ("books", "words")
"""The two workloads of every fault: only the books, and the bundled model."""

_PARTS = ("scheduler", "cache", "pool", "block_manager", "families")


class Fault(NamedTuple):
    """real_case: where it happened. shows: what the user sees first. is_right: what is right
    instead. rules: those that catch it in the step of the damage; 8 only where a model computes, if
    there is another. part: the class with the wrong method. right: the methods that are right, the
    one replaced first. books: the smallest workload that shows it. words: one on the bundled
    model."""

    number: int
    name: str
    title: str
    real_case: str
    shows: str
    is_right: str
    rules: tuple[int, ...]
    part: Part
    right: tuple[Callable[..., Any], ...]
    books: Workload
    words: Workload

    @property
    def workloads(self) -> dict[str, Workload]:
        return dict(zip(SCENARIOS, (self.books, self.words), strict=True))

    def rules_for(self, workload: Workload) -> tuple[int, ...]:
        """The rules that must catch it in a workload."""
        others = tuple(rule for rule in self.rules if rule != 8)
        return self.rules if workload.has_model or not others else others


class Source(NamedTuple):
    """Lines of the project: `file` below the package's folder, from `line` on."""

    file: str
    line: int
    text: str


def overridden(part: Part) -> list[tuple[str, str]]:
    """(class, method) of every healthy method that a part replaces."""
    return [
        (base.__name__, name)
        for name in vars(part)
        if callable(getattr(part, name))
        for base in part.__mro__[1:]
        if name in vars(base) and base is not object
    ]


def source_of(thing: Callable[..., Any] | Part) -> Source:
    """The lines as they run."""
    lines, line = inspect.getsourcelines(thing)
    path = Path(inspect.getfile(thing))
    root = Path(__file__).resolve().parent.parent
    return Source(path.relative_to(root.parent).as_posix(), line, textwrap.dedent("".join(lines)))


def broken_profile(healthy: Profile, part: Part | None) -> Profile:
    """A profile with one part replaced."""
    fields = [f for f in _PARTS if part is not None and issubclass(part, getattr(healthy, f))]
    return healthy._replace(**dict.fromkeys(fields, part))


def broken_attention(part: Part | None) -> type[PagedAttention]:
    return part if part is not None and issubclass(part, PagedAttention) else PagedAttention
