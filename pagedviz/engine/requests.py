"""Whether a request can be answered at all, asked before anything is changed for it."""

from __future__ import annotations

from collections.abc import Sequence as SequenceOf

from pagedviz.engine.config import EngineConfig, check_int
from pagedviz.engine.errors import ConfigError
from pagedviz.engine.language_model import LanguageModel
from pagedviz.engine.prefix_hash import MAX_TOKEN_ID
from pagedviz.engine.sequence import check_token_ids


def check_request(
    model: LanguageModel | None,
    max_seq_len: int | None,
    prompt_ids: SequenceOf[int],
    max_new_tokens: int,
    forced_ids: SequenceOf[int] | None,
) -> None:
    """ConfigError for an empty prompt, an unknown token, or a prompt that fills the context."""
    if not len(prompt_ids):
        raise ConfigError("the prompt is empty: at least one token is needed")
    check_int("max_new_tokens", max_new_tokens, 1)
    limit = MAX_TOKEN_ID + 1 if model is None else model.vocab_size
    check_token_ids("prompt", prompt_ids, limit)
    if max_seq_len is not None and len(prompt_ids) >= max_seq_len:
        raise ConfigError(
            f"the prompt has {len(prompt_ids)} tokens, which leaves no room in a context of "
            f"{max_seq_len}; shorten it to {max_seq_len - 1} or fewer"
        )
    if forced_ids is not None:
        check_token_ids("forced output", forced_ids, limit)
    if model is None and len(forced_ids or ()) < max_new_tokens:
        raise ConfigError(
            f"without a model all {max_new_tokens} output tokens must be given, "
            f"got {len(forced_ids or ())}"
        )


def check_fits(config: EngineConfig, max_seq_len: int | None, max_tokens: int) -> None:
    """ConfigError if a sequence of `max_tokens` tokens could never be held by the pool."""
    if max_seq_len is not None:
        max_tokens = min(max_tokens, max_seq_len)
    # The last sampled token is never computed, so it needs no slot.
    needed = -(-(max_tokens - 1) // config.block_size)
    if config.reject_impossible and needed > config.num_pages:
        raise ConfigError(
            f"the request needs up to {needed} pages of {config.block_size} slots for "
            f"{max_tokens} tokens, the pool has {config.num_pages}; enlarge the "
            "pool, shorten the prompt, or ask for fewer new tokens"
        )
