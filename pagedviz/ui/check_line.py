"""One quiet line under the board: what the live check of the rules did while the run was recorded,
or what a check of the file has found, and why there is no more of it.

Invariant: what it says does not depend on the moment, so it moves nothing while somebody steps; a
time on it was measured on this machine.
"""

from __future__ import annotations

from html import escape

import streamlit as st

from pagedviz.ui import commands, session
from pagedviz.ui.file_check import FileChecked, file_checked
from pagedviz.ui.recording import Checked
from pagedviz.ui.runs import RecordedRun, RunKey
from pagedviz.ui.session import View
from pagedviz.views.rules import rule_name
from pagedviz.views.violations import Broken, first_violation

_EVERY_SECONDS = 0.5


def draw_check_line(view: View, found: FileChecked | None) -> None:
    """found: of a run from a file, what is known of it by now; the same as for the chip."""
    run = view.run
    with st.container(horizontal=True, vertical_alignment="center", key="checkline"):
        if found is not None and not found.is_done:
            st.fragment(_wait_for_file, run_every=_EVERY_SECONDS)(run.key)
            return
        broken = _first_broken(run, found)
        words = (
            check_words(run.checked, run.trace.num_steps, broken, _ended(run))
            if found is None
            else file_words(found, broken)
        )
        _line(words)
        if broken is not None:
            st.button(
                f"Go to step {broken.moment.step}",
                key="to violation",
                type="tertiary",
                on_click=commands.go,
                args=(broken.moment,),
            )
        if run.checked is not None and (run.is_growing or run.can_go_on):
            session.set_field("check rules", not run.checked.is_paused)
            st.toggle(
                "Check what is recorded next",
                key="check rules",
                on_change=_toggled,
                help="Pausing makes the recording of a big pool a little faster",
            )


def _line(words: str) -> None:
    st.html(
        f'<div class="panel checked" data-testid="checked"><p>{words}</p></div>', width="content"
    )


def _wait_for_file(key: RunKey) -> None:
    view = session.view()
    found = file_checked(view.run)
    if view.run.key != key or found is None or found.is_done:
        st.rerun()  # the chip and the panel say what was found, too
    _line(file_words(found, None))


def _first_broken(run: RecordedRun, found: FileChecked | None) -> Broken | None:
    """What the trace itself tells, or what was found in the file before that."""
    recorded = first_violation(run.trace)
    if found is None or not found.broken:
        return recorded
    (first, *_) = found.broken
    is_earlier = recorded is None or first.moment.step < recorded.moment.step
    return first if is_earlier else recorded


def check_chip(view: View, found: FileChecked | None) -> str:
    """The same in a few words, as HTML for the end of the title row."""
    checked = view.run.checked
    broken = _first_broken(view.run, found)
    if broken is not None:
        words = f"rule {broken.event.rule} broken at step {broken.moment.step}"
    elif found is not None and not found.is_done:
        words = "rules being checked"
    elif found is not None and found.ended is None:
        words = "rules hold \u00b7 from the file"
    elif checked is None or not checked.num_steps:
        words = "rules not checked"
    else:
        is_full = checked.coverage == "full"
        covered = f"{checked.mean_us:.0f} \u00b5s a step" if is_full else checked.coverage
        words = f"rules hold \u00b7 {covered}"
    is_broken = " broken" if broken is not None else ""
    return (
        f'<div class="position"><span class="chip rules{is_broken}" data-testid="rules" '
        f'title="What the check of the rules found, and took on average">{words}</span></div>'
    )


def _toggled() -> None:
    commands.check_rules(session.field("check rules"))


def _ended(run: RecordedRun) -> str | None:
    # Of one that was stopped the title row tells, beside the way to go on.
    return None if run.can_go_on else run.ended


def check_words(
    checked: Checked | None, num_steps: int, broken: Broken | None, ended: str | None = None
) -> str:
    """The line as HTML. ended: why the recording stopped before everything had finished."""
    words = _checked(checked, num_steps, broken, has_ended=ended is not None)
    if ended is None:
        return words
    return f'{words} \u00b7 <span data-testid="ended">{escape(ended)}</span>'


def _checked(
    checked: Checked | None, num_steps: int, broken: Broken | None, *, has_ended: bool
) -> str:
    if broken is not None:
        name = escape(rule_name(broken.event.rule))
        found = f"<b>Rule {broken.event.rule} is broken</b> ({name})"
    elif checked is None:
        return "Rules not checked"
    elif not checked.num_steps:
        return "Rules not checked: the check is paused"
    else:
        found = "<b>Checked live</b>: all rules hold, but for rule 8, which Proof compares"
    if checked is None:
        return found
    parts = [found]
    if checked.mean_us is not None and checked.last_us is not None:
        newest = "" if has_ended else f", {checked.last_us:.0f} \u00b5s the newest"
        parts.append(f"{checked.mean_us:.0f} \u00b5s a step on average{newest}")
    if checked.coverage != "full":
        parts.append(f"a pool this big is checked in {checked.coverage}")
    elif checked.num_steps < num_steps and broken is None:
        parts.append(f"{checked.num_steps} of {num_steps} steps checked")
    if checked.is_paused:
        parts.append("paused")
    return " \u00b7 ".join(parts)


def file_words(found: FileChecked, broken: Broken | None) -> str:
    """The line of a run from a file, as HTML."""
    if broken is not None:
        rule = broken.event.rule
        how = "found in the file" if broken.moment.event is None else "recorded in the file"
        return f"<b>Rule {rule} is broken</b> ({escape(rule_name(rule))}) \u00b7 {how}"
    if found.ended is not None:
        return f"Rules not checked to the end: {escape(found.ended)}"
    if not found.is_done:
        return f"Checking the rules from the file: {found.num_done} of {found.num_steps} steps"
    mean = found.total_us / max(1, found.num_steps)
    return (
        "<b>Checked from the file</b>: all rules hold that a trace can tell, rule 8 aside, which "
        f"Proof compares \u00b7 {mean:.0f} \u00b5s a step on average"
    )
