"""What an event looks like in a trace file: its word and its fields.

Invariant: one row of the file stands for one event, except for a PageAllocated or PageCopied, which
brings the eviction of what the page held, and for the rows defined here (`Turn`, `AllWritten`).
"""

from __future__ import annotations

from typing import Any, NamedTuple

from pagedviz.engine.events import (
    AdmissionDeferred,
    Event,
    InvariantViolated,
    PageAllocated,
    PageCopied,
    PageEvicted,
    PageHashed,
    PageReleased,
    PageShared,
    PrefixLookedUp,
    SequenceAdmitted,
    SequenceFinished,
    SequenceForked,
    SequencePreempted,
    SequenceSubmitted,
    SlotsWritten,
    StateChanged,
    SwappedIn,
    SwappedOut,
    TokenSampled,
)
from pagedviz.trace.json_values import (
    Check,
    check_count,
    check_hash,
    check_id,
    check_limit,
    check_name,
    check_positive,
    check_state,
    check_token,
    check_word,
)


class Turn(NamedTuple):
    """A SequenceScheduled and, right before it, the page it took (evicted first if it had a
    hash): a decoding sequence's whole turn."""

    seq_id: int
    start: int
    num_tokens: int = 1
    takes: int | None = None


class AllWritten(NamedTuple):
    """A SlotsWritten for each SequenceScheduled of the step, in that order."""


Row = Event | Turn | AllWritten


class Field(NamedTuple):
    """`attribute` of the row, `key` in the file. is_list: a list in the file for one event."""

    attribute: str
    key: str
    check: Check
    is_list: bool = False
    is_optional: bool = False


def _field(name: str, check: Check = check_count) -> Field:
    return Field(name, name, check)


def _optional(name: str, key: str, check: Check) -> Field:
    return Field(name, key, check, is_optional=True)


_SEQ = Field("seq_id", "seq", check_id)
_PAGE = Field("page_id", "page", check_id)
_HASH = Field("page_hash", "hash", check_hash)
_INDEX = Field("logical_index", "index", check_count)
_NUM_TOKENS = _field("num_tokens", check_positive)
_REASON = _field("reason", check_word)

FORMAT: dict[type[Any], tuple[str, tuple[Field, ...]]] = {
    SequenceSubmitted: (
        "submitted",
        (
            _SEQ,
            _field("name", check_name),
            _field("num_prompt_tokens", check_positive),
            _field("max_new_tokens", check_limit),
            Field("prompt_ids", "prompt", check_token, is_list=True),
            _optional("adapter", "adapter", check_name),
            _field("num_samples", check_positive),
            _field("beam_width", check_positive),
        ),
    ),
    SequenceForked: (
        "forked",
        (
            _SEQ,
            Field("parent_id", "parent", check_id),
            _field("name", check_name),
            _field("max_new_tokens", check_limit),
            _NUM_TOKENS,
            _field("num_computed"),
        ),
    ),
    PrefixLookedUp: (
        "looked_up",
        (
            _SEQ,
            _field("num_tokens"),
            _field("end", check_word),
            Field("page_ids", "pages", check_id, is_list=True),
            _optional("position", "position", check_count),
            _optional("cached_token", "cached_token", check_token),
            _optional("prompt_token", "prompt_token", check_token),
            _optional("evicted_step", "evicted_step", check_count),
        ),
    ),
    AdmissionDeferred: (
        "deferred",
        (_SEQ, _REASON, _field("pages_needed"), _field("pages_free")),
    ),
    PageEvicted: ("evicted", (_PAGE, _HASH)),
    PageAllocated: ("allocated", (_PAGE, _field("generation"), _SEQ, _INDEX)),
    PageShared: ("shared", (_PAGE, _field("ref_count"), _SEQ, _INDEX)),
    PageCopied: (
        "copied",
        (
            _PAGE,
            _field("generation"),
            Field("source_id", "source", check_id),
            _field("source_ref_count"),
            _SEQ,
            _INDEX,
            _field("num_slots"),
        ),
    ),
    PageHashed: ("hashed", (_PAGE, _HASH, _SEQ, _INDEX)),
    PageReleased: (
        "released",
        (_PAGE, _SEQ, _field("ref_count"), _optional("queue_before", "queue_before", check_id)),
    ),
    SequenceAdmitted: ("admitted", (_SEQ, _field("num_cached"), _field("num_restored"))),
    Turn: (
        "scheduled",
        (
            _SEQ,
            _field("start"),
            _NUM_TOKENS,
            _optional("takes", "takes", check_id),
        ),
    ),
    SequencePreempted: (
        "preempted",
        (
            _SEQ,
            _field("by", check_id),
            _field("num_lost"),
            _optional("behind", "behind", check_id),
        ),
    ),
    SwappedOut: (
        "swapped_out",
        (_SEQ, _NUM_TOKENS, Field("host_page_ids", "host_pages", check_id, is_list=True)),
    ),
    SwappedIn: ("swapped_in", (_SEQ, _field("start"), _field("num_tokens"))),
    AllWritten: ("all_written", ()),
    SlotsWritten: ("written", (_SEQ, _field("start"), _NUM_TOKENS)),
    TokenSampled: ("sampled", (_SEQ, _optional("token_id", "token", check_token))),
    StateChanged: ("state", (_SEQ, _field("state", check_state))),
    SequenceFinished: ("finished", (_SEQ, _REASON)),
    InvariantViolated: (
        "violated",
        (
            _field("rule", check_positive),
            _field("message", check_name),
            _optional("page_id", "page", check_id),
            _optional("seq_id", "seq", check_id),
        ),
    ),
}
ROW_TYPES = {word: row_type for row_type, (word, _) in FORMAT.items()}
