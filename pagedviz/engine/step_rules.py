"""Rules of the paged cache that need a whole step to be seen broken, one function each.

Rules 6 and 10, and of rule 11 what attention reads, need no end state: they can be asked of a step
that broke off. Invariant: like the rules of state_rules, they believe nothing they audit: what a
step did is counted from its events, starting at the snapshot before it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from pagedviz.engine.snapshot import SequenceView, Snapshot
from pagedviz.engine.state_rules import Finding, first_difference
from pagedviz.engine.step_facts import StepFacts
from pagedviz.engine.step_start import StepStart


class CheckedStep(NamedTuple):
    """One step: what held before it, what happened, and the state at its end. `more_arrivals`:
    requests or commands are still to come that may change what nothing else would."""

    start: StepStart
    facts: StepFacts
    after: Snapshot
    more_arrivals: bool


def hashed_pages_are_never_written(facts: StepFacts) -> Iterator[Finding]:
    """Rule 6. No slot of a findable page is written a second time, and none of a page that a fork
    holds too."""
    # A page is hashed when its last slot is planned, before that slot is written: so a first write
    # into a hashed page is right, a second one is not.
    for write in facts.overwritten:
        yield Finding(
            f"seq:{write.seq_id:d} writes p{write.page_id:d} from slot {write.offset} on, it is "
            f"findable by {write.page_hash:016x} and its first {write.fill} slots are written",
            write.page_id,
            write.seq_id,
        )

    for shared in facts.shared_writes:
        yield Finding(
            f"seq:{shared.seq_id:d} writes p{shared.page_id:d} from slot {shared.offset} on, which "
            f"{shared.num_owners} sequences hold: it must be copied first",
            shared.page_id,
            shared.seq_id,
        )


def something_makes_progress(step: CheckedStep) -> Iterator[Finding]:
    """Rule 7. No sequence waits while nothing runs and nothing will ever change."""
    after = step.after
    # A step is a function of the state it starts from. If one has scheduled, preempted and released
    # nothing, and nothing runs, then all later ones are like it.
    if after.waiting and not after.running and not step.facts.has_moved and not step.more_arrivals:
        yield Finding(
            f"{len(after.waiting)} sequences wait, 0 run, and seq:{after.waiting[0]:d} at the head "
            f"was not admitted with {len(after.free_queue)} of {len(after.pages)} pages free: no "
            "later step will differ",
            seq_id=after.waiting[0],
        )


def hits_leave_the_map_alone(step: CheckedStep) -> Iterator[Finding]:
    """Rule 9. A hit changes neither which pages are findable nor their hashes and tokens; only
    hashing a page and handing it out again do."""
    facts = step.facts
    for new in step.after.pages:
        page_id = new.page_id
        token_ids = step.start.contents.get(page_id, ())
        hit_by = facts.hits.get(page_id)
        if hit_by is None and page_id in facts.evicted and page_id not in facts.hashes:
            continue
        wanted = facts.hash_now(page_id)
        whose = "untouched" if hit_by is None else f"hit by seq:{hit_by:d}"
        if new.page_hash != wanted:
            yield Finding(
                f"p{page_id:d} was {whose} and has hash {_hex(new.page_hash)} after the step, "
                f"where it should be {_hex(wanted)}",
                page_id,
                hit_by,
            )
        elif page_id not in facts.hashes and token_ids != new.token_ids:
            yield Finding(
                f"p{page_id:d} was {whose} and its tokens changed from {list(token_ids)} to "
                f"{list(new.token_ids)}",
                page_id,
                hit_by,
            )


def scheduled_tokens_are_known(facts: StepFacts) -> Iterator[Finding]:
    """Rule 10. At least one token is scheduled, from the first uncomputed one on, and no more than
    are known."""
    for chunk in facts.misplanned:
        what = f"seq:{chunk.seq_id:d} is scheduled for {chunk.num_tokens} tokens"
        if chunk.num_tokens < 1:
            yield Finding(f"{what}, at least 1 is needed to get logits", seq_id=chunk.seq_id)
        elif chunk.start != chunk.num_computed:
            yield Finding(
                f"{what} from position {chunk.start} on, {chunk.num_computed} are computed",
                seq_id=chunk.seq_id,
            )
        else:
            yield Finding(
                f"{what} after {chunk.num_computed} computed ones, {chunk.num_known} are known",
                seq_id=chunk.seq_id,
            )
    for lookup in facts.exhausted:
        yield Finding(
            f"seq:{lookup.seq_id:d} found {lookup.num_tokens} of its {lookup.num_known} tokens in "
            "the cache and is left with 0 to schedule, at least 1 is needed to get logits",
            seq_id=lookup.seq_id,
        )


def attention_reads_own_written_slots(facts: StepFacts) -> Iterator[Finding]:
    """Rule 11. Attention reads only slots below computed + scheduled, all of them written."""
    for write in facts.unplanned:
        yield Finding(
            f"seq:{write.seq_id:d} writes {write.num_tokens} tokens from {write.start}, scheduled "
            f"were {write.planned[1]} from {write.planned[0]}",
            seq_id=write.seq_id,
        )
    for read in facts.overread:
        yield Finding(
            f"attention of seq:{read.seq_id:d} reads {read.num_read} slots, {read.stop} are "
            "computed or scheduled",
            seq_id=read.seq_id,
        )
    for hole in facts.unwritten:
        place = "no page" if hole.page_id is None else f"p{hole.page_id:d}"
        yield Finding(
            f"attention of seq:{hole.seq_id:d} reads {hole.needed} slots of its page "
            f"{hole.logical_index} ({place}), {hole.fill} are written",
            hole.page_id,
            hole.seq_id,
        )


def owners_agree(step: CheckedStep) -> Iterator[Finding]:
    """Rule 11. What is read was written for this sequence's tokens: pages without a hash do not
    tell whose tokens they hold, but all their owners must agree."""
    snapshot = step.after
    size = snapshot.block_size
    first_owner: dict[int, tuple[SequenceView, int]] = {}
    for sequence in snapshot.sequences:
        for index, page_id in enumerate(sequence.page_ids):
            if not 0 <= page_id < len(snapshot.pages):
                continue  # rule 3 names these
            if snapshot.pages[page_id].page_hash is not None:
                continue  # rule 5 compares these with what they hold
            other, other_index = first_owner.setdefault(page_id, (sequence, index))
            if other is sequence:
                continue
            mine, theirs = _computed_part(sequence, index, size), _computed_part(other, index, size)
            offset = first_difference(mine, theirs)
            if other_index != index or other.adapter != sequence.adapter:
                yield Finding(
                    f"p{page_id:d} is page {index} of seq:{sequence.seq_id:d} under adapter "
                    f"{sequence.adapter} and page {other_index} of seq:{other.seq_id:d} under "
                    f"adapter {other.adapter}",
                    page_id,
                    sequence.seq_id,
                )
            elif offset is not None:
                yield Finding(
                    f"slot {offset} of p{page_id:d} is token {mine[offset]} for "
                    f"seq:{sequence.seq_id:d} and token {theirs[offset]} for seq:{other.seq_id:d}",
                    page_id,
                    sequence.seq_id,
                )


def _computed_part(sequence: SequenceView, index: int, size: int) -> tuple[int | None, ...]:
    return sequence.token_ids[index * size : min((index + 1) * size, sequence.num_computed)]


def _hex(page_hash: int | None) -> str:
    return "none" if page_hash is None else f"{page_hash:016x}"
