"""`pagedviz run`: a scenario on the bundled model, printed step by step, kept as a trace."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from typing import Any

from pagedviz.cli.step_report import printable, report_step
from pagedviz.engine.errors import PagedVizError
from pagedviz.engine.events import PageEvicted
from pagedviz.engine.ids import SeqId
from pagedviz.model import load_tiny
from pagedviz.scenarios import Scenario, ScenarioRun, load_scenario
from pagedviz.trace.codec import write_trace
from pagedviz.trace.costs import hit_rate, preemption_cost
from pagedviz.trace.queries import occupancy


class OutputError(PagedVizError):
    """A file that cannot be written."""


def run_scenario(
    scenario: str,
    out: str | None,
    as_json: bool,
    steps: int | None,
    adapters: Sequence[tuple[str, str]] = (),
) -> None:
    """Print a line a step and a summary. adapters: name and folder of those that the model has
    besides its own. PagedVizError, ModelError."""
    loaded = load_scenario(scenario)
    if out is not None:
        _check_writable(out)
    model = load_tiny(adapters)
    run = ScenarioRun(loaded, model, "tiny")
    token_text = None if model.tokenizer is None else model.tokenizer.token_text
    if not as_json:
        print(_heading(loaded))
    while not run.is_done and (steps is None or run.engine.num_steps < steps):
        step = run.engine.num_steps
        run.step()
        report = report_step(step, run.trace.events(step), run.engine.snapshot(), token_text)
        print(json.dumps(report.as_json) if as_json else report.as_line)
    summary = _summary(run)
    print(json.dumps({"summary": summary}) if as_json else _show_summary(summary))
    if out is not None:
        try:
            write_trace(run.trace, out)
        except OSError as error:
            raise OutputError(f"cannot write {out}: {error.strerror}") from None
        if not as_json:
            print(f"\ntrace written to {out} ({os.path.getsize(out):,} bytes)")


def _check_writable(path: str) -> None:
    """Before a long run, not after it."""
    if not path:
        raise OutputError("--out needs the name of a file")
    if os.path.exists(path) and not os.path.isfile(path) and not os.path.isdir(path):
        raise OutputError(f"cannot write {path}: it is not a regular file")
    folder = os.path.dirname(os.path.abspath(path))
    if os.path.isdir(path):
        raise OutputError(f"cannot write {path}: it is a folder")
    if not os.path.isdir(folder):
        raise OutputError(f"cannot write {path}: there is no folder {folder}")
    if not os.access(folder, os.W_OK):
        raise OutputError(f"cannot write {path}: the folder {folder} is read-only")


def _heading(scenario: Scenario) -> str:
    engine = scenario.engine
    return (
        f"{scenario.title}: {engine.num_pages} pages of {engine.block_size} slots, "
        f"at most {engine.max_tokens_per_step} tokens a step, "
        f"prefix caching {'on' if engine.prefix_caching else 'off'}\n"
    )


def _summary(run: ScenarioRun) -> dict[str, Any]:
    trace = run.trace
    hits, cost = hit_rate(trace), preemption_cost(trace)
    pages = occupancy(trace)
    return {
        "steps": trace.num_steps,
        "events": trace.total_events,
        "is_done": run.is_done,
        "most_active_pages": int(pages.active.max(initial=0)),
        "evictions": sum(
            isinstance(event, PageEvicted) for record in trace.steps for event in record.events
        ),
        "prompt_tokens_looked_up": hits.num_looked_up,
        "prompt_tokens_hit": hits.num_hit,
        "preemptions": cost.num_preemptions,
        "tokens_lost": cost.num_lost,
        "tokens_recomputed": cost.num_recomputed,
        "requests": [
            {
                "name": view.name,
                "adapter": view.adapter,
                "state": view.state,
                "reason": view.finish_reason,
                "prompt_tokens": view.num_prompt_tokens,
                "new_tokens": len(view.generated_ids),
                "preemptions": view.num_preemptions,
                "text": run.text_of(SeqId(view.seq_id)),
            }
            for view in trace.final.sequences
        ],
    }


def _show_summary(summary: dict[str, Any]) -> str:
    lines = [""]
    for request in summary["requests"]:
        times = request["preemptions"]
        preempted = f", preempted {times} time{'s' * (times != 1)}" if times else ""
        adapter = f", adapter {request['adapter']}" if request["adapter"] else ""
        lines.append(
            f"{request['name']}: {request['prompt_tokens']} prompt tokens, {request['new_tokens']} "
            f"new, {request['reason'] or request['state']}{preempted}{adapter}"
        )
        lines += [f"    {printable_line}" for printable_line in _lines(request["text"])]
    lines.append(
        f"\n{summary['steps']} steps, {summary['events']} events, at most "
        f"{summary['most_active_pages']} pages active, {summary['evictions']} evicted"
    )
    if summary["prompt_tokens_looked_up"]:
        lines.append(
            f"prefix hits: {summary['prompt_tokens_hit']} of "
            f"{summary['prompt_tokens_looked_up']} prompt tokens"
        )
    if summary["preemptions"]:
        lines.append(
            f"preemptions: {summary['preemptions']}, {summary['tokens_lost']} computed tokens "
            f"lost, {summary['tokens_recomputed']} computed again"
        )
    return "\n".join(lines)


def _lines(text: str) -> list[str]:
    return [printable(line) for line in text.strip().splitlines()]
