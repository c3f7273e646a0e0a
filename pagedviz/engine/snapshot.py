"""The frozen read model: everything a screen or a check may know about an engine at one moment.

The engine builds it from its own structures, the trace's reducer from events alone; that both
agree after every step is the strongest test there is. Only integers, strings, None and tuples.
"""

from __future__ import annotations

from typing import NamedTuple

from pagedviz.engine.ids import page_label


class PageView(NamedTuple):
    """One physical page. `token_ids` is known once the page is hashed."""

    page_id: int
    generation: int = 0
    ref_count: int = 0
    fill: int = 0
    page_hash: int | None = None
    token_ids: tuple[int | None, ...] = ()

    @property
    def state(self) -> str:
        """active (owned), cached (unowned, findable by its hash) or free."""
        if self.ref_count:
            return "active"
        return "free" if self.page_hash is None else "cached"

    @property
    def label(self) -> str:
        return page_label(self.page_id, self.generation)


class SequenceView(NamedTuple):
    """One sequence, finished ones included.

    token_ids: prompt then generated; None where a foreign trace does not tell.
    num_computed: tokens whose K/V exist. num_scheduled: tokens of the step under way.
    page_ids, generations: the page table, logical index -> page and the use it was given in.
    num_cached: tokens that came from the prefix cache at the last admission.
    parent_id: the sequence it was forked from.
    num_swapped, host_page_ids: tokens whose K/V lie in host pages, None and empty unless swapped
    out.
    """

    seq_id: int
    name: str
    adapter: str | None
    num_prompt_tokens: int
    max_new_tokens: int
    token_ids: tuple[int | None, ...]
    state: str = "waiting"
    num_computed: int = 0
    num_scheduled: int = 0
    num_cached: int = 0
    num_preemptions: int = 0
    page_ids: tuple[int, ...] = ()
    generations: tuple[int, ...] = ()
    finish_reason: str | None = None
    parent_id: int | None = None
    num_swapped: int | None = None
    host_page_ids: tuple[int, ...] = ()

    @property
    def num_tokens(self) -> int:
        """Known tokens, computed or not."""
        return len(self.token_ids)

    @property
    def generated_ids(self) -> tuple[int | None, ...]:
        return self.token_ids[self.num_prompt_tokens :]


class Snapshot(NamedTuple):
    """The engine after `num_steps` whole steps (and, inside a step, some of its events).

    free_queue: page ids, the next to be taken first; cached pages wait in it too.
    sequences: in order of submission. waiting: front first. running: in order of admission.
    """

    num_steps: int
    block_size: int
    pages: tuple[PageView, ...]
    free_queue: tuple[int, ...]
    sequences: tuple[SequenceView, ...]
    waiting: tuple[int, ...]
    running: tuple[int, ...]

    def sequence(self, seq_id: int) -> SequenceView:
        """Raises KeyError for an id that was not submitted yet."""
        for view in self.sequences:
            if view.seq_id == seq_id:
                return view
        raise KeyError(seq_id)

    @property
    def cached_page_ids(self) -> tuple[int, ...]:
        """Pages findable by their hash, owned or not, ascending."""
        return tuple(page.page_id for page in self.pages if page.page_hash is not None)
