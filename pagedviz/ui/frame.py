"""What stands around the board: how close Streamlit draws, the title, the cursor over a chart.

Invariant: every text that is not ours is escaped when it is drawn.
"""

from __future__ import annotations

from functools import cache
from html import escape
from pathlib import Path

from pagedviz.views.charts import MARGIN_BOTTOM, MARGIN_LEFT, MARGIN_RIGHT, MARGIN_TOP
from pagedviz.views.theme import DARK, LIGHT


def in_both(light: str, dark: str) -> str:
    """A colour that follows the page at once: the server hears of a new theme at the next rerun."""
    return f"light-dark({light},{dark})"


@cache
def frame_style() -> str:
    """The `<style>` element."""
    names = ("background", "surface", "text", "quiet", "line", "accent")
    values = "".join(
        f"--{name}:{in_both(getattr(LIGHT, name), getattr(DARK, name))};" for name in names
    )
    rules = Path(__file__).with_name("frame.css").read_text(encoding="utf-8")
    return f"<style>:root{{{values}}}\n{rules}</style>"


@cache
def presenter_style() -> str:
    """Hides all that stands around the board. It is drawn still: the board would be placed anew if
    what comes before it went away."""
    rules = Path(__file__).with_name("presenter.css").read_text(encoding="utf-8")
    return f"<style>{rules}</style>"


def draw_title(title: str, is_changed: bool) -> str:
    changed = '<span class="chip">changed</span>' if is_changed else ""
    return f'<div class="title"><b>{escape(title)}</b> {changed}</div>'


def draw_cursor(share: float, height: int) -> str:
    """The line for "now" over a chart below it, and a veil over what is still to come."""
    inner = f"calc((100% - {MARGIN_LEFT + MARGIN_RIGHT}px) * {share:.5f} + {MARGIN_LEFT}px)"
    top, bottom = MARGIN_TOP, MARGIN_BOTTOM
    return (
        f'<div class="cursor" style="--at:{inner};--high:{height - top - bottom}px;'
        f'--top:{top}px;--right:{MARGIN_RIGHT}px"><i class="veil"></i><i class="line"></i></div>'
    )
