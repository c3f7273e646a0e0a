"""A LoRA adapter: a small change of the attention projections, computed beside them.

    x --+--> W ----------------------> + --> y        y = W x + scaling * B (A x)   (Hu 2021)
        '--> A --> B --> * scaling ----'

Invariants: an adapter never changes after loading, and the weights it goes with are never touched,
so one model computes with many adapters and with none; A and B are float32 [in, out], applied as
`x @ A @ B`, where files store [out, in].
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pagedviz.model.config import LlamaConfig
from pagedviz.model.errors import BadModelInput

Array = NDArray[np.float32]


@dataclass(frozen=True)
class LowRank:
    """One change of rank R, or several side by side that share their input.

    Projections that share an input are stacked as their weights are; the blocks of `up` keep their
    changes apart:    down [in, 2r] = | A_q  A_v |        up [2r, out] = | B_q  0  0   |
                                                                        | 0    0  B_v |
    """

    down: Array  # [in, R]
    up: Array  # [R, out]

    def change(self, x: Array) -> Array:
        """B (A x) for the rows of `x` [T, in]: [T, out]. Never B A: that would be as large as W."""
        narrow: Array = x @ self.down  # [T, R]
        return narrow @ self.up


@dataclass(frozen=True)
class AdapterLayer:
    """The changes in one block; None where the adapter changes nothing."""

    qkv: LowRank | None
    output: LowRank | None


@dataclass(frozen=True)
class Adapter:
    """What `load_adapter` read; `projections` are those that it changes, in every block."""

    rank: int
    scaling: float
    projections: tuple[str, ...]
    layers: tuple[AdapterLayer, ...]

    def check_fits(self, name: str, config: LlamaConfig) -> None:
        """Raises `BadModelInput` if it was loaded for a model of another shape."""
        d, heads = config.hidden_size, config.num_heads * config.head_dim
        qkv = heads + 2 * config.num_kv_heads * config.head_dim
        fits = len(self.layers) == config.num_layers
        for layer in self.layers:
            for change, sizes in ((layer.qkv, (d, qkv)), (layer.output, (heads, d))):
                fits &= change is None or (change.down.shape[0], change.up.shape[1]) == sizes
        if not fits:
            raise BadModelInput(
                f"adapter {name!r} was loaded for a model of another shape than this one, which "
                f"has {config.num_layers} layers of width {d}."
            )
