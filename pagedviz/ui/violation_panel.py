"""What is broken in the step on screen: the rule, the page, and what happened to it last.

Invariant: it is on screen only from the violation to the end of its step.
"""

from __future__ import annotations

from html import escape

import streamlit as st

from pagedviz.ui import commands
from pagedviz.ui.file_check import FileChecked
from pagedviz.ui.marks import decorate
from pagedviz.ui.session import View
from pagedviz.views.page_view import StoryLine
from pagedviz.views.rules import rule_name, rule_sentence
from pagedviz.views.theme import Theme, places
from pagedviz.views.violations import Broken, last_touches, page_of, violations_of

_MOST_OTHERS = 4


def draw_violation(view: View, theme: Theme, checked: FileChecked | None) -> None:
    """checked: of a run from a file, what is known of it by now."""
    trace, (step, event) = view.run.trace, view.moment
    found = violations_of(trace, step)
    if not found and checked is not None:
        found = checked.broken_in(step)
    if not found:
        return
    first_event = found[0].moment.event
    if event is not None and event < (
        trace.num_events(step) if first_event is None else first_event
    ):
        return
    first = found[0]
    page_id = page_of(trace, first)
    touches = () if page_id is None else last_touches(trace, first, page_id, view.run.token_text)
    place_of, num_hues = places(trace.at(*view.moment)), len(theme.hues)
    with st.container(key="violation"):
        st.html(violation_html(found, page_id, touches, place_of, num_hues))
        with st.container(horizontal=True, gap="small", key="violation ways"):
            for line in reversed(touches):
                moment = line.moment
                st.button(
                    f"Go to {moment.step}.{moment.event}",
                    key=f"touch {moment.step} {moment.event}",
                    on_click=commands.go,
                    args=(moment,),
                )
            if page_id is not None:
                st.button(
                    f"All about p{page_id}",
                    key="page of violation",
                    on_click=commands.show_page,
                    args=(page_id,),
                )


def violation_html(
    found: tuple[Broken, ...],
    page_id: int | None,
    touches: tuple[StoryLine, ...],
    place_of: dict[int, int],
    num_hues: int,
) -> str:
    """The first in full, the others in a line each."""
    first, *others = found
    rule = first.event.rule
    parts = [
        f'<div class="panel part violation" data-testid="violation" data-rule="{rule}">'
        f"<h2>Rule {rule} is broken: {escape(rule_name(rule))}</h2>"
        f'<p class="quiet">{escape(rule_sentence(rule))}</p>'
        f'<p class="said">{decorate(first.event.message, place_of, num_hues)}</p>'
    ]
    if others:
        lines = "".join(
            f"<li>rule {other.event.rule}: {decorate(other.event.message, place_of, num_hues)}</li>"
            for other in others[:_MOST_OTHERS]
        )
        more = len(others) - _MOST_OTHERS
        lines += f'<li class="quiet">and {more} more</li>' if more > 0 else ""
        parts.append(f"<h3>Broken in the same step</h3><ul>{lines}</ul>")
    if page_id is None:
        parts.append('<p class="quiet">It is about no page</p>')
    else:
        lines = "".join(
            f"<li><span>{line.moment.step}.{line.moment.event}</span>"
            f"<span>{decorate(line.text, place_of, num_hues)}</span></li>"
            for line in reversed(touches)
        )
        parts.append(
            f"<h3>What happened to p{page_id} last \u00b7 step.event</h3>"
            f'<ol class="story">{lines}</ol>'
        )
    return f"{''.join(parts)}</div>"
