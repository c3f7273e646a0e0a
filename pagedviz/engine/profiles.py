"""Profiles: the choices in which engines differ, and the parts an engine is put together from.

Invariant: the engine asks a profile for its parts and never for its name.
"""

from __future__ import annotations

from typing import NamedTuple

from pagedviz.engine.block_manager import BlockManager
from pagedviz.engine.families import Families
from pagedviz.engine.last_writer_cache import LastWriterCache
from pagedviz.engine.pages import KvPagePool
from pagedviz.engine.prefix_cache import SharedPrefixCache
from pagedviz.engine.scheduler import Scheduler
from pagedviz.engine.two_phase_scheduler import TwoPhaseScheduler


class Profile(NamedTuple):
    """scheduler: who decides a step. cache: which of several equal pages is found.
    frees_unhashed_first: pages nobody can find go to the front of the free queue; otherwise all
    released pages go to its back. lists_prefilling_as_waiting: in the engine's own reports a
    request waits until all of its prompt is scheduled. pool, block_manager, families: the other
    parts that decide something, the same in all engines followed here."""

    scheduler: type[Scheduler]
    cache: type[SharedPrefixCache]
    frees_unhashed_first: bool
    lists_prefilling_as_waiting: bool
    pool: type[KvPagePool] = KvPagePool
    block_manager: type[BlockManager] = BlockManager
    families: type[Families] = Families


PROFILES: dict[str, Profile] = {
    "vllm": Profile(
        scheduler=Scheduler,
        cache=SharedPrefixCache,
        frees_unhashed_first=True,
        lists_prefilling_as_waiting=False,
    ),
    "nano_vllm": Profile(
        scheduler=TwoPhaseScheduler,
        cache=LastWriterCache,
        frees_unhashed_first=False,
        lists_prefilling_as_waiting=True,
    ),
}
"""By the name that EngineConfig.profile takes."""
