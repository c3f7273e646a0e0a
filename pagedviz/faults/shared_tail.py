"""Fault 11: two forks write into one page."""

from __future__ import annotations

from pagedviz.engine.block_manager import BlockManager
from pagedviz.engine.config import EngineConfig
from pagedviz.engine.page_owners import PageOwners
from pagedviz.engine.page_table import PageTable
from pagedviz.faults.fault import Fault
from pagedviz.faults.stories import LILY
from pagedviz.faults.workload import Ask, Workload, spelled


class SharesWithoutACopy(BlockManager):
    def _shared_pages(self, table: PageTable, write_from: int, num_tokens: int) -> list[int]:
        return []  # Wrong: there may be others in the page that is written next.


FAULT = Fault(
    number=11,
    name="shared-tail",
    title="A partial tail is shared and written without a copy",
    real_case="Atlas #692 and others: no copy-on-write for the last, partly filled page",
    shows="two samples that mix up their words from the first token in which they differ",
    is_right="copy before the first write",
    rules=(6, 8),
    part=SharesWithoutACopy,
    right=(PageOwners._shared_pages, PageOwners._copy),
    books=Workload(
        EngineConfig(num_pages=8, block_size=4),
        (
            Ask(
                "A",
                spelled("aaaa bb"),
                output=spelled("cef"),
                num_samples=2,
                forks=(spelled("dgh"),),
            ),
        ),
    ),
    words=Workload(
        EngineConfig(num_pages=12, block_size=8),
        (Ask("lily", LILY + " The", num_samples=2, temperature=1.0, seed=3),),
        has_model=True,
    ),
)
