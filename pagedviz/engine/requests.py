"""Whether a request can be answered at all, asked before anything is changed for it."""

from __future__ import annotations

from collections.abc import Sequence as SequenceOf

from pagedviz.engine.config import EngineConfig, check_int
from pagedviz.engine.errors import ConfigError, IllegalTransition
from pagedviz.engine.language_model import LanguageModel
from pagedviz.engine.prefix_hash import MAX_TOKEN_ID
from pagedviz.engine.sampling import SamplingParams
from pagedviz.engine.sequence import Sequence


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
    check_token_ids("prompt", prompt_ids, token_limit(model))
    if max_seq_len is not None and len(prompt_ids) >= max_seq_len:
        raise ConfigError(
            f"the prompt has {len(prompt_ids)} tokens, which leaves no room in a context of "
            f"{max_seq_len}; shorten it to {max_seq_len - 1} or fewer"
        )
    check_script(model, max_new_tokens, forced_ids)


def check_forks(
    model: LanguageModel | None,
    config: EngineConfig,
    sampling: SamplingParams | None,
    num_samples: int,
    beam_width: int,
) -> None:
    """ConfigError for a number of samples or beams that cannot be run."""
    for name, count in (("num_samples", num_samples), ("beam_width", beam_width)):
        check_int(name, count, 1)
        if count > config.max_running:
            raise ConfigError(
                f"{name} is {count}, but at most {config.max_running} sequences run at once "
                "(max_running)"
            )
    if beam_width == 1:
        return
    if num_samples > 1:
        raise ConfigError(
            f"num_samples is {num_samples} and beam_width {beam_width}: one of them must be 1"
        )
    if model is None:
        raise ConfigError(f"a beam search of width {beam_width} needs a model to rank its beams")
    if sampling is not None and sampling.temperature:
        raise ConfigError(
            f"a beam search does not sample: temperature must be 0, got {sampling.temperature}"
        )


def check_fork(
    model: LanguageModel | None,
    config: EngineConfig,
    parent: Sequence,
    num_running: int,
    forced_ids: SequenceOf[int] | None,
) -> None:
    """ConfigError if a sequence cannot be forked now; IllegalTransition if it has finished."""
    if not parent.is_active:
        raise IllegalTransition(f"{parent.id} has finished and cannot be forked")
    if parent.beams is not None:
        raise ConfigError(
            f"{parent.id} is a beam of a search of width {parent.beams.width}: these fork by "
            "themselves"
        )
    if parent.num_seats > 1:
        raise ConfigError(
            f"{parent.id} becomes {parent.num_seats} samples once its prompt is computed; fork one "
            "of them then"
        )
    if parent.is_running and num_running >= config.max_running:
        raise ConfigError(
            f"{num_running} sequences run, samples to come included, which is the most "
            f"(max_running); fork {parent.id} when one has finished"
        )
    left = parent.max_new_tokens - parent.num_generated
    check_script(model, left, forced_ids)


def check_fork_scripts(
    model: LanguageModel | None,
    max_new_tokens: int,
    num_samples: int,
    forced_forks: SequenceOf[SequenceOf[int]],
) -> None:
    """ConfigError unless the given output tokens of the further samples are tokens, and enough."""
    if len(forced_forks) > num_samples - 1 or (
        model is None and len(forced_forks) < num_samples - 1
    ):
        raise ConfigError(
            f"output tokens are given for {len(forced_forks)} further samples, "
            f"the request has {num_samples - 1}"
        )
    for script in forced_forks:
        check_script(model, max_new_tokens, script)


def check_script(
    model: LanguageModel | None, max_new_tokens: int, forced_ids: SequenceOf[int] | None
) -> None:
    """ConfigError unless output tokens that are given are tokens, and enough without a model."""
    if forced_ids is not None:
        check_token_ids("forced output", forced_ids, token_limit(model))
    if model is None and len(forced_ids or ()) < max_new_tokens:
        raise ConfigError(
            f"without a model all {max_new_tokens} output tokens must be given, "
            f"got {len(forced_ids or ())}"
        )


def token_limit(model: LanguageModel | None) -> int:
    """Token ids are below this."""
    return MAX_TOKEN_ID + 1 if model is None else model.vocab_size


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


def check_token_ids(what: str, token_ids: SequenceOf[int], limit: int) -> None:
    """ConfigError unless all are integers in [0, limit)."""
    for position, token_id in enumerate(token_ids):
        if not isinstance(token_id, int) or isinstance(token_id, bool):
            raise ConfigError(f"{what}: token {position} is {token_id!r}, not a whole number")
        if not 0 <= token_id < limit:
            raise ConfigError(
                f"{what}: token {position} is {token_id}, allowed are 0 to {limit - 1}"
            )
