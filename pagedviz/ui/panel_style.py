"""The style sheet of panels and screens, and how a page lights up wherever it is drawn."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from pagedviz.ui.frame import in_both
from pagedviz.views.pool_map import SLOTS_UP_TO
from pagedviz.views.theme import DARK, LIGHT


@cache
def panel_style() -> str:
    """The `<style>` element; goes with `frame_style`."""
    values = "".join(
        f"--{name}:{in_both(getattr(LIGHT, name), getattr(DARK, name))};"
        for name in ("empty", "strong", "middle")
    )
    hues = "".join(
        f".h{number}{{--fill:{in_both(light.fill, dark.fill)};--ink:{in_both(light.ink, dark.ink)};"
        f"--on-ink:{in_both(light.on_ink, dark.on_ink)}}}"
        for number, (light, dark) in enumerate(zip(LIGHT.hues, DARK.hues, strict=True))
    )
    rules = "\n".join(
        Path(__file__).with_name(name).read_text(encoding="utf-8")
        for name in ("panels.css", "pool.css", "compare.css")
    )
    return f"<style>:root{{{values}}}{hues}\n{rules}</style>"


@cache
def link_rules(num_pages: int) -> str:
    """A `<style>` element: pointing at a page lights it up wherever it is drawn."""
    rules = "".join(
        f".pool:has(.k{page_id}:hover) .k{page_id}{{box-shadow:0 0 0 2px var(--text)}}"
        for page_id in range(min(num_pages, SLOTS_UP_TO))
    )
    return f"<style>{rules}</style>"
