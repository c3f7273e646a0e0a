"""BeamSearch: the likeliest continuations of one prompt, kept as forks of one sequence.

    a beam's candidates, best first      ranked together           the w best go on
    A  cat -0.2   dog -1.9               A cat   -0.2              A goes on with "cat"
    B  sat -0.4   ran -0.5               B sat   -1.4              B goes on with "sat"
                                         B ran   -1.5              a fork of B goes on with "ran"

Invariants: a hypothesis is ranked by the sum of its tokens' logprobs; equal ones by the beam that
came first, then by token id; one that ends keeps its place, so that the width shrinks by it
(Sutskever et al. 2014, "Sequence to Sequence Learning with Neural Networks", section 3.2). Beams
advance together: one that is ready waits for those that were preempted or had no budget, and what
it offered stays valid when it loses its pages meanwhile.
"""

from __future__ import annotations

from typing import NamedTuple

from pagedviz.engine.ids import SeqId
from pagedviz.engine.sequence import Sequence

Candidates = tuple[tuple[int, float], ...]


class Continuation(NamedTuple):
    """One of the hypotheses that go on: `beam` with one token more, and the sum of logprobs then.
    is_fork: somebody ahead of it goes on in the beam itself."""

    beam: Sequence
    token_id: int
    score: float
    is_fork: bool


class BeamSearch:
    def __init__(self, root: Sequence, width: int) -> None:
        self.width = width
        self.scores: dict[SeqId, float] = {root.id: 0.0}
        """Sum of logprobs of the generated tokens of every hypothesis, ended ones included."""
        self.beams: list[Sequence] = [root]
        """Those that go on, the best first."""
        self._offers: dict[SeqId, Candidates] = {}

    def offer(self, beam: Sequence, candidates: Candidates) -> None:
        """The likeliest next tokens of a beam whose tokens are all computed, best first: at least
        `width` of them, or all there are."""
        self._offers[beam.id] = candidates

    def forget_ended(self) -> None:
        """Beams that were aborted or given up go on no more."""
        self.beams = [beam for beam in self.beams if beam.is_active]

    @property
    def is_ready(self) -> bool:
        return bool(self.beams) and all(beam.id in self._offers for beam in self.beams)

    def candidates(self, beam: Sequence) -> Candidates:
        return self._offers[beam.id]

    def continuations(self) -> list[Continuation]:
        """The best hypotheses one token further, the best first; beams in none of them fall out."""
        ranked = sorted(
            (-self.scores[beam.id] - logprob, place, token_id)
            for place, beam in enumerate(self.beams)
            for token_id, logprob in self._offers[beam.id][: self.width]
        )
        chosen: list[Continuation] = []
        seen: set[int] = set()
        for negative, place, token_id in ranked[: self.width]:
            chosen.append(Continuation(self.beams[place], token_id, -negative, place in seen))
            seen.add(place)
        return chosen

    def advanced(self, hypotheses: list[tuple[Sequence, float]]) -> None:
        """What the continuations have become, the best first."""
        self.scores |= {sequence.id: score for sequence, score in hypotheses}
        self.beams = [sequence for sequence, _ in hypotheses if sequence.is_active]
        self.width -= len(hypotheses) - len(self.beams)
        self._offers.clear()
