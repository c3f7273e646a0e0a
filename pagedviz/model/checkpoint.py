"""Load a model folder: `config.json`, `*.safetensors` (sharded too), optional `tokenizer.json`.

Invariants:
- Every failure is a `ModelError` in one sentence that names the file or tensor.
- Nothing is read from outside the folder's own files, whatever an index says, and nothing is ever
  unpickled.
- Shapes are checked against the configuration before a tensor is read, so memory follows the
  checked configuration, not the file's claims. Every tensor of the file has a place in the model.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path, PureWindowsPath

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError, safe_open

from pagedviz.model.config import LlamaConfig
from pagedviz.model.errors import CheckpointInvalid, ConfigUnsupported, ModelError
from pagedviz.model.tokenizer import Tokenizer
from pagedviz.model.transformer import LanguageModel, LayerWeights, Weights

Array = NDArray[np.float32]
WEIGHTS, INDEX = "model.safetensors", "model.safetensors.index.json"
MAX_JSON_BYTES = 50_000_000
# Little-endian as the format demands. NumPy has no bfloat16: it is the upper half of a float32.
DTYPES = {"F32": "<f4", "F16": "<f2", "BF16": "<u2"}


def load_model(folder: str | Path) -> LanguageModel:
    """Load a Hugging Face folder, all weights as float32; raises `ModelError`."""
    folder = Path(folder)
    try:
        if not folder.is_dir():
            raise CheckpointInvalid(f"there is no model folder {folder}.")
        config = LlamaConfig.from_dict(_read_object(folder / "config.json", ConfigUnsupported))
        weights = _read_weights(_Tensors.of_folder(folder), config)
        has_tokenizer = (folder / "tokenizer.json").is_file()
        tokenizer = Tokenizer.load(folder / "tokenizer.json") if has_tokenizer else None
    except OSError as error:
        raise CheckpointInvalid(f"{folder} cannot be read: {error}.") from error
    return LanguageModel(config, weights, tokenizer)


def load_tiny() -> LanguageModel:
    """Load the small trained model that comes with the package."""
    return load_model(Path(__file__).parent / "tiny")


@dataclass(frozen=True)
class _Stored:
    """Where one tensor lies: bytes `start` to `start + count * itemsize` of `path`."""

    path: Path
    dtype: str
    shape: tuple[int, ...]
    start: int


class _Tensors:
    """The tensors of a folder by name. `take` reads one; `check_all_taken` names leftovers."""

    def __init__(self, stored: dict[str, _Stored]) -> None:
        self._stored = stored
        self._taken: set[str] = set()

    @classmethod
    def of_folder(cls, folder: Path) -> "_Tensors":
        stored: dict[str, _Stored] = {}
        for path in _weight_files(folder):
            for name, tensor in _read_header(path):
                if name in stored:
                    raise CheckpointInvalid(
                        f"tensor {name} is in {stored[name].path.name} and in {path.name}."
                    )
                stored[name] = tensor
        return cls(stored)

    def take(self, name: str, *shape: int) -> Array:
        """Read `name` as float32; it must exist and have exactly `shape`."""
        tensor = self._stored.get(name)
        if tensor is None:
            raise CheckpointInvalid(f"the weights have no tensor {name}, which config.json needs.")
        if tensor.shape != shape:
            raise CheckpointInvalid(
                f"tensor {name} in {tensor.path.name} is {list(tensor.shape)}; config.json makes "
                f"it {list(shape)}."
            )
        if tensor.dtype not in DTYPES:
            raise CheckpointInvalid(
                f"tensor {name} in {tensor.path.name} is {tensor.dtype}; only F32, F16 and BF16 "
                "can be read."
            )
        self._taken.add(name)
        raw = np.fromfile(
            tensor.path, DTYPES[tensor.dtype], count=int(np.prod(shape)), offset=tensor.start
        ).reshape(shape)
        if tensor.dtype == "BF16":
            raw = (raw.astype(np.uint32) << 16).view(np.float32)
        return raw.astype(np.float32, copy=False)

    def check_all_taken(self, allowed: set[str]) -> None:
        """Refuse tensors without a place: leaving out, say, a bias computes another model."""
        for name in self._stored:
            # Old checkpoints store the rotary frequencies, which follow from config.json.
            if not (name in self._taken | allowed or name.endswith("rotary_emb.inv_freq")):
                raise CheckpointInvalid(
                    f"tensor {name[:120]} has no place in the model that config.json describes."
                )


def _read_weights(tensors: _Tensors, config: LlamaConfig) -> Weights:
    d, ff, vocab = config.hidden_size, config.intermediate_size, config.vocab_size
    q_rows, kv_rows = config.num_heads * config.head_dim, config.num_kv_heads * config.head_dim

    def layer(index: int) -> LayerWeights:
        name = f"model.layers.{index}"
        attention, mlp = f"{name}.self_attn", f"{name}.mlp"
        qkv = (
            tensors.take(f"{attention}.q_proj.weight", q_rows, d),
            tensors.take(f"{attention}.k_proj.weight", kv_rows, d),
            tensors.take(f"{attention}.v_proj.weight", kv_rows, d),
        )
        gate_up = (
            tensors.take(f"{mlp}.gate_proj.weight", ff, d),
            tensors.take(f"{mlp}.up_proj.weight", ff, d),
        )
        return LayerWeights(
            attention_norm=tensors.take(f"{name}.input_layernorm.weight", d),
            qkv=_in_out(*qkv),
            output=_in_out(tensors.take(f"{attention}.o_proj.weight", d, q_rows)),
            mlp_norm=tensors.take(f"{name}.post_attention_layernorm.weight", d),
            gate_up=_in_out(*gate_up),
            down=_in_out(tensors.take(f"{mlp}.down_proj.weight", d, ff)),
        )

    embedding = tensors.take("model.embed_tokens.weight", vocab, d)
    tied = config.tie_word_embeddings
    weights = Weights(
        embedding=embedding,
        layers=tuple(layer(index) for index in range(config.num_layers)),
        final_norm=tensors.take("model.norm.weight", d),
        # A tied head stays a view: one copy of the largest matrix is enough.
        head=embedding.T if tied else _in_out(tensors.take("lm_head.weight", vocab, d)),
    )
    tensors.check_all_taken({"lm_head.weight"} if tied else set())
    return weights


def _in_out(*stored: Array) -> Array:
    """Matrices [out, in] of one input, as one contiguous [in, sum of outs]."""
    return np.ascontiguousarray(np.concatenate(stored).T)


def _weight_files(folder: Path) -> list[Path]:
    if (folder / WEIGHTS).exists():
        return [folder / WEIGHTS]
    if (folder / INDEX).exists():
        return _indexed_files(folder)
    found = sorted(folder.glob("*.safetensors"))
    if found:
        return found
    if any(folder.glob("*.bin")) or any(folder.glob("*.pt*")):
        raise CheckpointInvalid(
            f"{folder} has only pickled weights, which are never opened because they can run code; "
            "convert them to model.safetensors."
        )
    raise CheckpointInvalid(f"{folder} has no weights: no {WEIGHTS}, no {INDEX}.")


def _indexed_files(folder: Path) -> list[Path]:
    weight_map = _read_object(folder / INDEX, CheckpointInvalid).get("weight_map")
    if not isinstance(weight_map, dict) or not weight_map:
        raise CheckpointInvalid(f"{INDEX} has no weight_map from tensor names to files.")
    for name in weight_map.values():
        # A name, not a path in any spelling: an index must not make us open files elsewhere.
        if not isinstance(name, str) or PureWindowsPath(name).name != name:
            raise CheckpointInvalid(f"{INDEX} names {str(name)[:120]!r}, which is no file name.")
        if not name.endswith(".safetensors"):
            raise CheckpointInvalid(f"{INDEX} names {name[:120]}, which is not .safetensors.")
        if not (folder / name).is_file():
            raise CheckpointInvalid(f"{INDEX} names {name[:120]}, which is not in {folder}.")
    return [folder / name for name in sorted(set(weight_map.values()))]


def _read_header(path: Path) -> Iterator[tuple[str, _Stored]]:
    try:
        # The library checks the whole layout: lengths, overlaps, holes, a truncated end.
        with safe_open(path, framework="numpy"):
            pass
    except SafetensorError as error:
        raise CheckpointInvalid(
            f"{path.name} is not a whole safetensors file ({error}); copy or download it again."
        ) from error
    with path.open("rb") as file:
        length = int.from_bytes(file.read(8), "little")
        header = json.loads(file.read(length))
    for name, entry in header.items():
        if name != "__metadata__":
            start = 8 + length + entry["data_offsets"][0]
            yield name, _Stored(path, entry["dtype"], tuple(entry["shape"]), start)


def _read_object(path: Path, kind: type[ModelError]) -> dict[str, object]:
    if not path.is_file():
        raise kind(f"{path.parent} has no {path.name}: a model folder needs one.")
    if path.stat().st_size > MAX_JSON_BYTES:
        raise kind(f"{path.name} has {path.stat().st_size:,} bytes; that is no {path.name}.")
    try:
        value = json.loads(path.read_bytes())
    except (ValueError, RecursionError) as error:
        raise kind(f"{path.name} is not valid JSON: {error}.") from error
    if not isinstance(value, dict):
        raise kind(f"{path.name} must hold a JSON object, not {type(value).__name__}.")
    return value
