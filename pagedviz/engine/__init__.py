"""The paged-KV engine: pages, page tables, prefix cache, sequences, scheduler, events."""

from pagedviz.engine.block_manager import BlockManager
from pagedviz.engine.commit import StepOutcome
from pagedviz.engine.config import EngineConfig
from pagedviz.engine.engine import Engine
from pagedviz.engine.errors import PagedVizError
from pagedviz.engine.holding import BlockManagerConfig
from pagedviz.engine.ids import AdapterKey, PageId, SeqId
from pagedviz.engine.page_table import PageTable
from pagedviz.engine.pages import KvPage, KvPageConfig, KvPagePool
from pagedviz.engine.prefix_cache import PrefixMatch, SharedPrefixCache
from pagedviz.engine.sampling import SamplingParams
from pagedviz.engine.scheduler import Scheduler, StepPlan
from pagedviz.engine.sequence import Sequence
from pagedviz.engine.sequence_manager import SequenceManager
from pagedviz.engine.sequence_state import (
    Decoding,
    Finished,
    FinishReason,
    Preempted,
    Prefilling,
    SequenceState,
    Waiting,
)
from pagedviz.engine.snapshot import PageView, SequenceView, Snapshot

__all__ = [
    "AdapterKey",
    "BlockManager",
    "BlockManagerConfig",
    "Decoding",
    "Engine",
    "EngineConfig",
    "FinishReason",
    "Finished",
    "KvPage",
    "KvPageConfig",
    "KvPagePool",
    "PageId",
    "PageTable",
    "PageView",
    "PagedVizError",
    "Preempted",
    "Prefilling",
    "PrefixMatch",
    "SamplingParams",
    "Scheduler",
    "SeqId",
    "Sequence",
    "SequenceManager",
    "SequenceState",
    "SequenceView",
    "SharedPrefixCache",
    "Snapshot",
    "StepOutcome",
    "StepPlan",
    "Waiting",
]
