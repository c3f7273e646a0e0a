"""Which two runs are compared, and what differs between them.

Invariants: the left run is the one on screen; the right one runs the same requests and is shared
with whoever looks at it; how two runs differ is computed once for all who ask.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import streamlit as st

from pagedviz.scenarios import Scenario
from pagedviz.trace.trace import Trace
from pagedviz.ui.messages import FORM_WORDS
from pagedviz.ui.runs import RecordedRun, fault_key, recorded_run, varied_key
from pagedviz.ui.session import View
from pagedviz.views.comparison import Comparison, compare_runs
from pagedviz.views.words import TokenText

_PAIRS_KEPT = 12
COMPARED = (
    "block_size",
    "num_pages",
    "prefix_caching",
    "max_tokens_per_step",
    "chunk_size",
    "preemption",
    "host_pages",
    "profile",
)
"""Settings that the screen lets choose, in the order in which they are told."""
SETTING_WORDS = FORM_WORDS | {
    "preemption": "Preemption",
    "host_pages": "Host pages",
    "profile": "Profile",
}


@dataclass(frozen=True, slots=True)
class Pair:
    """Two runs of one workload. left_words, right_words: what each has that the other has not."""

    left: RecordedRun
    right: RecordedRun
    left_words: str
    right_words: str

    @property
    def is_complete(self) -> bool:
        """Both have come to their own end, so that what one has no step for is a difference."""
        return not any(run.is_growing or run.ended for run in (self.left, self.right))


def settings_pair(view: View) -> Pair:
    """The run on screen and the one under the chosen settings. PagedVizError, ModelError."""
    left, settings = view.run, chosen_settings(view)
    step = view.moment.step + view.looking.past_end
    right = recorded_run(varied_key(left.key, settings), step)
    words = [setting_words(one.scenario, other.scenario) for one, other in _both_ways(left, right)]
    return Pair(left, right, *words)


def fault_pair(view: View) -> Pair:
    """The run of a fault's workload on screen, and the one with the fault turned off, or on.
    PagedVizError, ModelError."""
    left = view.run
    fault = left.key.fault
    assert fault is not None
    is_faulty = left.key.is_faulty
    step = view.moment.step + view.looking.past_end
    right = recorded_run(fault_key(fault.name, not is_faulty), step)
    words = (f"fault on: {fault.title}", "fault off: the healthy engine")
    return Pair(left, right, *(words if is_faulty else words[::-1]))


def _both_ways(
    left: RecordedRun, right: RecordedRun
) -> tuple[tuple[RecordedRun, RecordedRun], tuple[RecordedRun, RecordedRun]]:
    return (left, right), (right, left)


def chosen_settings(view: View) -> Mapping[str, Any]:
    """What the right run has otherwise; before anything was chosen, the other prefix caching, which
    every workload can be run with."""
    if view.looking.other is not None:
        return view.looking.other
    return {"prefix_caching": not view.run.scenario.engine.prefix_caching}


def settings_back(view: View) -> dict[str, Any] | None:
    """What the run on screen has otherwise, seen from the right one; None of a fault's workload."""
    if not view.run.key.is_scenario:
        return None
    engine = view.run.scenario.engine
    return {name: getattr(engine, name) for name in chosen_settings(view)}


def setting_words(scenario: Scenario, other: Scenario) -> str:
    """`slots a page 4, prefix caching on`: the settings in which it is not like the other."""
    found = []
    for name in COMPARED:
        value = getattr(scenario.engine, name)
        if value != getattr(other.engine, name):
            found.append(f"{SETTING_WORDS[name].lower()} {_shown(value)}")
    return ", ".join(found)


def _shown(value: object) -> str:
    if isinstance(value, bool):
        return "on" if value else "off"
    return "no limit" if value is None else str(value)


def compared(pair: Pair) -> Comparison:
    """TraceFormatError if the events of a run do not fit together."""
    left, right = pair.left, pair.right
    name = json.dumps([left.key, left.version, right.key, right.version, pair.is_complete])
    return _compared(name, left.trace, right.trace, left.token_text, pair.is_complete)


@st.cache_resource(show_spinner="Comparing the two runs", max_entries=_PAIRS_KEPT)
def _compared(
    name: str, _left: Trace, _right: Trace, _token_text: TokenText, _is_complete: bool
) -> Comparison:
    return compare_runs(_left, _right, _token_text, _is_complete)
