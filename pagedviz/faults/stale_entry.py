"""Fault 4: the prefix map keeps leading to a page that was handed out again."""

from __future__ import annotations

from pagedviz.engine.config import EngineConfig
from pagedviz.engine.ids import PageId
from pagedviz.engine.prefix_cache import SharedPrefixCache
from pagedviz.faults.fault import Fault
from pagedviz.faults.stories import BEN_MEETS_LILY, LILY_ASKED
from pagedviz.faults.workload import Ask, Workload, spelled


class KeepsStaleEntries(SharedPrefixCache):
    def forget_page(self, page_id: PageId) -> int | None:
        # Wrong: the entry lives on. If the page gets the same tokens again, after another prefix,
        # a walk finds them through the old entry, and its own tokens are all that is compared.
        entry = self.entry_of.pop(page_id, None)
        return None if entry is None else entry.page_hash


FAULT = Fault(
    number=4,
    name="stale-entry",
    title="A map entry outlives its page: same tokens, another parent",
    real_case="nano-vllm before f64d821: a page's own tokens were compared, its parent was not",
    shows="words that belong to the story in front of somebody else's copy of the page",
    is_right="an entry dies when its page is reused, and the whole chain is compared",
    rules=(5, 8),
    part=KeepsStaleEntries,
    right=(SharedPrefixCache.forget_page, SharedPrefixCache.walk),
    books=Workload(
        EngineConfig(num_pages=7, block_size=4),
        (
            Ask("A", spelled("pppp tttt x"), output=spelled("a")),
            Ask("Z", spelled("zzzz zzzz zzzz zzz"), step=1, output=spelled("zz")),
            Ask("B", spelled("qqqq tttt"), step=1, output=spelled("b")),
            Ask("C", spelled("pppp tttt y"), step=3, output=spelled("cd")),
        ),
    ),
    words=Workload(
        # Pages p0 and p1 hold the two halves of Lily's story. Ben's text ends like the second and
        # gets p1 for it; then Lily's story is asked for once more.
        EngineConfig(num_pages=5, block_size=16),
        (
            Ask("lily", LILY_ASKED, max_new_tokens=2),
            Ask("ben", BEN_MEETS_LILY, step=2, max_new_tokens=1),
            Ask("lily again", LILY_ASKED, step=3, max_new_tokens=12),
        ),
        has_model=True,
    ),
)
