"""Messages use the words on screen."""

from __future__ import annotations

import ast
from pathlib import Path

from pagedviz.scenarios.scenario import ENGINE_KEYS
from pagedviz.ui.messages import FORM_WORDS, in_form_words

SETUP = Path(__file__).resolve().parents[2] / "pagedviz" / "ui" / "setup_fields.py"


def test_a_setting_is_called_what_the_form_calls_it() -> None:
    assert in_form_words("Not applied: max_new_tokens must be at least 1, got 0") == (
        "Not applied: “Max new tokens” must be at least 1, got 0"
    )


def test_in_an_address_it_keeps_the_name_it_has_there() -> None:
    message = "block_size in the address cannot be read: “x”"
    assert in_form_words(message) == message


def test_every_name_is_a_label_of_the_form() -> None:
    strings = {
        node.value
        for node in ast.walk(ast.parse(SETUP.read_text(encoding="utf-8")))
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    }
    assert set(FORM_WORDS.values()) <= strings
    shown = {"block_size", "num_pages", "max_tokens_per_step", "chunk_size", "prefix_caching"}
    assert shown <= set(ENGINE_KEYS) & set(FORM_WORDS)
