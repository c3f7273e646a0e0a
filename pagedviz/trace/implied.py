"""What a trace file may leave out because it follows from what came before.

Invariant: such a value is computed here and nowhere else, for reader and writer alike, so that
the writer leaves out exactly what the reader will find.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pagedviz.engine.errors import TraceFormatError
from pagedviz.engine.events import (
    AdmissionDeferred,
    Event,
    PageAllocated,
    PageCopied,
    PageEvicted,
    PageHashed,
    PageReleased,
    PageShared,
    PrefixLookedUp,
    SequenceForked,
    SequencePreempted,
    SequenceScheduled,
    SequenceSubmitted,
    SlotsWritten,
    StateChanged,
)
from pagedviz.engine.prefix_hash import prefix_hash_seed, roll_hash
from pagedviz.trace.event_format import AllWritten, Row, Turn
from pagedviz.trace.reducer import Reducer


class Context:
    """What a file has said so far."""

    def __init__(self, num_pages: int, block_size: int) -> None:
        self.state = Reducer(num_pages, block_size)
        self._last_deferred: dict[int, AdmissionDeferred] = {}
        self._scheduled: list[SequenceScheduled] = []

    def apply(self, event: Event) -> None:
        self.state.apply(event)
        if isinstance(event, AdmissionDeferred):
            self._last_deferred[event.seq_id] = event
        elif isinstance(event, SequenceScheduled):
            self._scheduled.append(event)

    def end_step(self) -> None:
        self.state.end_step()
        self._scheduled.clear()

    def implied(self, row_type: type[Any], attribute: str, given: dict[str, Any]) -> Any:
        """The value of a field that is left out. KeyError (with the attribute that is missing) if
        nothing implies one, TraceFormatError if `given` names what does not exist."""
        imply = _IMPLIED.get((row_type, attribute))
        if imply is None:
            return row_type._field_defaults[attribute]
        return imply(self, given)

    def last_deferred(self, given: dict[str, Any], attribute: str) -> Any:
        last = self._last_deferred.get(given["seq_id"])
        if last is None:
            raise KeyError(attribute)
        return getattr(last, attribute)

    def events_of(self, row: Row) -> tuple[Event, ...]:
        """The events a row stands for, the next to be applied."""
        if isinstance(row, PageAllocated | PageCopied):
            return (*self._eviction(row.page_id), row)
        if isinstance(row, AllWritten):
            return tuple(SlotsWritten(*scheduled) for scheduled in self._scheduled)
        if not isinstance(row, Turn):
            return (row,)
        scheduled = SequenceScheduled(row.seq_id, row.start, row.num_tokens)
        if row.takes is None:
            return (scheduled,)
        generation = self.state.page(row.takes).generation + 1
        logical_index = len(self.state.page_ids(row.seq_id))
        return (
            *self._eviction(row.takes),
            PageAllocated(row.takes, generation, row.seq_id, logical_index),
            scheduled,
        )

    def _eviction(self, page_id: int) -> tuple[Event, ...]:
        page_hash = self.state.page(page_id).page_hash
        return () if page_hash is None else (PageEvicted(page_id, page_hash),)

    def present_hash(self, given: dict[str, Any]) -> int:
        page_hash = self.state.page(given["page_id"]).page_hash
        if page_hash is None:
            raise TraceFormatError(f"p{given['page_id']:d} has no hash that could be evicted")
        return page_hash

    def prefix_hash(self, given: dict[str, Any]) -> int:
        """FNV-1a rolled on from the page before. KeyError if that or a token is not known."""
        sequence = self.state.sequence(given["seq_id"])
        index = given.get("logical_index")
        index = self.place_in_table(given) if index is None else index
        size = self.state.block_size
        token_ids = sequence.token_ids[index * size : (index + 1) * size]
        if index == 0:
            parent_hash: int | None = prefix_hash_seed(sequence.adapter)
        elif index <= len(sequence.page_ids):
            parent_hash = self.state.page(sequence.page_ids[index - 1]).page_hash
        else:
            parent_hash = None
        known = [token_id for token_id in token_ids if token_id is not None]
        if parent_hash is None or len(known) < size:
            raise KeyError("page_hash")
        return roll_hash(parent_hash, known)

    def place_in_table(self, given: dict[str, Any]) -> int:
        table, page_id = self.state.page_ids(given["seq_id"]), given["page_id"]
        if page_id not in table:
            raise TraceFormatError(f"seq:{given['seq_id']:d} does not hold p{page_id:d}")
        return table.index(page_id)


def _computed(context: Context, given: dict[str, Any]) -> int:
    return context.state.sequence(given["seq_id"]).num_computed


def _of_parent(attribute: str) -> Callable[[Context, dict[str, Any]], Any]:
    return lambda context, given: getattr(context.state.sequence(given["parent_id"]), attribute)


def _fork_computed(context: Context, given: dict[str, Any]) -> int:
    return _computed(context, {"seq_id": given["parent_id"]})


def _fork_tokens(context: Context, given: dict[str, Any]) -> int:
    return len(context.state.sequence(given["parent_id"]).token_ids)


def _copied_index(context: Context, given: dict[str, Any]) -> int:
    return context.place_in_table({"seq_id": given["seq_id"], "page_id": given["source_id"]})


def _pages_held(context: Context, given: dict[str, Any]) -> int:
    return len(context.state.page_ids(given["seq_id"]))


def _state_name(context: Context, given: dict[str, Any]) -> str:
    sequence = context.state.sequence(given["seq_id"])
    if sequence.finish_reason is not None:
        return "finished"
    if not context.state.is_running(given["seq_id"]):
        return "preempted" if sequence.num_preemptions else "waiting"
    num_tokens = len(sequence.token_ids)
    is_decoding = num_tokens > sequence.num_prompt_tokens and (
        sequence.num_computed >= num_tokens - 1
    )
    return "decoding" if is_decoding else "prefilling"


def _position(context: Context, given: dict[str, Any]) -> int | None:
    # These ends are at a page boundary: the first token that was not found.
    if given["end"] in ("evicted", "never_seen", "other_adapter"):
        return len(given.get("page_ids", ())) * context.state.block_size
    return None


def _evicted_step(context: Context, given: dict[str, Any]) -> int | None:
    return context.state.num_steps if given["end"] == "evicted" else None


def _num_prompt_tokens(context: Context, given: dict[str, Any]) -> int:
    if not given.get("prompt_ids"):
        raise KeyError("num_prompt_tokens")
    return len(given["prompt_ids"])


def _num_scheduled(context: Context, given: dict[str, Any]) -> int:
    num_tokens = context.state.sequence(given["seq_id"]).num_scheduled
    if not num_tokens:
        raise KeyError("num_tokens")
    return num_tokens


_IMPLIED: dict[tuple[type[Any], str], Callable[[Context, dict[str, Any]], Any]] = {
    (SequenceSubmitted, "name"): lambda context, given: f"seq:{given['seq_id']:d}",
    (SequenceSubmitted, "num_prompt_tokens"): _num_prompt_tokens,
    (SequenceForked, "max_new_tokens"): _of_parent("max_new_tokens"),
    (SequenceForked, "num_tokens"): _fork_tokens,
    (SequenceForked, "num_computed"): _fork_computed,
    (PrefixLookedUp, "position"): _position,
    (PrefixLookedUp, "evicted_step"): _evicted_step,
    (PrefixLookedUp, "num_tokens"): lambda context, given: (
        len(given.get("page_ids", ())) * context.state.block_size
    ),
    (AdmissionDeferred, "reason"): lambda context, given: context.last_deferred(given, "reason"),
    (AdmissionDeferred, "pages_needed"): lambda context, given: context.last_deferred(
        given, "pages_needed"
    ),
    (AdmissionDeferred, "pages_free"): lambda context, given: context.state.free_count,
    (PageEvicted, "page_hash"): Context.present_hash,
    (PageAllocated, "generation"): lambda context, given: (
        context.state.page(given["page_id"]).generation + 1
    ),
    (PageAllocated, "logical_index"): _pages_held,
    (PageShared, "ref_count"): lambda context, given: (
        context.state.page(given["page_id"]).ref_count + 1
    ),
    (PageShared, "logical_index"): _pages_held,
    (PageCopied, "generation"): lambda context, given: (
        context.state.page(given["page_id"]).generation + 1
    ),
    (PageCopied, "source_ref_count"): lambda context, given: max(
        context.state.page(given["source_id"]).ref_count - 1, 0
    ),
    (PageCopied, "logical_index"): _copied_index,
    (PageCopied, "num_slots"): lambda context, given: context.state.page(given["source_id"]).fill,
    (PageHashed, "page_hash"): Context.prefix_hash,
    (PageHashed, "logical_index"): Context.place_in_table,
    (PageReleased, "ref_count"): lambda context, given: max(
        context.state.page(given["page_id"]).ref_count - 1, 0
    ),
    (Turn, "start"): _computed,
    (SequencePreempted, "num_lost"): _computed,
    (SlotsWritten, "start"): _computed,
    (SlotsWritten, "num_tokens"): _num_scheduled,
    (StateChanged, "state"): _state_name,
}
