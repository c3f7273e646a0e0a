"""The one place for colour: a hue and a letter for each sequence, greys for all else, one accent.

Invariants: letters are unique, hues repeat after the sixth sequence, so the letter is always drawn
with the hue and colour alone never says anything; text colours reach 4.5:1 and graphical ones 3:1
on both backgrounds of their theme (WCAG AA). The hues are those of Okabe and Ito, lightened or
darkened until they do; vermillion is left out of them, because it is the accent: "now".
"""

from __future__ import annotations

from typing import NamedTuple

from pagedviz.engine.snapshot import Snapshot


class Hue(NamedTuple):
    """`fill` for areas and borders; `ink` for text and lines; `on_ink` for text written on ink."""

    name: str
    fill: str
    ink: str
    on_ink: str


class Theme(NamedTuple):
    """Colours of one mode as #RRGGBB. `background` and `surface` are those of the app's settings.

    text, quiet: words. line: hairlines that carry no meaning. empty: an unwritten slot.
    strong, middle, faint: the greys of charts. accent: what happens now.
    """

    name: str
    background: str
    surface: str
    text: str
    quiet: str
    line: str
    empty: str
    strong: str
    middle: str
    faint: str
    accent: str
    hues: tuple[Hue, ...]

    def hue(self, index: int) -> Hue:
        """The hue of the sequence submitted as number `index`."""
        return self.hues[index % len(self.hues)]


_WHITE, _INK = "#FFFFFF", "#0F1216"

LIGHT = Theme(
    name="light",
    background="#FFFFFF",
    surface="#F4F5F6",
    text="#1B1F23",
    quiet="#59616A",
    line="#D9DDE1",
    empty="#DDE1E5",
    strong="#6B747D",
    middle="#A9B1B9",
    faint="#E3E6E9",
    accent="#B54A00",
    hues=(
        Hue("blue", "#0072B2", "#0067A3", _WHITE),
        Hue("green", "#009A70", "#007657", _WHITE),
        Hue("pink", "#C46F9E", "#9C4A7C", _WHITE),
        Hue("orange", "#BD7A00", "#8A5900", _WHITE),
        Hue("sky", "#2F8FCB", "#1F6F9F", _WHITE),
        Hue("olive", "#928800", "#6B6400", _WHITE),
    ),
)

DARK = Theme(
    name="dark",
    background="#0F1216",
    surface="#171C23",
    text="#E6EAEE",
    quiet="#98A2AD",
    line="#2A313A",
    empty="#2A313A",
    strong="#8B95A0",
    middle="#4D565F",
    faint="#232A32",
    accent="#FF8A3D",
    hues=(
        Hue("blue", "#56B4E9", "#56B4E9", _INK),
        Hue("green", "#2CC99A", "#2CC99A", _INK),
        Hue("pink", "#E6A0C8", "#E6A0C8", _INK),
        Hue("orange", "#F5B83D", "#F5B83D", _INK),
        Hue("sky", "#8FA6FF", "#8FA6FF", _INK),
        Hue("olive", "#F0E442", "#F0E442", _INK),
    ),
)

THEMES = {theme.name: theme for theme in (LIGHT, DARK)}


def letter(index: int) -> str:
    """A, B, .. Z, AA, AB, ..: the sequence submitted as number `index`, counted from 0."""
    if index < 0:
        raise ValueError(f"there is no sequence number {index}")
    letters = ""
    index += 1
    while index:
        index, place = divmod(index - 1, 26)
        letters = chr(ord("A") + place) + letters
    return letters


def places(snapshot: Snapshot) -> dict[int, int]:
    """seq_id -> its number in the order of submission, which hue and letter follow."""
    return {view.seq_id: number for number, view in enumerate(snapshot.sequences)}
