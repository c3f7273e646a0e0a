"""The parts of a Llama block that look at one token at a time: RMSNorm, rotary positions, SwiGLU.

Invariants:
- Everything is float32 and works on all tokens of a step at once; T is their number.
- Heads are rotated in halves (dimension i pairs with i + D/2), as Hugging Face checkpoints store
  them; the paper's neighbouring pairs would need permuted q and k weights.
"""

import math

import numpy as np
from numpy.typing import NDArray

from pagedviz.model.config import Rope

Array = NDArray[np.float32]


def rms_norm(x: Array, weight: Array, eps: float) -> Array:
    """Scale each row of `x` [T, d] to root mean square 1, then by `weight` [d] (Zhang 2019)."""
    mean_square = np.vecdot(x, x)[:, None] / np.float32(x.shape[-1])  # [T, 1]
    normed: Array = x * weight / np.sqrt(mean_square + np.float32(eps))
    return normed


def swiglu(gate_up: Array) -> Array:
    """`silu(gate) * up` for `gate_up` [T, 2 * ff] with the gate in the first half: [T, ff]."""
    half = gate_up.shape[-1] // 2
    gate, up = gate_up[:, :half], gate_up[:, half:]
    # exp may overflow to infinity for very negative gates, and x / inf = 0 is the right silu.
    with np.errstate(over="ignore"):
        decay: Array = np.exp(-gate)
    return gate * up / (np.float32(1) + decay)


def rope_frequencies(head_dim: int, rope: Rope) -> Array:
    """Angle per position of each dimension pair, [D/2] radians: theta ** (-2i / D) (Su 2021).

    With `rope.llama3` the Llama 3.1 rule is applied: waves longer than the original context are
    slowed down by `factor`, short ones stay, those between are interpolated. Computed in float32
    like the reference, so that far positions get the same angles.
    """
    exponents = np.arange(0, head_dim, 2, dtype=np.float32) / np.float32(head_dim)  # [D/2]
    frequencies: Array = np.float32(1) / np.float32(rope.theta) ** exponents
    scaling = rope.llama3
    if scaling is None:
        return frequencies
    # How often each wave fits into the context the model was first trained with.
    turns = np.float32(scaling.original_context / (2 * math.pi)) * frequencies  # [D/2]
    low, high = scaling.low_turns, scaling.high_turns
    keep: Array = np.clip((turns - np.float32(low)) / np.float32(high - low), 0, 1)  # [D/2]
    return keep * frequencies + (1 - keep) * (frequencies / np.float32(scaling.factor))


def rope_cos_sin(positions: NDArray[np.int64], frequencies: Array) -> tuple[Array, Array]:
    """Factors of `rotate` for tokens at `positions` [T]: [T, 1, D] each (the 1: all heads)."""
    angles = positions.astype(np.float32)[:, None, None] * frequencies  # [T, 1, D/2]
    cos, sin = np.cos(angles), np.sin(angles)
    return np.concatenate((cos, cos), axis=-1), np.concatenate((-sin, sin), axis=-1)


def rotate(heads: Array, cos: Array, sin: Array) -> Array:
    """Turn each pair (a, b) of `heads` [T, H, D] to (a cos - b sin, b cos + a sin)."""
    half = heads.shape[-1] // 2
    turned = np.concatenate((heads[..., half:], heads[..., :half]), axis=-1)  # pairs swapped
    turned *= sin
    turned += heads * cos
    return turned
