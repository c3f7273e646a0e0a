"""Errors of the model layer: what is wrong with a model's or an adapter's folder or with a call, in
one sentence each.

ModelError
├── ConfigUnsupported   config.json or adapter_config.json is not what this package can compute
├── CheckpointInvalid   weights or tokenizer are missing, unreadable or do not fit the config
└── BadModelInput       a call whose tokens, lengths, page tables or adapter do not fit the model
"""


class ModelError(Exception):
    """Base of all errors that `pagedviz.model` raises; the message is fit for a user."""


class ConfigUnsupported(ModelError):
    """config.json or adapter_config.json is missing, malformed, or describes a model outside the
    supported family, or more than plain LoRA on the attention projections."""


class CheckpointInvalid(ModelError):
    """The weights or the tokenizer cannot be read or do not fit their configuration."""


class BadModelInput(ModelError):
    """Token ids, lengths, page tables or arrays of a call do not fit the model."""
