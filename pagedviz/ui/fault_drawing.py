"""The parts of the Break it screen that are HTML: answers, rules, steps, the life of a page.

Invariants: every text that is not ours is escaped here; what a colour says is also written.
"""

from __future__ import annotations

from html import escape
from itertools import groupby

from pagedviz.engine.invariants import Violation
from pagedviz.faults import Examination, Fault
from pagedviz.ui.broken_run import (
    LifeLine,
    StepPair,
    found_where,
    life_lines,
    names_of,
    parting_word,
    step_pairs,
)
from pagedviz.ui.marks import decorate
from pagedviz.views.rules import rule_sentence
from pagedviz.views.theme import LIGHT, places

_NUM_HUES = len(LIGHT.hues)


def draw_case(fault: Fault) -> str:
    return (
        f'<div class="panel" data-testid="fault" data-fault="{escape(fault.name)}">'
        f"<p><b>Seen in</b> {escape(fault.real_case)}</p></div>"
    )


def draw_answers(examination: Examination) -> str:
    """The wrong answer beside the right one, the first word that differs marked."""
    fault, difference = examination.fault, examination.difference
    head = f"<h2>What the user sees: {escape(fault.shows)}</h2>"
    if difference is None:
        return (
            f'<div class="panel part" data-testid="answers">{head}<p>In this run nothing yet: its '
            "tokens are given, so only the books can go wrong. Choose the bundled model to read a "
            "wrong answer</p></div>"
        )
    at = parting_word(difference.wrong, difference.right)
    name = escape(difference.name)
    columns = "".join(
        f'<div class="answer of-{kind}" data-testid="{kind}-answer"><h3>{title}</h3>'
        f"<p>{_marked(text, at)}</p></div>"
        for kind, title, text in (
            ("wrong", f"Wrong: what {name} gets from the faulty engine", difference.wrong),
            ("right", f"Right: what {name} gets from the healthy engine", difference.right),
        )
    )
    return (
        f'<div class="panel part" data-testid="answers">{head}'
        f'<div class="versus">{columns}</div></div>'
    )


def _marked(text: str, at: int | None) -> str:
    words = [escape(word) for word in text.split()]
    if at is not None and at < len(words):
        words[at] = f"<u>{words[at]}</u> <small>(differs here)</small>"
    return " ".join(words)


def draw_rules(examination: Examination) -> str:
    """The rule that finds it, where, and the others that are broken as well."""
    where = f'<p class="where" data-testid="where"><b>{found_where(examination)}</b></p>'
    if examination.caught is None:
        return f'<div class="panel part"><h2>What finds it: no rule</h2>{where}</div>'
    first, *others = examination.violations
    place_of = places(examination.caught.after)
    others_drawn = "".join(
        _other_rule(list(group), place_of) for _, group in groupby(others, lambda v: v.rule)
    )
    also = f"<h3>Broken in the same step</h3><ul>{others_drawn}</ul>" if others else ""
    return (
        '<div class="panel part" data-testid="rule">'
        f"<h2>What finds it: rule {first.rule}, {escape(first.name)}</h2>"
        f"<p>{escape(rule_sentence(first.rule))}</p>"
        f'<p class="said">{decorate(first.message, place_of, _NUM_HUES)}</p>{where}{also}</div>'
    )


def _other_rule(found: list[Violation], place_of: dict[int, int]) -> str:
    """One line a rule: a second page or sequence is told by its number only."""
    first, *more = found
    message = decorate(first.message, place_of, _NUM_HUES)
    like_it = f", and {len(more)} more like it" if more else ""
    return f'<li class="quiet">rule {first.rule} ({escape(first.name)}): {message}{like_it}</li>'


def draw_steps(examination: Examination) -> str:
    """The steps around the damage, the faulty engine's beside the healthy one's."""
    pairs = step_pairs(examination)
    last = pairs[-1].number
    place_of = places(examination.faulty.steps[last].after)
    rows = "".join(_step(pair, place_of) for pair in pairs)
    names = decorate(names_of(examination.faulty, last), place_of, _NUM_HUES)
    end = f"The run ends with step {last}"
    if examination.caught is not None:
        end = f"Stopped at the violation: rule {examination.violations[0].rule}, step {last}"
    return (
        f'<div class="panel part"><h2>Step by step</h2><p class="quiet">{names}</p>'
        '<table class="steps" data-testid="steps"><thead><tr><th scope="col">Step</th>'
        '<th scope="col">Faulty engine</th><th scope="col">Healthy engine</th></tr></thead>'
        f'<tbody>{rows}</tbody></table><p class="where" data-testid="stop"><b>{end}</b></p></div>'
    )


def _step(pair: StepPair, place_of: dict[int, int]) -> str:
    chips = (("damage", pair.is_damage), ("found", pair.is_found))
    marks = "".join(f'<span class="chip">{word}</span>' for word, is_so in chips if is_so)
    wrong = decorate(pair.wrong, place_of, _NUM_HUES)
    if pair.differs:
        items = "".join(f"<li>{decorate(t, place_of, _NUM_HUES)}</li>" for t in pair.differs)
        wrong += f'<h3>After it, not as on the healthy engine</h3><ul class="differs">{items}</ul>'
    right = '<span class="quiet">the run had ended</span>'
    if pair.is_same:
        right = '<span class="quiet">the same</span>'
    elif pair.right is not None:
        right = decorate(pair.right, place_of, _NUM_HUES)
    marked = ' class="damaged"' if pair.is_damage else ""
    return (
        f'<tr{marked} data-step="{pair.number}"><th scope="row">{pair.number} {marks}</th>'
        f'<td data-engine="Faulty engine">{wrong}</td>'
        f'<td data-engine="Healthy engine">{right}</td></tr>'
    )


def draw_life(examination: Examination) -> str:
    """Everything that touched the page which the violation is about."""
    page_id = examination.page_id
    if page_id is None or examination.caught is None:
        return (
            '<div class="panel part"><h2>The life of the page</h2>'
            "<p>What is broken here is about no page</p></div>"
        )
    place_of = places(examination.caught.after)
    lines = "".join(
        f"<li><span>{_steps_text(line)}</span>"
        f"<span>{decorate(line.text, place_of, _NUM_HUES)}</span></li>"
        for line in life_lines(examination, page_id)
    )
    return (
        '<div class="panel part story" data-testid="life">'
        f"<h2>The life of page p{page_id:d}, up to the violation</h2><ol>{lines}</ol></div>"
    )


def _steps_text(line: LifeLine) -> str:
    if line.first_step == line.last_step:
        return f"step {line.first_step}"
    return f"{line.first_step} to {line.last_step}"
