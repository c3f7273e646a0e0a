"""The reference models, each in both spellings of its configuration."""

import json
import shutil
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from pagedviz.model import LanguageModel, load_model

MODELS = Path(__file__).parent.parent / "data" / "models"
ARCHITECTURES = ("llama", "llama_rope3")


@dataclass(frozen=True)
class Reference:
    """A loaded model and what PyTorch computed with it."""

    model: LanguageModel
    prompts: dict[str, list[int]]
    greedy: dict[str, list[int]]
    logits: dict[str, np.ndarray]
    attention: dict[str, np.ndarray]


def _read(folder: Path) -> Reference:
    expected = json.loads((folder / "expected.json").read_text())["prompts"]
    return Reference(
        model=load_model(folder),
        prompts={name: entry["ids"] for name, entry in expected.items()},
        greedy={name: entry["greedy_ids"] for name, entry in expected.items()},
        logits=dict(np.load(folder / "logits.npz")),
        attention=dict(np.load(folder / "attention.npz")),
    )


@pytest.fixture(
    scope="session",
    params=[f"{name}-{config}" for name in ARCHITECTURES for config in ("v5", "v4")],
)
def reference(request, tmp_path_factory) -> Reference:
    """Every architecture from either spelling of its config.json."""
    name, spelling = request.param.split("-")
    if spelling == "v5":
        return _read(MODELS / name)
    folder = tmp_path_factory.mktemp(request.param)
    shutil.copytree(MODELS / name, folder, dirs_exist_ok=True)
    shutil.move(folder / "config_v4style.json", folder / "config.json")
    return _read(folder)


@pytest.fixture(scope="session")
def llama() -> LanguageModel:
    return load_model(MODELS / "llama")


@pytest.fixture
def llama_folder(tmp_path) -> Path:
    """A copy of the llama folder that a test may damage."""
    for name in ("config.json", "model.safetensors"):
        shutil.copy(MODELS / "llama" / name, tmp_path / name)
    return tmp_path
