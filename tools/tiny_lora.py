"""Low-rank adapters on the attention projections of the decoder in PyTorch, in PEFT's format.

Invariants: only the two small matrices of each projection are trained, the base weights are
frozen; at the start B is zero, so the adapter changes nothing; what is written is what PEFT writes:
names, shapes and `adapter_config.json`.
"""

from __future__ import annotations

import json
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file
from tiny_torch import TinyLlama
from torch import Tensor, nn

RANK, ALPHA = 8, 16
PROJECTIONS = ("q_proj", "k_proj", "v_proj", "o_proj")


class LoraLinear(nn.Module):
    """y = W x + alpha / r * B (A x) (Hu 2021), W frozen."""

    def __init__(self, base: nn.Linear) -> None:
        super().__init__()
        self.base = base
        self.lora_A = nn.Parameter(torch.empty(RANK, base.in_features))
        self.lora_B = nn.Parameter(torch.zeros(base.out_features, RANK))
        nn.init.kaiming_uniform_(self.lora_A, a=5**0.5)

    def forward(self, x: Tensor) -> Tensor:
        return self.base(x) + ALPHA / RANK * (x @ self.lora_A.T @ self.lora_B.T)


def with_adapter(folder: Path) -> TinyLlama:
    """The checked-in decoder, frozen, with a fresh adapter on every attention projection."""
    net = TinyLlama()
    net.load_state_dict({k: v.float() for k, v in load_file(folder / "model.safetensors").items()})
    net.requires_grad_(False)
    for layer in net.model.layers:
        for name in PROJECTIONS:
            setattr(layer.self_attn, name, LoraLinear(getattr(layer.self_attn, name)))
    return net


def save_adapter(net: TinyLlama, folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    tensors = {}
    for index, layer in enumerate(net.model.layers):
        for name in PROJECTIONS:
            lora = getattr(layer.self_attn, name)
            prefix = f"base_model.model.model.layers.{index}.self_attn.{name}"
            tensors[f"{prefix}.lora_A.weight"] = lora.lora_A.detach().half().contiguous()
            tensors[f"{prefix}.lora_B.weight"] = lora.lora_B.detach().half().contiguous()
    save_file(tensors, str(folder / "adapter_model.safetensors"), metadata={"format": "pt"})
    config = {
        "base_model_name_or_path": "pagedviz/model/tiny",
        "bias": "none",
        "fan_in_fan_out": False,
        "inference_mode": True,
        "init_lora_weights": True,
        "lora_alpha": ALPHA,
        "lora_dropout": 0.0,
        "modules_to_save": None,
        "peft_type": "LORA",
        "r": RANK,
        "target_modules": list(PROJECTIONS),
        "task_type": "CAUSAL_LM",
        "use_dora": False,
        "use_rslora": False,
    }
    (folder / "adapter_config.json").write_text(json.dumps(config, indent=2) + "\n")
