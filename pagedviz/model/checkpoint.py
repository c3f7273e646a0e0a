"""Load a model folder: `config.json`, `*.safetensors` (sharded too), optional `tokenizer.json`.

Invariants:
- Every failure is a `ModelError` in one sentence that names the file or tensor.
- Nothing is read from outside the folder's own files, whatever an index says, and nothing is ever
  unpickled.
- Shapes are checked against the configuration before a tensor is read, so memory follows the
  checked configuration, not the file's claims. Every tensor of the file has a place in the model.
"""

import re
from collections.abc import Iterable
from pathlib import Path, PureWindowsPath

import numpy as np
from numpy.typing import NDArray

from pagedviz.model.adapter_files import CONFIG as ADAPTER_CONFIG
from pagedviz.model.adapter_files import load_adapter
from pagedviz.model.config import LlamaConfig
from pagedviz.model.errors import BadModelInput, CheckpointInvalid, ConfigUnsupported, ModelError
from pagedviz.model.tensor_files import TensorFiles, read_object
from pagedviz.model.tokenizer import Tokenizer
from pagedviz.model.transformer import LanguageModel, LayerWeights, Weights

Array = NDArray[np.float32]
# A name stands in scenario files, addresses and traces.
_ADAPTER_NAME = re.compile(r"[A-Za-z0-9._-]{1,40}")
MAX_ADAPTERS = 16
WEIGHTS, INDEX = "model.safetensors", "model.safetensors.index.json"


def load_model(folder: str | Path) -> LanguageModel:
    """Load a Hugging Face folder, all weights as float32; raises `ModelError`."""
    folder = Path(folder)
    try:
        if not folder.is_dir():
            raise CheckpointInvalid(f"there is no model folder {folder}.")
        config = LlamaConfig.from_dict(read_object(folder / "config.json", ConfigUnsupported))
        weights = _read_weights(TensorFiles(_weight_files(folder), "config.json"), config)
        has_tokenizer = (folder / "tokenizer.json").is_file()
        tokenizer = Tokenizer.load(folder / "tokenizer.json") if has_tokenizer else None
    except OSError as error:
        raise CheckpointInvalid(f"{folder} cannot be read: {error}.") from error
    return LanguageModel(config, weights, tokenizer)


def load_tiny(more_adapters: Iterable[tuple[str, str | Path]] = ()) -> LanguageModel:
    """Load the small trained model that comes with the package, with its adapters and with those of
    `more_adapters`, name and folder each.

    Raises what `load_adapter` does, with the name in front, and `BadModelInput` for a name that is
    taken or none, or more than MAX_ADAPTERS.
    """
    folder = Path(__file__).parent / "tiny"
    model = load_model(folder)
    adapters = {
        config.parent.name: load_adapter(config.parent, model)
        for config in sorted(folder.glob(f"adapters/*/{ADAPTER_CONFIG}"))
    }
    for number, (name, path) in enumerate(more_adapters, 1):
        if number > MAX_ADAPTERS:
            raise BadModelInput(f"up to {MAX_ADAPTERS} adapters can be added, and here are more.")
        if not _ADAPTER_NAME.fullmatch(name):
            raise BadModelInput(
                f"an adapter cannot be called {name[:60]!r}: give it 1 to 40 letters (a to z), "
                "digits, '-', '_' or '.'."
            )
        if name in adapters:
            raise BadModelInput(
                f"there is an adapter {name!r} already; give this one another name."
            )
        try:
            adapters[name] = load_adapter(path, model)
        except ModelError as error:
            raise type(error)(f"adapter {name!r}: {error}") from error
    return model.with_adapters(adapters)


def _read_weights(tensors: TensorFiles, config: LlamaConfig) -> Weights:
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
    tensors.check_all_taken(
        # Old checkpoints store the rotary frequencies, which follow from config.json.
        lambda name: name.endswith("rotary_emb.inv_freq") or (tied and name == "lm_head.weight")
    )
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
    weight_map = read_object(folder / INDEX, CheckpointInvalid).get("weight_map")
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
