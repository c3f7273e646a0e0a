"""Colours can be read in both themes, and nothing is told by colour alone."""

from __future__ import annotations

import itertools
import re
import tomllib
from pathlib import Path

import pytest

from pagedviz.views.charts import _LANES, LANE_KEY
from pagedviz.views.page_charts import _NEGATIVE, _POSITIVE
from pagedviz.views.theme import DARK, LIGHT, Theme, letter
from pagedviz.views.ticks import KINDS

ROOT = Path(__file__).resolve().parents[2]
both = pytest.mark.parametrize("theme", [LIGHT, DARK], ids=lambda theme: theme.name)


def luminance(color: str) -> float:
    """Relative luminance of #RRGGBB as WCAG 2.2 defines it."""
    channels = [int(color[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one: str, other: str) -> float:
    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


def test_black_on_white_has_the_contrast_of_the_definition() -> None:
    assert contrast("#000000", "#FFFFFF") == pytest.approx(21)
    assert contrast("#777777", "#FFFFFF") == pytest.approx(4.48, abs=0.01)


@both
def test_text_reaches_aa_on_background_and_surface(theme: Theme) -> None:
    inks = [theme.text, theme.quiet, theme.accent, *(hue.ink for hue in theme.hues)]
    for ink, behind in itertools.product(inks, (theme.background, theme.surface)):
        assert contrast(ink, behind) >= 4.5, (ink, behind)
    for hue in theme.hues:
        assert contrast(hue.on_ink, hue.ink) >= 4.5, hue


@both
def test_shapes_that_mean_something_reach_three_to_one(theme: Theme) -> None:
    for color in (theme.strong, theme.accent, *(hue.fill for hue in theme.hues)):
        assert contrast(color, theme.background) >= 3, color
    # A written slot beside an unwritten one; the slot is also framed by its page's border.
    for hue in theme.hues:
        assert contrast(hue.fill, theme.empty) >= 2.2, hue


@both
def test_hues_differ_and_none_is_the_accent(theme: Theme) -> None:
    assert len({hue.fill for hue in theme.hues}) == len(theme.hues) == len(LIGHT.hues)
    assert theme.accent not in {hue.fill for hue in theme.hues}


@both
def test_both_ends_of_the_scale_for_keys_and_values_stand_out(theme: Theme) -> None:
    for ends in (_NEGATIVE, _POSITIVE):
        assert contrast(ends[theme.name], theme.background) >= 3
    assert _NEGATIVE[theme.name] != _POSITIVE[theme.name]


def test_no_colour_is_written_anywhere_else() -> None:
    """What is not in the table is not tested for contrast. Shadows and veils are exempt."""
    ui = ROOT / "pagedviz" / "ui"
    files = [p for p in ui.rglob("*") if p.suffix in (".css", ".js", ".py")]
    assert len(files) > 30
    for path in files:
        text = path.read_text(encoding="utf-8")
        found = re.findall(r"#[0-9a-fA-F]{6}\b|\bhsl\(|\brgb\((?!0 0 0 / )", text)
        assert found == [], path.name


def test_each_mark_of_the_time_bar_has_a_form_of_its_own() -> None:
    source = (ROOT / "pagedviz/ui/board/assets/draw_timebar.js").read_text(encoding="utf-8")
    line = re.search(r"SIGNS = \{(.*)\};", source)
    assert line is not None
    signs = dict(re.findall(r'(\w+): "(.)"', line.group(1)))
    assert set(signs) == set(KINDS.values())
    assert len(set(signs.values())) == len(signs)


def test_each_state_of_a_sequence_has_a_pattern_of_its_own() -> None:
    said = dict(part.split(": ")[::-1] for part in LANE_KEY.split(" \u00b7 "))
    assert said == {
        "waiting": "grey",
        "prefill": "hatched",
        "decode": "solid",
        "preempted": "crossed",
    }
    # Waiting is the one without a hue; it shares "no pattern" with decode.
    patterns = [_LANES[state].pattern for state in ("prefilling", "decoding", "preempted")]
    assert len(set(patterns)) == 3


def test_letters_are_unique_for_as_many_sequences_as_a_scenario_may_have() -> None:
    letters = [letter(index) for index in range(256)]
    assert letters[:3] == ["A", "B", "C"]
    assert letters[25:28] == ["Z", "AA", "AB"]
    assert len(set(letters)) == 256
    with pytest.raises(ValueError, match="no sequence number -1"):
        letter(-1)


@both
def test_the_app_is_set_to_the_same_colours(theme: Theme) -> None:
    settings = tomllib.loads((ROOT / ".streamlit" / "config.toml").read_text(encoding="utf-8"))
    app = settings["theme"][theme.name]
    assert app["backgroundColor"] == theme.background
    assert app["secondaryBackgroundColor"] == theme.surface
    assert app["textColor"] == theme.text
    assert app["primaryColor"] == theme.accent
    assert app["borderColor"] == theme.line
