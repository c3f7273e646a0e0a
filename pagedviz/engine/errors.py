"""Everything pagedviz refuses, one class each; a call that raises has changed nothing.

PagedVizError
|-- ConfigError              a setting or a request that can never work
|-- OutOfPages               the pool has fewer free pages than the call needs
|-- SequenceNotFound         unknown sequence
|-- SequenceExists           the id is taken
|-- MaxSequencesExceeded     too many sequences registered
|-- MaxPagesExceeded         one sequence wants more pages than it may have
|-- KvShapeMismatch          key or value of the wrong shape
|-- SlotOutOfRange           no such slot in a page, or nothing written there
|-- PageOutOfBounds          no such page in the pool
|-- DoubleFree               a page without an owner was freed
|-- PageIsHashed             a page others may be reading would be written
|-- PositionGap              a write would leave a hole (also a ValueError)
|-- IllegalTransition        the sequence is in the wrong state for this
|-- EngineFailed             a model error left the step half done
|-- InvariantError           a rule of the paged cache does not hold
|-- TraceFormatError         a trace file that cannot be read
|-- MomentNotFound           a step or event that a trace does not have
|-- ReplayDivergence         a recorded run that went another way when it was run again
`-- ScenarioError            a scenario or workload file that cannot be read
"""

from __future__ import annotations


class PagedVizError(Exception):
    """Base of all errors that a user may read; the message is one sentence with the numbers."""


class ConfigError(PagedVizError):
    pass


class OutOfPages(PagedVizError):
    def __init__(self, needed: int, free: int) -> None:
        super().__init__(
            f"out of pages: {needed} needed, {free} free; wait, preempt, or enlarge the pool"
        )
        self.needed = needed
        self.free = free


class SequenceNotFound(PagedVizError):
    def __init__(self, seq_id: int) -> None:
        super().__init__(f"no sequence seq:{int(seq_id)} is registered")
        self.seq_id = seq_id


class SequenceExists(PagedVizError):
    def __init__(self, seq_id: int) -> None:
        super().__init__(f"seq:{int(seq_id)} exists already; ids are never reused")
        self.seq_id = seq_id


class MaxSequencesExceeded(PagedVizError):
    def __init__(self, limit: int) -> None:
        super().__init__(f"{limit} sequences are registered, which is the limit; free one first")
        self.limit = limit


class MaxPagesExceeded(PagedVizError):
    def __init__(self, seq_id: int, wanted: int, limit: int) -> None:
        super().__init__(
            f"seq:{int(seq_id)} would hold {wanted} pages, the limit per sequence is {limit}"
        )
        self.seq_id, self.wanted, self.limit = seq_id, wanted, limit


class KvShapeMismatch(PagedVizError):
    def __init__(self, what: str, got: tuple[int, ...], expected: tuple[int, ...]) -> None:
        super().__init__(f"{what} has shape {got}, a slot holds [num_heads, head_dim] = {expected}")
        self.got, self.expected = got, expected


class SlotOutOfRange(PagedVizError):
    pass


class PageOutOfBounds(PagedVizError):
    def __init__(self, page_id: int, num_pages: int) -> None:
        super().__init__(
            f"page {int(page_id)} does not exist: the pool has pages 0 to {num_pages - 1}"
        )
        self.page_id, self.num_pages = page_id, num_pages


class DoubleFree(PagedVizError):
    def __init__(self, page_id: int) -> None:
        super().__init__(f"p{int(page_id)} has no owner (ref_count 0) and cannot be freed again")
        self.page_id = page_id


class PageIsHashed(PagedVizError):
    def __init__(self, page_id: int, position: int) -> None:
        super().__init__(
            f"token {position} lies in p{int(page_id)}, which is full and findable by its hash: "
            "it can no longer be written"
        )
        self.page_id, self.position = page_id, position


class PositionGap(PagedVizError, ValueError):
    def __init__(self, position: int, expected: int) -> None:
        super().__init__(
            f"token {position} cannot be written yet: tokens 0 to {expected - 1} are there, "
            f"the next is {expected}"
            if expected
            else f"token {position} cannot be written yet: nothing is there, the next is 0"
        )
        self.position, self.expected = position, expected


class IllegalTransition(PagedVizError):
    pass


class EngineFailed(PagedVizError):
    pass


class InvariantError(PagedVizError):
    def __init__(self, rule: int, message: str) -> None:
        super().__init__(f"rule {rule}: {message}")
        self.rule = rule


class TraceFormatError(PagedVizError):
    def __init__(self, message: str, line: int | None = None) -> None:
        super().__init__(message if line is None else f"line {line}: {message}")
        self.line = line


class MomentNotFound(PagedVizError):
    pass


class ReplayDivergence(PagedVizError):
    """`event`: how many events of `step` were the same before the first that differs."""

    def __init__(self, step: int, event: int, recorded: str, replayed: str) -> None:
        super().__init__(
            f"run again, step {step} goes another way after {event} events: recorded is "
            f"{recorded}, this engine gives {replayed}; the trace comes from another engine or "
            "model, or was changed"
        )
        self.step, self.event, self.recorded, self.replayed = step, event, recorded, replayed


class ScenarioError(PagedVizError):
    pass
