"""A bare-bones paged cache for model tests: hands out shuffled pages and runs mixed steps."""

from dataclasses import dataclass, field

import numpy as np

from pagedviz.model import LanguageModel


@dataclass
class Run:
    """One sequence: all its tokens are known, the next `chunk` of them join the next step."""

    tokens: list[int]
    chunk: int = 1
    computed: int = 0
    table: list[int] = field(default_factory=list)


class PagedCache:
    """Keys and values in pages of NaN, so that reading a slot nobody wrote cannot go unseen."""

    def __init__(self, model: LanguageModel, num_pages: int, block_size: int) -> None:
        shape = (model.num_layers, num_pages, block_size, model.num_kv_heads, model.head_dim)
        self.model, self.block_size = model, block_size
        self.keys = np.full(shape, np.nan, dtype=np.float32)
        self.values = np.full(shape, np.nan, dtype=np.float32)
        self.free = np.random.default_rng(7).permutation(num_pages).tolist()

    def step(self, runs: list[Run], **options) -> list[np.ndarray]:
        """One forward over the next chunk of every run; logits [query_len, vocab] of each."""
        counts = [min(run.chunk, len(run.tokens) - run.computed) for run in runs]
        token_ids = []
        for run, count in zip(runs, counts, strict=True):
            token_ids += run.tokens[run.computed : run.computed + count]
            run.computed += count
            while len(run.table) * self.block_size < run.computed:
                run.table.append(self.free.pop())
        logits = self.model.forward(
            np.array(token_ids),
            counts,
            [run.computed for run in runs],
            [run.table for run in runs],
            self.keys,
            self.values,
            all_logits=True,
            **options,
        )
        return np.split(logits, np.cumsum(counts)[:-1])
