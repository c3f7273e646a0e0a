"""Load a LoRA adapter in PEFT's format: `adapter_config.json` and `adapter_model.safetensors`.

Invariants:
- An `Adapter` that exists is computed exactly as PEFT computes it; whatever in the configuration
  would change that is refused, never ignored, even if it is a key that PEFT has yet to invent.
- Every shape is checked against the model and the rank before a tensor is read; every tensor of the
  file has a place. Pickled weights are never opened.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from pagedviz.model.adapter import Adapter, AdapterLayer, Array, LowRank
from pagedviz.model.config import LlamaConfig
from pagedviz.model.errors import CheckpointInvalid, ConfigUnsupported
from pagedviz.model.json_fields import flag, integer, positive, short
from pagedviz.model.tensor_files import TensorFiles, read_object
from pagedviz.model.transformer import LanguageModel

CONFIG, WEIGHTS, PICKLED = "adapter_config.json", "adapter_model.safetensors", "adapter_model.bin"
PROJECTIONS = ("q_proj", "k_proj", "v_proj", "o_proj")
MAX_RANK = 1024
MAX_BYTES = 500_000_000

# Read below, or of no effect on what is computed: names, training, parts that other keys switch on.
_READ = {"bias", "init_lora_weights", "lora_alpha", "peft_type", "r", "target_modules"}
_READ |= {"use_rslora"}
_HARMLESS = {
    "auto_mapping",
    "base_model_name_or_path",
    "inference_mode",
    "lora_dropout",
    "megatron_core",
    "peft_version",
    "qalora_group_size",
    "revision",
    "runtime_config",
    "task_type",
}
# Others (PiSSA, OLoRA, ...) change the base weights too, which the adapter's file does not tell.
_PLAIN_INITS = (None, True, False, "gaussian")


@dataclass(frozen=True)
class _LoraConfig:
    rank: int
    scaling: float
    projections: tuple[str, ...]


def load_adapter(folder: str | Path, model: LanguageModel) -> Adapter:
    """Load the adapter in `folder` for `model`, as float32.

    Raises `ConfigUnsupported` for a configuration that is malformed or asks for more than LoRA on
    the attention projections, and `CheckpointInvalid` for weights that are missing, unreadable or
    do not fit it and the model.
    """
    folder = Path(folder)
    try:
        if not folder.is_dir():
            raise CheckpointInvalid(f"there is no adapter folder {folder}.")
        config = _read_config(read_object(folder / CONFIG, ConfigUnsupported))
        return _read_weights(_weight_file(folder), config, model.config)
    except OSError as error:
        raise CheckpointInvalid(f"{folder} cannot be read: {error}.") from error


def _read_config(raw: Mapping[str, object]) -> _LoraConfig:
    if raw.get("peft_type") != "LORA":
        raise ConfigUnsupported(
            f"peft_type is {short(raw.get('peft_type'))}; only 'LORA' adapters are supported."
        )
    if raw.get("bias", "none") != "none":
        raise ConfigUnsupported(
            f"bias is {short(raw['bias'])}; only adapters that train no biases ('none') are "
            "supported."
        )
    for name, value in raw.items():
        # Everything PEFT can do besides plain LoRA is off when its key is empty; 0 is a layer.
        is_off = value is None or value is False or value in ("", [], {})
        if name not in _READ | _HARMLESS and not is_off:
            raise ConfigUnsupported(
                f"{CONFIG} has {name[:60]} = {short(value)}; only plain LoRA is supported."
            )
    if raw.get("init_lora_weights") not in _PLAIN_INITS:
        raise ConfigUnsupported(
            f"init_lora_weights is {short(raw['init_lora_weights'])}, which may have changed the "
            "base weights too; convert the adapter to plain LoRA."
        )
    rank = integer(raw, "r", 1, MAX_RANK)
    alpha = positive(raw, "lora_alpha")
    # rsLoRA (Kalajdzievski 2023) divides by sqrt(r), so that large ranks do not learn more slowly.
    scaling = alpha / math.sqrt(rank) if flag(raw, "use_rslora") else alpha / rank
    return _LoraConfig(rank, scaling, _target_projections(raw.get("target_modules")))


def _target_projections(targets: object) -> tuple[str, ...]:
    if not isinstance(targets, list) or not targets:
        raise ConfigUnsupported(
            f"target_modules must be a list of {', '.join(PROJECTIONS)}, not {short(targets)}."
        )
    for name in targets:
        if name not in PROJECTIONS:
            raise ConfigUnsupported(
                f"target_modules has {short(name)}; only the attention projections "
                f"{', '.join(PROJECTIONS)} are supported."
            )
    return tuple(name for name in PROJECTIONS if name in targets)


def _weight_file(folder: Path) -> Path:
    path = folder / WEIGHTS
    if not path.exists():
        if (folder / PICKLED).exists():
            raise CheckpointInvalid(
                f"{folder} has only {PICKLED}, a pickle, which is never opened because it can run "
                f"code; convert it to {WEIGHTS}."
            )
        raise CheckpointInvalid(f"{folder} has no {WEIGHTS}, which is needed.")
    if path.stat().st_size > MAX_BYTES:
        raise CheckpointInvalid(
            f"{WEIGHTS} has {path.stat().st_size:,} bytes; the limit is {MAX_BYTES:,}."
        )
    return path


def _read_weights(path: Path, lora: _LoraConfig, model: LlamaConfig) -> Adapter:
    tensors = TensorFiles([path], CONFIG)
    d, heads = model.hidden_size, model.num_heads * model.head_dim
    kv = model.num_kv_heads * model.head_dim
    sizes = {"q_proj": (d, heads), "k_proj": (d, kv), "v_proj": (d, kv), "o_proj": (heads, d)}

    def take(name: str, rows: int, columns: int) -> Array:
        tensor = tensors.take(name, rows, columns)
        if not np.isfinite(tensor).all():
            raise CheckpointInvalid(
                f"tensor {name} in {path.name} holds numbers that are not finite; nothing can be "
                "computed with them."
            )
        return tensor

    def pair(layer: int, name: str) -> LowRank | None:
        if name not in lora.projections:
            return None
        stem = f"base_model.model.model.layers.{layer}.self_attn.{name}"
        wide, out = sizes[name]
        down = take(f"{stem}.lora_A.weight", lora.rank, wide)
        up = take(f"{stem}.lora_B.weight", out, lora.rank)
        return LowRank(np.ascontiguousarray(down.T), np.ascontiguousarray(up.T))

    def layer(index: int) -> AdapterLayer:
        qkv = [pair(index, name) for name in ("q_proj", "k_proj", "v_proj")]
        return AdapterLayer(_side_by_side(qkv, [heads, kv, kv]), pair(index, "o_proj"))

    layers = tuple(layer(index) for index in range(model.num_layers))
    tensors.check_all_taken(lambda _name: False)
    return Adapter(lora.rank, lora.scaling, lora.projections, layers)


def _side_by_side(pairs: list[LowRank | None], outs: list[int]) -> LowRank | None:
    """Changes of one input as one change; `outs` are the widths of their outputs."""
    there = [pair for pair in pairs if pair is not None]
    if not there:
        return None
    up: Array = np.zeros((sum(pair.up.shape[0] for pair in there), sum(outs)), dtype=np.float32)
    row = column = 0
    for pair, out in zip(pairs, outs, strict=True):
        if pair is not None:
            rank = pair.up.shape[0]
            up[row : row + rank, column : column + out] = pair.up
            row += rank
        column += out
    return LowRank(np.concatenate([pair.down for pair in there], axis=1), up)  # down [in, R]
