"""The tokens of a recorded run, in the form in which an engine takes them instead of sampling."""

from __future__ import annotations

from typing import NamedTuple

from pagedviz.engine.errors import ConfigError
from pagedviz.engine.events import (
    SequenceFinished,
    SequenceForked,
    SequenceSubmitted,
    SlotsWritten,
    TokenSampled,
)
from pagedviz.trace.trace import Trace


class Script(NamedTuple):
    """`output`: the tokens of a sequence after its prompt, or after those it was forked with.
    `stop_ids`: the tokens that stopped it or a fork of it; a stop token ends a sequence where it
    first comes, so no earlier one is it. `samples`: the forks made of a request whose prompt had
    just been computed; `is_command`: forked between two steps, and not by such a request."""

    name: str
    output: list[int]
    stop_ids: tuple[int, ...] = ()
    parent_id: int | None = None
    is_command: bool = False
    samples: tuple[int, ...] = ()


def scripts(trace: Trace, before: int | None = None) -> dict[int, Script]:
    """By sequence id, what was sampled before step `before` (None: in the whole trace).

    ConfigError if the trace does not tell prompts or tokens.
    """
    found: dict[int, Script] = {}
    searches: set[int] = set()
    for step in range(trace.num_steps if before is None else min(before, trace.num_steps)):
        has_computed = False
        for event in trace.events(step):
            match event:
                case SequenceSubmitted():
                    if len(event.prompt_ids) != event.num_prompt_tokens:
                        raise _untold("prompt", event.seq_id)
                    found[event.seq_id] = Script(event.name, [])
                    if event.beam_width > 1:
                        searches.add(event.seq_id)
                case SlotsWritten():
                    has_computed = True
                case SequenceForked():
                    parent_id = event.parent_id
                    is_command = not has_computed and parent_id not in searches
                    found[event.seq_id] = Script(event.name, [], (), parent_id, is_command)
                    if parent_id in searches:
                        searches.add(event.seq_id)
                    elif not is_command:
                        parent = found[parent_id]
                        samples = (*parent.samples, event.seq_id)
                        found[parent_id] = parent._replace(samples=samples)
                case TokenSampled():
                    if event.token_id is None:
                        raise _untold("tokens", event.seq_id)
                    found[event.seq_id].output.append(event.token_id)
                case SequenceFinished(reason="stop"):
                    _stopped(found, event.seq_id, found[event.seq_id].output[-1])
                case _:
                    pass
    return found


def _stopped(found: dict[int, Script], seq_id: int | None, token_id: int) -> None:
    """Forks stop at what their parent would stop at."""
    while seq_id is not None:
        script = found[seq_id]
        found[seq_id] = script._replace(stop_ids=(*script.stop_ids, token_id))
        seq_id = script.parent_id


def _untold(what: str, seq_id: int) -> ConfigError:
    return ConfigError(
        f"this trace does not tell the {what} of seq:{seq_id:d}, so it cannot be run again"
    )
