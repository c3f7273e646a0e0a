"""The documents do not fall behind: names, commands, paths and links in them exist."""

from __future__ import annotations

import ast
import importlib
import re
import subprocess
import sys
from pathlib import Path
from urllib.parse import unquote

import pytest

import pagedviz.engine
from pagedviz.engine.snapshot import PageView

ROOT = Path(__file__).resolve().parent.parent
GLOSSARY = ROOT / "docs" / "glossary.md"
README = ROOT / "README.md"
DOCUMENTS = sorted([README, *(ROOT / "docs").glob("*.md")])

# The packages whose modules a name of the glossary may live in.
HOMES = ("engine", "trace", "faults")
# What the project is about: a glossary without these is not one.
CENTRAL = {
    "PageId",
    "PageTable",
    "SeqId",
    "Sequence",
    "KvPagePool",
    "SharedPrefixCache",
    "StepPlan",
    "Snapshot",
}


def tables(text: str) -> list[list[dict[str, str]]]:
    """Markdown tables as rows of {heading: cell}."""
    found = []
    for block in re.findall(r"(?:^\|.*\n)+", text, re.MULTILINE):
        heading, _, *rows = [
            [cell.strip() for cell in line.strip().strip("|").split("|")]
            for line in block.splitlines()
        ]
        found.append([dict(zip(heading, row, strict=True)) for row in rows])
    return found


def first_column(*headings: str) -> list[set[str]]:
    """The names in backticks that open the rows of every table with these headings."""
    return [
        {row[headings[0]].strip("`") for row in table}
        for table in tables(GLOSSARY.read_text(encoding="utf-8"))
        if tuple(table[0]) == headings
    ]


def glossary_names() -> list[str]:
    text = GLOSSARY.read_text(encoding="utf-8")
    cells = [row["in code"] for table in tables(text) for row in table if "in code" in row]
    cells += re.findall(r"\((`[A-Z][\w.]+`)\)", text)
    return sorted({name for cell in cells for name in re.findall(r"`([^`]+)`", cell)})


def exists(name: str) -> bool:
    if name.startswith("pagedviz."):
        return importlib.import_module(name) is not None
    first, *rest = name.split(".")
    for home in HOMES:
        for path in sorted((ROOT / "pagedviz" / home).glob("*.py")):
            module = f"pagedviz.{home}.{path.stem}".removesuffix(".__init__")
            thing = getattr(importlib.import_module(module), first, None)
            if thing is not None:
                # A field without a default is no attribute of its class, only an annotation.
                return all(hasattr(thing, part) or part in thing.__annotations__ for part in rest)
    return False


@pytest.mark.parametrize("name", glossary_names())
def test_every_name_of_the_glossary_exists(name: str) -> None:
    assert exists(name), f"docs/glossary.md names {name}, which is in none of {HOMES}"


def test_the_glossary_explains_the_central_names() -> None:
    assert set(glossary_names()) >= CENTRAL
    assert all(hasattr(pagedviz.engine, name) for name in CENTRAL)


def test_a_name_that_does_not_exist_is_found() -> None:
    assert not exists("PageTabel")
    assert not exists("PageView.colour")


def test_the_page_states_are_those_of_the_code() -> None:
    pages = [PageView(0), PageView(0, page_hash=7), PageView(0, ref_count=1)]
    assert first_column("state", "owners", "content") == [{page.state for page in pages}]


def test_the_sequence_states_and_finish_reasons_are_those_of_the_code() -> None:
    states = {cls.__name__.lower() for cls in pagedviz.engine.SequenceState.__args__}
    reasons = {reason.name.lower() for reason in pagedviz.engine.FinishReason}
    assert first_column("state", "meaning") == [states]
    assert reasons in first_column("reason", "meaning")


def test_the_reasons_a_lookup_ends_are_those_of_the_code() -> None:
    given = set()
    for path in (ROOT / "pagedviz" / "engine").glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and ast.unparse(node.func) == "LookupEnd":
                given |= {
                    part.value
                    for part in ast.walk(node.args[0])
                    if isinstance(part, ast.Constant) and isinstance(part.value, str)
                }
    assert given in first_column("reason", "meaning")


def test_the_readme_shows_the_commands_there_are() -> None:
    help_text = subprocess.run(
        [sys.executable, "-m", "pagedviz", "--help"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    ).stdout
    commands = re.search(r"\{([a-z,]+)\}", help_text)
    assert commands is not None, help_text
    shown = set(re.findall(r"^pagedviz ([a-z]+)", README.read_text(encoding="utf-8"), re.M))
    assert shown == set(commands.group(1).split(","))


def test_the_readme_names_every_make_target() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    targets = set(re.findall(r"^([a-z-]+):.*##", makefile, re.M)) - {"help"}
    assert set(re.findall(r"`make ([a-z-]+)`", README.read_text(encoding="utf-8"))) == targets


def test_the_file_tree_of_the_readme_is_that_of_the_repository() -> None:
    tree = re.search(r"```text\n(.*?)```", README.read_text(encoding="utf-8"), re.S)
    assert tree is not None
    folders: list[str] = []
    for line in tree.group(1).splitlines():
        indent, name = re.match(r"( *)(\S+)", line).groups()  # type: ignore[union-attr]
        folders = folders[: len(indent) // 2]
        assert (ROOT.joinpath(*folders, name)).exists(), f"the README's tree names {name}"
        folders.append(name)


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_every_link_to_a_file_leads_somewhere(document: Path) -> None:
    links = re.findall(r"\]\(([^)#\s]+)", document.read_text(encoding="utf-8"))
    local = [link for link in links if not re.match(r"[a-z]+:", link)]
    missing = [link for link in local if not (document.parent / unquote(link)).exists()]
    assert missing == []
