"""The transformer: a NumPy decoder of the Llama family over paged keys and values.

Invariants:
- Knows pages only as an array and a table of indices; never imports the engine.
- Every error is a `ModelError` whose message is fit for a user.
"""

from pagedviz.model.adapter import Adapter
from pagedviz.model.adapter_files import load_adapter
from pagedviz.model.checkpoint import load_model, load_tiny
from pagedviz.model.config import LlamaConfig
from pagedviz.model.errors import (
    BadModelInput,
    CheckpointInvalid,
    ConfigUnsupported,
    ModelError,
)
from pagedviz.model.logits import dense_logits, paged_logits
from pagedviz.model.tokenizer import Tokenizer
from pagedviz.model.transformer import LanguageModel

__all__ = [
    "Adapter",
    "BadModelInput",
    "CheckpointInvalid",
    "ConfigUnsupported",
    "LanguageModel",
    "LlamaConfig",
    "ModelError",
    "Tokenizer",
    "dense_logits",
    "load_adapter",
    "load_model",
    "load_tiny",
    "paged_logits",
]
