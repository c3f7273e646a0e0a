"""Reads a Snapshot off the engine's own structures."""

from __future__ import annotations

from pagedviz.engine.block_manager import BlockManager
from pagedviz.engine.scheduler import Scheduler
from pagedviz.engine.sequence_manager import SequenceManager
from pagedviz.engine.snapshot import PageView, SequenceView, Snapshot


def build_snapshot(
    num_steps: int,
    block_manager: BlockManager,
    sequences: SequenceManager,
    scheduler: Scheduler,
) -> Snapshot:
    pool, cache = block_manager.pool, block_manager.cache
    fills = _fills(block_manager, sequences)
    pages = tuple(
        PageView(
            page_id,
            pool.generations[page_id],
            pool.ref_counts[page_id],
            fills[page_id],
            cache.hash_of(page_id),
            cache.tokens_of(page_id),
        )
        for page_id in pool.page_ids
    )
    views = []
    for sequence in sequences:
        table = sequences.page_table(sequence.id)
        reason = sequence.finish_reason
        views.append(
            SequenceView(
                seq_id=sequence.id,
                name=sequence.name,
                adapter=None if sequence.adapter_id is None else sequence.adapter_id.name,
                num_prompt_tokens=sequence.num_prompt_tokens,
                max_new_tokens=sequence.max_new_tokens,
                token_ids=tuple(sequence.token_ids),
                state=sequence.state.name,
                num_computed=sequence.num_computed,
                num_cached=sequence.num_cached,
                num_preemptions=sequence.num_preemptions,
                page_ids=tuple(table.page_ids),
                generations=tuple(table.generations),
                finish_reason=None if reason is None else reason.value,
                parent_id=sequence.parent_id,
                num_swapped=sequence.num_swapped,
                host_page_ids=tuple(sequence.host_page_ids),
            )
        )
    return Snapshot(
        num_steps=num_steps,
        block_size=pool.config.block_size,
        pages=pages,
        free_queue=tuple(pool.queue),
        sequences=tuple(views),
        waiting=tuple(s.id for s in scheduler.waiting),
        running=tuple(s.id for s in scheduler.running),
    )


def _fills(block_manager: BlockManager, sequences: SequenceManager) -> list[int]:
    """[num_pages] slots with a token: what the pool counts, or, where nothing is stored, read off
    the owners' computed tokens; a page that waits in the queue with a hash is full."""
    if block_manager.pool.has_storage:
        return block_manager.pool.fills
    size = block_manager.pool.config.block_size
    fills = [
        size if page_id in block_manager.cache else 0 for page_id in block_manager.pool.page_ids
    ]
    for sequence in sequences:
        for index, page_id in enumerate(sequences.page_table(sequence.id)):
            filled = min(size, max(0, sequence.num_computed - index * size))
            if 0 <= page_id < len(fills):  # a broken table is shown as it is
                fills[page_id] = max(fills[page_id], filled)
    return fills
