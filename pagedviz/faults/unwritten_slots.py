"""Fault 8: the attention of a chunk reads slots that are written only later."""

from __future__ import annotations

from collections.abc import Sequence

from pagedviz.engine.config import EngineConfig
from pagedviz.faults.fault import Fault
from pagedviz.faults.stories import LILY
from pagedviz.faults.workload import Ask, Workload
from pagedviz.model.paged_attention import PagedAttention


class AttendsToAllItsPages(PagedAttention):
    def _count_keys(
        self, context_lens: Sequence[int], page_tables: Sequence[Sequence[int]]
    ) -> Sequence[int]:
        # Wrong: a prompt has all its pages from its first chunk on, but not yet their content.
        return [
            len(page_ids) * self._block_size if num_queries > 1 else context_len
            for page_ids, num_queries, context_len in zip(
                page_tables, self._query_lens, context_lens, strict=True
            )
        ]


FAULT = Fault(
    number=8,
    name="unwritten-slots",
    title="A chunk attends to slots that are not written yet",
    real_case="nano-vllm #212: with chunked prefill the keys ended where the prompt ends",
    shows="no word at all: what was read is NaN, and the best of nothing is the end of the text",
    is_right="keys end where the chunk ends",
    rules=(11, 8),
    part=AttendsToAllItsPages,
    right=(PagedAttention._count_keys,),
    books=Workload(
        EngineConfig(num_pages=8, block_size=2, max_tokens_per_step=6, profile="nano_vllm"),
        (Ask("A", (79, 110, 99, 101, 32, 117, 112, 111, 110, 32), max_new_tokens=4),),
        has_model=True,
        is_poisoned=True,
    ),
    words=Workload(
        EngineConfig(num_pages=12, block_size=8, max_tokens_per_step=24, profile="nano_vllm"),
        (Ask("lily", LILY),),
        has_model=True,
        is_poisoned=True,
    ),
)
