"""What the rules of the paged cache are called on screen."""

from __future__ import annotations

from pagedviz.engine.rules import RULES
from pagedviz.trace.truth import TRUTH

TRUTH_RULE = 8


def rule_name(number: int) -> str:
    """In a few words; of a rule of another version its number is all that is known."""
    if number == TRUTH_RULE:
        return TRUTH.name
    rule = RULES.get(number)
    return "unknown here" if rule is None else rule.name
