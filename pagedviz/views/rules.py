"""What the rules of the paged cache are called on screen."""

from __future__ import annotations

from pagedviz.engine.rules import RULES
from pagedviz.trace.truth import TRUTH, TRUTH_RULE


def rule_name(number: int) -> str:
    """In a few words; of a rule of another version its number is all that is known."""
    if number == TRUTH_RULE:
        return TRUTH.name
    rule = RULES.get(number)
    return "unknown here" if rule is None else rule.name


def rule_sentence(number: int) -> str:
    """What must hold, without a full stop. KeyError for a number that no rule has."""
    rule = TRUTH if number == TRUTH_RULE else RULES[number]
    return rule.sentence.rstrip(".")
