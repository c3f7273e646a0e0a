"""Who may import whom: read off the source of every module, so that no import can slip by.

The table is the architecture: engine knows only itself; model stands beside it; trace reads the
engine's records; views see read models, never a running engine; ui is on top.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent


@dataclass(frozen=True)
class Layer:
    libraries: frozenset[str]  # third-party packages; the standard library is always allowed
    project: tuple[str, ...]  # dotted prefixes inside pagedviz


def layer(libraries: str, *project: str) -> Layer:
    return Layer(frozenset(libraries.split()), project)


# What a view may know of the engine: records of what happened, not the thing that happens.
READ_MODELS = tuple(
    f"pagedviz.engine.{module}"
    for module in ("config", "errors", "events", "ids", "rules", "snapshot", "state_hash")
)
BELOW_UI = tuple(
    f"pagedviz.{name}"
    for name in ("__version__", "engine", "model", "trace", "scenarios", "faults")
)
LAYERS = {
    "pagedviz/engine": layer("numpy", "pagedviz.engine"),
    "pagedviz/model": layer("numpy safetensors tokenizers", "pagedviz.model"),
    "pagedviz/trace": layer("numpy", "pagedviz.engine", "pagedviz.trace"),
    "pagedviz/scenarios": layer(
        "numpy", "pagedviz.engine", "pagedviz.model", "pagedviz.trace", "pagedviz.scenarios"
    ),
    "pagedviz/views": layer(
        "numpy pandas plotly", *READ_MODELS, "pagedviz.trace", "pagedviz.views"
    ),
    "pagedviz/faults": layer(
        "numpy",
        "pagedviz.engine",
        "pagedviz.model",
        "pagedviz.trace",
        "pagedviz.scenarios",
        "pagedviz.faults",
    ),
    "pagedviz/ui": layer("numpy pandas streamlit", *BELOW_UI, "pagedviz.views", "pagedviz.ui"),
    # The command line starts the web server, but only `app` pays for loading it.
    "pagedviz/cli": layer("numpy", *BELOW_UI, "pagedviz.cli", "pagedviz.ui.launch"),
    "pagedviz/__main__.py": layer("", "pagedviz.cli"),
    "pagedviz/__init__.py": layer(""),
    "app.py": layer("streamlit", "pagedviz.ui"),
    "pages": layer("streamlit", "pagedviz.ui"),
}
# Reading such data runs whatever code the file's author put in it.
UNSAFE = {"pickle", "_pickle", "cloudpickle", "dill", "joblib", "marshal", "shelve"}
UNSAFE_CALLS = {"read_pickle", "to_pickle"}
# Folders outside the table: no layer, but no unsafe data either.
SCANNED = ("app.py", "pages", "pagedviz", "tests", "benchmarks", "tools")


def layer_of(path: str) -> str | None:
    """The row of LAYERS for a file, given relative to the repository with forward slashes."""
    stem = path.removesuffix(".py")
    for name in LAYERS:
        if path == name or stem == name or path.startswith(name + "/"):
            return name
    return None


def imports(tree: ast.AST, path: str) -> Iterator[tuple[int, str, str | None]]:
    """(line, module, name imported from it), also inside functions and TYPE_CHECKING blocks."""
    package = path.removesuffix(".py").split("/")[:-1]
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield node.lineno, alias.name, None
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else []
            module = ".".join([*base, *([node.module] if node.module else [])])
            for alias in node.names:
                yield node.lineno, module, alias.name


def violations(source: str, path: str) -> list[str]:
    """One line for each forbidden import or call in a file."""
    tree = ast.parse(source, filename=path)
    row = layer_of(path)
    found = []
    for line, module, name in imports(tree, path):
        where = f"{path}:{line}"
        if module.split(".")[0] in UNSAFE:
            found.append(f"{where} imports {module}: unsafe to read from a file")
        if row is not None:
            full = module if name is None else f"{module}.{name}"
            if not _allowed(full, module, LAYERS[row]):
                found.append(f"{where} imports {full}: not allowed in {row}")
        elif path.startswith("pagedviz/"):
            found.append(f"{where} is in no layer: add its folder to LAYERS")
    for node in ast.walk(tree):
        where = f"{path}:{getattr(node, 'lineno', 0)}"
        if isinstance(node, ast.Attribute) and node.attr in UNSAFE_CALLS:
            found.append(f"{where} calls {node.attr}: unsafe to read from a file")
        if isinstance(node, ast.keyword) and node.arg == "allow_pickle":
            literal = node.value.value if isinstance(node.value, ast.Constant) else None
            if literal is not False:
                found.append(f"{where} sets allow_pickle: unsafe to read from a file")
        if row is not None and isinstance(node, ast.Name | ast.Attribute):
            called = node.id if isinstance(node, ast.Name) else node.attr
            if called in ("__import__", "import_module"):
                found.append(f"{where} uses {called}: an import that this test cannot see")
    return found


def _allowed(full: str, module: str, row: Layer) -> bool:
    top = module.split(".")[0]
    if top == "pagedviz":
        # `from pagedviz.engine import Snapshot` names a class: judged by the module that holds it.
        homes = {full, _home(full)}
        return any(
            home == prefix or home.startswith(prefix + ".")
            for home in homes
            for prefix in row.project
        )
    return top in sys.stdlib_module_names or top in row.libraries


def _home(full: str) -> str:
    """The module behind a name that a package re-exports in its `__init__.py`."""
    package, _, name = full.rpartition(".")
    init = ROOT.joinpath(*package.split("."), "__init__.py")
    if init.is_file():
        path = init.relative_to(ROOT).as_posix()
        for _, module, imported in imports(ast.parse(init.read_text(encoding="utf-8")), path):
            if imported == name:
                return f"{module}.{name}"
    return full


def modules() -> list[str]:
    files: list[Path] = []
    for name in SCANNED:
        where = ROOT / name
        files += [where] if where.is_file() else sorted(where.rglob("*.py"))
    return [file.relative_to(ROOT).as_posix() for file in files]


def edges(path: str) -> set[str]:
    """Modules of the project that a module loads, `TYPE_CHECKING` blocks left out."""
    tree = ast.parse((ROOT / path).read_text(encoding="utf-8"))
    for node in ast.walk(tree):
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test):
            node.body = [ast.Pass()]
    found = set()
    for _, module, name in imports(tree, path):
        for target in (module, f"{module}.{name}"):
            file = target.replace(".", "/") + ".py"
            if target.startswith("pagedviz.") and (ROOT / file).is_file():
                found.add(file)
    return found


def cycle(graph: dict[str, set[str]]) -> list[str] | None:
    """Some chain of modules that import each other in a ring."""
    done: set[str] = set()

    def visit(node: str, chain: list[str]) -> list[str] | None:
        if node in chain:
            return [*chain[chain.index(node) :], node]
        if node in done:
            return None
        for target in sorted(graph.get(node, ())):
            if ring := visit(target, [*chain, node]):
                return ring
        done.add(node)
        return None

    for start in sorted(graph):
        if ring := visit(start, []):
            return ring
    return None


def test_every_import_stays_in_its_layer() -> None:
    found = [
        line
        for path in modules()
        if path != "tests/test_layers.py"
        for line in violations((ROOT / path).read_text(encoding="utf-8"), path)
    ]
    assert not found, "\n".join(found)


def test_the_scan_sees_every_layer() -> None:
    seen = {layer_of(path) for path in modules()}
    assert set(LAYERS) <= seen


def test_no_modules_import_each_other_in_a_ring() -> None:
    ring = cycle({path: edges(path) for path in modules() if path.startswith("pagedviz/")})
    assert ring is None, " -> ".join(ring)


@pytest.mark.parametrize(
    ("path", "source"),
    [
        ("pagedviz/engine/pages.py", "import streamlit"),
        ("pagedviz/engine/pages.py", "import pagedviz.trace"),
        ("pagedviz/engine/pages.py", "from ..model import load_model"),
        ("pagedviz/engine/pages.py", "def late():\n    from pagedviz.views import theme"),
        ("pagedviz/engine/pages.py", "import importlib\nimportlib.import_module('streamlit')"),
        ("pagedviz/engine/pages.py", "__import__('streamlit')"),
        ("pagedviz/model/layers.py", "from pagedviz.engine import Engine"),
        ("pagedviz/model/layers.py", "import torch"),
        ("pagedviz/trace/codec.py", "import pandas"),
        ("pagedviz/trace/codec.py", "from pagedviz import views"),
        ("pagedviz/views/pool.py", "from pagedviz.engine.engine import Engine"),
        ("pagedviz/views/pool.py", "from pagedviz.engine import Engine"),
        ("pagedviz/views/pool.py", "from pagedviz.engine import engine"),
        ("pagedviz/views/pool.py", "import pagedviz.engine"),
        ("pagedviz/views/pool.py", "from pagedviz.engine import BlockManager"),
        ("pagedviz/views/pool.py", "import streamlit as st"),
        ("pagedviz/scenarios/loader.py", "import plotly.graph_objects as go"),
        ("pagedviz/ui/session.py", "import plotly.express"),
        ("pagedviz/ui/session.py", "from pagedviz import cli"),
        ("pagedviz/cli.py", "import streamlit"),
        ("pagedviz/cli.py", "from pagedviz.ui import session"),
        ("pages/step.py", "from pagedviz.engine import Engine"),
        ("app.py", "import plotly"),
        ("pagedviz/extra/new.py", "import os"),
        ("pagedviz/trace/codec.py", "import pickle"),
        ("tests/trace/test_codec.py", "from shelve import open"),
        ("tools/train_tiny.py", "import pandas\npandas.read_pickle('x')"),
        ("benchmarks/x.py", "import numpy\nnumpy.load('x', allow_pickle=True)"),
    ],
)
def test_a_forbidden_import_is_found(path: str, source: str) -> None:
    assert violations(source, path)


@pytest.mark.parametrize(
    ("path", "source"),
    [
        ("pagedviz/engine/pages.py", "import numpy as np\nfrom .ids import PageId"),
        ("pagedviz/engine/pages.py", "from collections import deque"),
        ("pagedviz/trace/codec.py", "from pagedviz.engine.events import PageHashed"),
        ("pagedviz/views/pool.py", "from pagedviz.engine.snapshot import Snapshot"),
        ("pagedviz/views/pool.py", "from pagedviz.engine import snapshot, events"),
        ("pagedviz/views/pool.py", "import plotly.graph_objects as go"),
        ("pagedviz/ui/session.py", "import streamlit as st\nfrom pagedviz.views import theme"),
        ("pagedviz/cli.py", "from pagedviz import __version__"),
        ("pagedviz/cli.py", "def app():\n    from pagedviz.ui.launch import launch"),
        ("tests/engine/test_x.py", "import streamlit, torch"),
        ("benchmarks/x.py", "import numpy\nnumpy.load('x', allow_pickle=False)"),
    ],
)
def test_an_allowed_import_passes(path: str, source: str) -> None:
    assert violations(source, path) == []


def test_a_ring_is_found() -> None:
    assert cycle({"a": {"b"}, "b": {"c"}, "c": {"b"}}) == ["b", "c", "b"]
    assert cycle({"a": {"b", "c"}, "b": {"c"}, "c": set()}) is None
