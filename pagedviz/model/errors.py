"""Errors of the model layer: what is wrong with a model folder or a call, in one sentence each.

ModelError
├── ConfigUnsupported   config.json describes something this package cannot compute
├── CheckpointInvalid   weights or tokenizer are missing, unreadable or do not fit config.json
└── BadModelInput       a call whose tokens, lengths or page tables do not fit the model
"""


class ModelError(Exception):
    """Base of all errors that `pagedviz.model` raises; the message is fit for a user."""


class ConfigUnsupported(ModelError):
    """config.json is missing, malformed, or describes a model outside the supported family."""


class CheckpointInvalid(ModelError):
    """The weights or the tokenizer cannot be read or do not fit config.json."""


class BadModelInput(ModelError):
    """Token ids, lengths, page tables or arrays of a call do not fit the model."""
