"""Small id types that print themselves.

Both are integers, so they sort, hash and serialise as such, but they never print as a bare number.
"""

from __future__ import annotations

from dataclasses import dataclass


class SeqId(int):
    """A sequence for its whole life; never reused. `str(SeqId(7)) == "seq:7"`."""

    __slots__ = ()

    def __str__(self) -> str:
        return f"seq:{int(self)}"

    __repr__ = __str__


class PageId(int):
    """A physical page of the pool, counted from 0. `str(PageId(12)) == "p12"`."""

    __slots__ = ()

    def __str__(self) -> str:
        return f"p{int(self)}"

    __repr__ = __str__


@dataclass(frozen=True, slots=True)
class AdapterKey:
    """A LoRA adapter by name. Sequences with equal keys share a sub-batch, others never do."""

    name: str

    def __str__(self) -> str:
        return self.name


def page_label(page_id: int, generation: int) -> str:
    """`p12.3`: page 12 in its third use; `p12` before its first."""
    return f"p{int(page_id)}.{generation}" if generation else f"p{int(page_id)}"
