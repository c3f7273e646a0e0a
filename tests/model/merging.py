"""The oracle of adapters: a model with one merged into its weights, so none is computed."""

from dataclasses import replace

import numpy as np

from pagedviz.model import Adapter, LanguageModel
from pagedviz.model.adapter import LowRank


def merged(model: LanguageModel, adapter: Adapter) -> LanguageModel:
    """W + scaling * B A in every place, once and for all."""

    def add(weight, change: LowRank | None):
        if change is None:
            return weight
        return weight + np.float32(adapter.scaling) * (change.down @ change.up)  # [in, out]

    layers = tuple(
        replace(layer, qkv=add(layer.qkv, lora.qkv), output=add(layer.output, lora.output))
        for layer, lora in zip(model.weights.layers, adapter.layers, strict=True)
    )
    return LanguageModel(model.config, replace(model.weights, layers=layers), model.tokenizer)
