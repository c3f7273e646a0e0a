"""The sequences of a reducer: frozen views, opened to lists while they change.

Invariants: the order of submission is kept; a sequence that does not change is never copied, so a
finished one costs nothing and a view is shared by all snapshots that contain it.
"""

from __future__ import annotations

from pagedviz.engine.errors import TraceFormatError
from pagedviz.engine.snapshot import SequenceView


class OpenSequence:
    """A sequence while it changes: lists where the view has tuples."""

    __slots__ = (
        "_first",
        "adapter",
        "finish_reason",
        "generations",
        "host_page_ids",
        "max_new_tokens",
        "num_cached",
        "num_computed",
        "num_preemptions",
        "num_prompt_tokens",
        "num_scheduled",
        "num_swapped",
        "page_ids",
        "parent_id",
        "state",
        "token_ids",
    )

    def __init__(self, view: SequenceView) -> None:
        self._first = view[:5]
        self.adapter = view.adapter
        self.max_new_tokens = view.max_new_tokens
        self.num_prompt_tokens = view.num_prompt_tokens
        self.token_ids = list(view.token_ids)
        self.state = view.state
        self.num_computed = view.num_computed
        self.num_scheduled = view.num_scheduled
        self.num_cached = view.num_cached
        self.num_preemptions = view.num_preemptions
        self.page_ids = list(view.page_ids)
        self.generations = list(view.generations)
        self.finish_reason = view.finish_reason
        self.parent_id = view.parent_id
        self.num_swapped = view.num_swapped
        self.host_page_ids = view.host_page_ids

    def freeze(self) -> SequenceView:
        return SequenceView(
            *self._first,
            tuple(self.token_ids),
            self.state,
            self.num_computed,
            self.num_scheduled,
            self.num_cached,
            self.num_preemptions,
            tuple(self.page_ids),
            tuple(self.generations),
            self.finish_reason,
            self.parent_id,
            self.num_swapped,
            self.host_page_ids,
        )


class OpenSequences:
    def __init__(self, views: tuple[SequenceView, ...]) -> None:
        self._views = {view.seq_id: view for view in views}
        self._open: dict[int, OpenSequence] = {}
        self._dirty: set[int] = set()

    def __len__(self) -> int:
        return len(self._views)

    def __contains__(self, seq_id: int) -> bool:
        return seq_id in self._views

    def add(self, view: SequenceView) -> None:
        self._views[view.seq_id] = view

    def look(self, seq_id: int) -> OpenSequence | SequenceView:
        """To read. TraceFormatError if it was never submitted."""
        found = self._open.get(seq_id) or self._views.get(seq_id)
        if found is None:
            raise TraceFormatError(f"seq:{seq_id:d} was never submitted")
        return found

    def change(self, seq_id: int) -> OpenSequence:
        """To write. TraceFormatError if it was never submitted."""
        sequence = self._open.get(seq_id)
        if sequence is None:
            view = self._views.get(seq_id)
            if view is None:
                raise TraceFormatError(f"seq:{seq_id:d} was never submitted")
            sequence = self._open[seq_id] = OpenSequence(view)
        self._dirty.add(seq_id)
        return sequence

    def freeze(self) -> tuple[SequenceView, ...]:
        for seq_id in self._dirty:
            view = self._views[seq_id] = self._open[seq_id].freeze()
            if view.finish_reason is not None:
                del self._open[seq_id]
        self._dirty.clear()
        return tuple(self._views.values())
