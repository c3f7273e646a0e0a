"""Fault 1: a prefix hash of six bits, and nobody compares the tokens."""

from __future__ import annotations

from pagedviz.engine.config import EngineConfig
from pagedviz.engine.prefix_cache import SharedPrefixCache
from pagedviz.engine.prefix_entry import Entry
from pagedviz.engine.prefix_hash import PrefixChain
from pagedviz.faults.fault import Fault
from pagedviz.faults.workload import Ask, Workload, spelled


class TrustsANarrowHash(SharedPrefixCache):
    def walk(self, chain: PrefixChain, num_tokens: int) -> list[Entry]:
        # Wrong: 64 prefixes are enough to find two with one hash, and nothing tells them apart.
        by_hash = {e.page_hash & 63: e for e in self._entries.values() if e.page_ids}
        found: list[Entry] = []
        for page_hash in chain.hashes[: (num_tokens - 1) // self.block_size]:
            entry = by_hash.get(page_hash & 63)
            if entry is None:
                break
            found.append(entry)
        return found


FAULT = Fault(
    number=1,
    name="narrow-hash",
    title="A narrow hash is believed without a look at the tokens",
    real_case="CVE-2025-25183 (vLLM #12621): a predictable hash let one prompt read another's K/V",
    shows="an answer about somebody else's story",
    is_right="a wide hash finds candidates; tokens and parent are compared before a hit counts",
    rules=(5,),
    part=TrustsANarrowHash,
    right=(SharedPrefixCache.walk,),
    books=Workload(
        EngineConfig(num_pages=6, block_size=4),
        (
            Ask("V", spelled("aaaa v"), output=spelled("x")),
            Ask("X", spelled("cccc x"), step=1, output=spelled("yz")),
        ),
    ),
    words=Workload(
        EngineConfig(num_pages=16, block_size=16),
        (
            Ask(
                "clara",
                "Clara had a green kite. The kite was green. One day Clara went to the park. "
                "The sun was warm. What colour was the kite?",
            ),
            Ask(
                "lily",
                "Lily had a red kite. The kite was red. One day Lily went to the park. "
                "The sun was warm. What colour was the kite?",
                step=4,
            ),
        ),
        has_model=True,
    ),
)
