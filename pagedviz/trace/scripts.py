"""The tokens of a recorded run, in the form in which an engine takes them instead of sampling."""

from __future__ import annotations

from typing import NamedTuple

from pagedviz.engine.errors import ConfigError
from pagedviz.engine.events import SequenceFinished, SequenceSubmitted, TokenSampled
from pagedviz.trace.trace import Trace


class Script(NamedTuple):
    """`output`: the tokens of a sequence after its prompt. `stop_ids`: the token that stopped it,
    if one did; a stop token ends a sequence where it first comes, so no earlier one is it."""

    name: str
    output: list[int]
    stop_ids: tuple[int, ...] = ()


def scripts(trace: Trace, before: int | None = None) -> dict[int, Script]:
    """By sequence id, what was sampled before step `before` (None: in the whole trace).

    ConfigError if the trace does not tell prompts or tokens.
    """
    found: dict[int, Script] = {}
    for step in range(trace.num_steps if before is None else min(before, trace.num_steps)):
        for event in trace.events(step):
            match event:
                case SequenceSubmitted():
                    if len(event.prompt_ids) != event.num_prompt_tokens:
                        raise _untold("prompt", event.seq_id)
                    found[event.seq_id] = Script(event.name, [])
                case TokenSampled():
                    if event.token_id is None:
                        raise _untold("tokens", event.seq_id)
                    found[event.seq_id].output.append(event.token_id)
                case SequenceFinished(reason="stop"):
                    script = found[event.seq_id]
                    found[event.seq_id] = script._replace(stop_ids=(script.output[-1],))
                case _:
                    pass
    return found


def _untold(what: str, seq_id: int) -> ConfigError:
    return ConfigError(
        f"this trace does not tell the {what} of seq:{seq_id:d}, so it cannot be run again"
    )
