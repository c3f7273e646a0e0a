"""Read a Hugging Face `config.json` into the few numbers a Llama-family decoder needs.

Invariants:
- A `LlamaConfig` that exists is one this package computes exactly; anything else in the file
  (biases, other activations, other rope rules) is refused, never ignored.
- Both spellings are understood: `rope_parameters` (transformers 5) and `rope_theta` with
  `rope_scaling` (transformers 4).
- Every size is bounded here, before anything is allocated for it.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from pagedviz.model.errors import ConfigUnsupported
from pagedviz.model.json_fields import flag, integer, positive

SUPPORTED = "LlamaForCausalLM"
MAX_PARAMETERS = 2_000_000_000  # 8 GB as float32


@dataclass(frozen=True)
class Llama3Scaling:
    """Llama 3.1's stretching of rotary waves; turns are counted over `original_context` tokens."""

    factor: float
    low_turns: float
    high_turns: float
    original_context: int


@dataclass(frozen=True)
class Rope:
    """Rotary position embedding: base `theta`, stretched for long contexts if `llama3` is given."""

    theta: float
    llama3: Llama3Scaling | None = None


@dataclass(frozen=True)
class LlamaConfig:
    """Shape and constants of one decoder; `num_heads` counts query heads."""

    vocab_size: int
    hidden_size: int
    intermediate_size: int
    num_layers: int
    num_heads: int
    num_kv_heads: int
    head_dim: int
    max_position_embeddings: int
    rms_norm_eps: float
    rope: Rope
    tie_word_embeddings: bool
    eos_token_ids: tuple[int, ...]

    @property
    def num_parameters(self) -> int:
        """Numbers in all weight matrices and norms, a tied head counted once."""
        d, head_rows = self.hidden_size, self.num_heads + 2 * self.num_kv_heads
        attention = d * self.head_dim * (head_rows + self.num_heads)
        layer = attention + 3 * d * self.intermediate_size + 2 * d
        ends = self.vocab_size * d * (1 if self.tie_word_embeddings else 2) + d
        return self.num_layers * layer + ends

    @classmethod
    def from_dict(cls, raw: Mapping[str, object]) -> "LlamaConfig":
        """Read the parsed `config.json`; raises `ConfigUnsupported` on what cannot be computed."""
        _check_family(raw)
        hidden_size = integer(raw, "hidden_size", 1, 65_536)
        num_heads = integer(raw, "num_attention_heads", 1, 1024)
        num_kv_heads = integer(raw, "num_key_value_heads", 1, 1024, default=num_heads)
        if num_heads % num_kv_heads:
            raise ConfigUnsupported(
                f"num_attention_heads is {num_heads}, which num_key_value_heads, {num_kv_heads}, "
                "does not divide: each KV head must serve the same number of query heads."
            )
        if raw.get("head_dim") is None and hidden_size % num_heads:
            raise ConfigUnsupported(
                f"config.json has no head_dim, and hidden_size {hidden_size} cannot be split over "
                f"{num_heads} heads."
            )
        head_dim = integer(raw, "head_dim", 2, 4096, default=max(2, hidden_size // num_heads))
        if head_dim % 2:
            raise ConfigUnsupported(
                f"head_dim is {head_dim}, but rotary positions need pairs: an even head_dim."
            )
        context = integer(raw, "max_position_embeddings", 1, 100_000_000, default=2048)
        vocab_size = integer(raw, "vocab_size", 1, 10_000_000)
        config = cls(
            vocab_size=vocab_size,
            hidden_size=hidden_size,
            intermediate_size=integer(raw, "intermediate_size", 1, 1_000_000),
            num_layers=integer(raw, "num_hidden_layers", 1, 1024),
            num_heads=num_heads,
            num_kv_heads=num_kv_heads,
            head_dim=head_dim,
            max_position_embeddings=context,
            rms_norm_eps=positive(raw, "rms_norm_eps", default=1e-6),
            rope=_rope(raw),
            tie_word_embeddings=flag(raw, "tie_word_embeddings"),
            eos_token_ids=_eos(raw, vocab_size),
        )
        if config.num_parameters > MAX_PARAMETERS:
            raise ConfigUnsupported(
                f"config.json describes {config.num_parameters:,} weights; the limit is "
                f"{MAX_PARAMETERS:,} ({4 * MAX_PARAMETERS // 10**9} GB as float32)."
            )
        return config


def _check_family(raw: Mapping[str, object]) -> None:
    named = raw.get("architectures")
    if isinstance(named, list) and named:
        found = ", ".join(str(name) for name in named)
    else:
        found = SUPPORTED if raw.get("model_type") == "llama" else str(raw.get("model_type"))
    if found != SUPPORTED:
        raise ConfigUnsupported(
            f"config.json describes {found[:80]}; this package computes {SUPPORTED} only."
        )
    activation = raw.get("hidden_act", "silu")
    if activation != "silu":
        raise ConfigUnsupported(f"hidden_act is {activation!r}; only 'silu' is supported.")
    for name in ("attention_bias", "mlp_bias"):
        if flag(raw, name):
            raise ConfigUnsupported(f"{name} is true; only models without biases are supported.")
    if raw.get("quantization_config") is not None:
        raise ConfigUnsupported(
            "config.json has a quantization_config; only f32, f16 and bf16 weights are supported."
        )


def _rope(raw: Mapping[str, object]) -> Rope:
    # transformers 5 moved rope_theta and rope_scaling into one object.
    name = "rope_parameters" if raw.get("rope_parameters") is not None else "rope_scaling"
    rules = raw.get(name)
    if rules is None:
        rules = {}
    if not isinstance(rules, dict):
        raise ConfigUnsupported(f"{name} must be an object, not {rules!r}.")
    source = rules if "rope_theta" in rules else raw
    theta = positive(source, "rope_theta", default=10_000.0)
    kind = rules.get("rope_type", rules.get("type", "default"))  # "type" in old files
    for holder in (raw, rules):
        if holder.get("partial_rotary_factor") not in (None, 1, 1.0):
            raise ConfigUnsupported(
                f"partial_rotary_factor is {holder['partial_rotary_factor']!r}; only whole heads "
                "are rotated (1.0)."
            )
    if kind == "default":
        return Rope(theta)
    if kind != "llama3":
        raise ConfigUnsupported(
            f"the rope type is {kind!r}; only 'default' and 'llama3' are supported."
        )
    scaling = Llama3Scaling(
        factor=positive(rules, "factor"),
        low_turns=positive(rules, "low_freq_factor"),
        high_turns=positive(rules, "high_freq_factor"),
        original_context=integer(rules, "original_max_position_embeddings", 1, 100_000_000),
    )
    if scaling.high_turns <= scaling.low_turns:
        raise ConfigUnsupported(
            f"high_freq_factor {scaling.high_turns} must be greater than low_freq_factor "
            f"{scaling.low_turns}."
        )
    return Rope(theta, scaling)


def _eos(raw: Mapping[str, object], vocab_size: int) -> tuple[int, ...]:
    value = raw.get("eos_token_id")
    ids = [] if value is None else value if isinstance(value, list) else [value]
    for token_id in ids:
        if type(token_id) is not int or not 0 <= token_id < vocab_size:
            raise ConfigUnsupported(
                f"eos_token_id is {value!r}; expected ids from 0 to {vocab_size - 1}, a list of "
                "them, or null."
            )
    return tuple(ids)
