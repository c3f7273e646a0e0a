"""The board as HTML: everything foreign is escaped, every colour comes from the theme."""

from __future__ import annotations

from html.parser import HTMLParser
from pathlib import Path

import pytest

from pagedviz.trace.trace import Moment
from pagedviz.ui import drawing, sequence_drawing
from pagedviz.ui.markdown import plain
from pagedviz.ui.marks import decorate
from pagedviz.views.board import Board, make_board
from pagedviz.views.theme import DARK, LIGHT, THEMES, Theme
from tests.views.runs import shared_start, tight, word

SCRIPT = "<script>alert(1)</script><img src=x onerror=alert(2)>\"'&"
VOID = {"img", "br", "input"}


class Elements(HTMLParser):
    """Tags with their attributes; fails on one that is not closed where it should be."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.open: list[str] = []
        self.text = ""
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data

    def classes(self, name: str) -> list[dict[str, str | None]]:
        return [a for _, a in self.found if name in (a.get("class") or "").split()]


def draw(board: Board, theme: Theme = LIGHT) -> Elements:
    return Elements(drawing.draw_board(board, theme, drawing.Lanes(3, 0)))


def test_the_root_publishes_the_moment_and_all_of_the_state_hash() -> None:
    trace = shared_start()
    for moment, event in ((Moment(1, 5), "5"), (Moment(1), "end"), (Moment(0, 0), "0")):
        _, root = draw(make_board(trace, moment, word)).found[0]
        assert root["data-testid"] == "board"
        assert root["data-step"] == str(moment.step)
        assert root["data-event"] == event
        assert root["data-state-hash"] == f"{trace.state_hash(*moment):016x}"


@pytest.mark.parametrize("theme", [LIGHT, DARK], ids=lambda theme: theme.name)
def test_every_page_token_and_sequence_is_drawn_at_every_moment(theme: Theme) -> None:
    trace = tight()
    for step in range(trace.num_steps):
        for event in (*range(trace.num_events(step) + 1), None):
            board = make_board(trace, Moment(step, event), word)
            elements = draw(board, theme)
            assert len(elements.classes("page")) == 6
            assert len(elements.classes("seq")) == len(board.sequences)
            drawn = len(elements.classes("t"))
            known = sum(len(group.tokens) for row in board.sequences for group in row.groups)
            assert drawn <= known


def test_tokens_names_and_sentences_are_escaped() -> None:
    trace = shared_start()
    board = make_board(trace, Moment(0, 1), lambda token_id: SCRIPT)
    named = tuple(row._replace(name=SCRIPT) for row in board.sequences)
    elements = draw(board._replace(sequences=named))
    assert {tag for tag, _ in elements.found}.isdisjoint({"script", "img"})
    assert all(not key.startswith("on") for _, attrs in elements.found for key in attrs)
    assert SCRIPT in elements.text
    assert Elements(drawing.draw_title(SCRIPT, is_changed=True)).text.startswith(SCRIPT)


def test_a_quoted_text_that_talks_of_sequences_is_not_coloured() -> None:
    said = decorate("seq:1 takes p7.2, which held “seq:0 and p3”", {0: 0, 1: 1}, 6)
    elements = Elements(said)
    assert [attrs["class"] for attrs in elements.classes("who")] == ["who h1"]
    assert elements.text == "B seq:1 takes p7.2, which held seq:0 and p3"
    assert [tag for tag, _ in elements.found] == ["b", "b", "q"]


def test_what_is_coloured_carries_a_letter_too() -> None:
    elements = draw(make_board(tight(), Moment(3), word))
    pages = elements.classes("page")
    owned = [page for page in pages if "active" in (page["class"] or "")]
    assert owned
    assert all(" by A" in str(p["title"]) or " by B" in str(p["title"]) for p in owned)


def test_the_prompt_yet_to_be_computed_does_not_push_the_front_out_of_sight() -> None:
    trace = tight()
    (row,) = make_board(trace, Moment(0, 3), word).sequences[:1]
    long = row._replace(state="prefilling", groups=row.groups[:1] * 9)
    shown = sequence_drawing._shown_groups(long)
    assert len(shown.groups) == 1
    assert shown.num_after == 8 * len(row.groups[0].tokens)


def test_every_colour_of_the_style_sheet_comes_from_the_theme() -> None:
    rules = Path(drawing.__file__).with_name("board.css").read_text(encoding="utf-8")
    declarations = "".join(part.split("}")[0] for part in rules.split("{")[1:])
    assert "#" not in declarations
    for theme in THEMES.values():
        sheet = drawing.stylesheet(theme)
        for name in ("background", "surface", "text", "quiet", "accent"):
            assert f"--{name}:{getattr(theme, name)};" in sheet


def test_markdown_in_a_text_is_shown_as_it_is() -> None:
    assert plain("**a** [b](c) :red[d] <e> $f$") == (
        "\\*\\*a\\*\\* \\[b\\]\\(c\\) \\:red\\[d\\] \\<e\\> \\$f\\$"
    )


def test_of_a_waiting_text_the_part_is_shown_that_a_lookup_stumbled_over() -> None:
    trace = shared_start()
    board = make_board(trace, Moment(1, 4), word)
    assert "token 5 differs" in board.sentence
    waiting = board.sequences[1]
    assert waiting.state == "waiting"
    shown = sequence_drawing._shown_groups(
        waiting._replace(groups=waiting.groups[:1] * 3 + waiting.groups)
    )
    assert shown.num_before == 3 * 4
    assert [token.position for token in shown.groups[1].tokens if token.is_now] == [5]
