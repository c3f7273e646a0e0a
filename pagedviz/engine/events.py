"""What happens inside a step, one small frozen event each: the outcome, never an instruction.

Fields are integers, strings and tuples of them, so that events are hashable and JSON-able, and the
same program gives the same events on every machine. Their order inside a step is the order in
which things happened; between two events the engine is in a state worth looking at.

A field with a default is left out of a trace file when it has that value.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, cast


class SequenceSubmitted(NamedTuple):
    """A request joined the back of the waiting queue. `prompt_ids` is empty when a foreign trace
    does not tell tokens. With `num_samples` or `beam_width` above 1 it is forked once its prompt is
    computed."""

    seq_id: int
    name: str
    num_prompt_tokens: int
    max_new_tokens: int
    prompt_ids: tuple[int, ...] = ()
    adapter: str | None = None
    num_samples: int = 1
    beam_width: int = 1


class SequenceForked(NamedTuple):
    """`seq_id` goes on from the first `num_tokens` tokens of `parent_id`, of which `num_computed`
    have their K/V in pages that both hold from now on (one PageShared each follows). It joined the
    end of the running list, or with `num_computed` 0 the back of the waiting queue."""

    seq_id: int
    parent_id: int
    name: str
    max_new_tokens: int
    num_tokens: int
    num_computed: int


class PrefixLookedUp(NamedTuple):
    """The prefix cache was asked for a waiting sequence: `num_tokens` tokens in `page_ids` are
    there. `end` says why the walk ended; the fields after it belong to some ends only:
    `diverged` (position, cached_token, prompt_token), `evicted` (position, evicted_step)."""

    seq_id: int
    num_tokens: int
    end: str
    page_ids: tuple[int, ...] = ()
    position: int | None = None
    cached_token: int | None = None
    prompt_token: int | None = None
    evicted_step: int | None = None


class AdmissionDeferred(NamedTuple):
    """The head of the waiting queue stays there, and so does everything behind it.

    reason: `budget`, `max_running`, `preempting_step`, `pages` (the first chunk does not fit),
    `full_prompt_gate` (all known tokens do not fit), `watermark`."""

    seq_id: int
    reason: str
    pages_needed: int
    pages_free: int


class PageEvicted(NamedTuple):
    """A cached page was taken for new content: from now on nothing finds `page_hash` here."""

    page_id: int
    page_hash: int


class PageAllocated(NamedTuple):
    """A free page left the queue's head for `seq_id`: ref_count 1, empty, in its n-th use."""

    page_id: int
    generation: int
    seq_id: int
    logical_index: int


class PageShared(NamedTuple):
    """A prefix hit or a fork put a page that exists into one more page table."""

    page_id: int
    ref_count: int
    seq_id: int
    logical_index: int


class PageCopied(NamedTuple):
    """Copy-on-write: `seq_id` was to write into `source_id`, which others hold too. The head of the
    free queue took over its first `num_slots` slots and its place in the page table; the source is
    left with `source_ref_count` owners."""

    page_id: int
    generation: int
    source_id: int
    source_ref_count: int
    seq_id: int
    logical_index: int
    num_slots: int


class PageHashed(NamedTuple):
    """The plan covers the last slot of this page: it became findable by its prefix hash."""

    page_id: int
    page_hash: int
    seq_id: int
    logical_index: int


class PageReleased(NamedTuple):
    """`seq_id` let go of its last page. At ref_count 0 the page joined the free queue before page
    `queue_before`, or at the back (None)."""

    page_id: int
    seq_id: int
    ref_count: int = 0
    queue_before: int | None = None


class SequenceAdmitted(NamedTuple):
    """The head of the waiting queue joined the end of the running list with `num_cached` tokens
    from the prefix cache and `num_restored` from the host, which it need not compute."""

    seq_id: int
    num_cached: int = 0
    num_restored: int = 0


class SequenceScheduled(NamedTuple):
    """`num_tokens` tokens from position `start` are computed in this step."""

    seq_id: int
    start: int
    num_tokens: int = 1


class SequencePreempted(NamedTuple):
    """Out of pages for `by`: the sequence lost its pages and `num_lost` computed tokens, and waits
    at the front of the queue, or right behind `behind` there. What it generated is kept; with a
    SwappedOut, what it computed too."""

    seq_id: int
    by: int
    num_lost: int
    behind: int | None = None


class SwappedOut(NamedTuple):
    """The K/V of a preempted sequence's `num_tokens` computed tokens were copied to host pages."""

    seq_id: int
    num_tokens: int
    host_page_ids: tuple[int, ...]


class SwappedIn(NamedTuple):
    """The K/V of `num_tokens` tokens from position `start` were copied back from the host into
    pages of the pool, and the sequence let go of its host pages. What lies before `start` was found
    in the prefix cache."""

    seq_id: int
    start: int
    num_tokens: int


class SlotsWritten(NamedTuple):
    """Keys and values of `num_tokens` tokens from position `start` are in their slots."""

    seq_id: int
    start: int
    num_tokens: int = 1


class TokenSampled(NamedTuple):
    """A token was appended. None when a foreign trace does not tell tokens."""

    seq_id: int
    token_id: int | None = None


class StateChanged(NamedTuple):
    """The sequence's state is now called waiting, prefilling, decoding, preempted or finished."""

    seq_id: int
    state: str


class SequenceFinished(NamedTuple):
    """The sequence left the engine, its host pages included. reason: eos, stop, max_length,
    aborted, preempted (given up for want of pages), pruned (a beam that fell out)."""

    seq_id: int
    reason: str


class InvariantViolated(NamedTuple):
    """The check after the step found rule `rule` broken, by this page or sequence, if it is one's.
    Told once for as long as it stays broken; it changes nothing."""

    rule: int
    message: str
    page_id: int | None = None
    seq_id: int | None = None


Event = (
    SequenceSubmitted
    | SequenceForked
    | PrefixLookedUp
    | AdmissionDeferred
    | PageEvicted
    | PageAllocated
    | PageShared
    | PageCopied
    | PageHashed
    | PageReleased
    | SequenceAdmitted
    | SequenceScheduled
    | SequencePreempted
    | SwappedOut
    | SwappedIn
    | SlotsWritten
    | TokenSampled
    | StateChanged
    | SequenceFinished
    | InvariantViolated
)
EVENT_TYPES: tuple[type[Event], ...] = Event.__args__

# The three events that every sequence has in every step are emitted as plain tuples of numbers,
# (kind, *fields), all fields given. They cost a fifth of an event object, and the garbage collector
# soon stops looking at them, which it never does at a NamedTuple or a SeqId.
SCHEDULED = EVENT_TYPES.index(SequenceScheduled)
WRITTEN = EVENT_TYPES.index(SlotsWritten)
SAMPLED = EVENT_TYPES.index(TokenSampled)
Emitted = Event | tuple[int, ...]

Emit = Callable[[Emitted], None]


def as_event(emitted: Emitted) -> Event:
    """What a listener was given, as an event."""
    if type(emitted) is not tuple:
        return cast(Event, emitted)
    kind, *fields = emitted
    return EVENT_TYPES[kind]._make(fields)
