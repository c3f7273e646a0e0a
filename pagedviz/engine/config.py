"""Settings of the engine: checked once, frozen ever after."""

from __future__ import annotations

from dataclasses import dataclass

from pagedviz.engine.errors import ConfigError

# Far above anything a screen can show; a typing slip must not allocate gigabytes.
MAX_PAGES = 1 << 20
MAX_BLOCK_SIZE = 1 << 16
PREEMPTIONS = ("recompute", "swap", "abort")


def check_int(name: str, value: object, minimum: int, maximum: int | None = None) -> None:
    """Raise ConfigError unless `value` is an integer in [minimum, maximum]."""
    if not isinstance(value, int) or isinstance(value, bool):
        raise ConfigError(f"{name} must be a whole number, got {value!r}")
    if value < minimum:
        raise ConfigError(f"{name} must be at least {minimum}, got {value}")
    if maximum is not None and value > maximum:
        raise ConfigError(f"{name} must be at most {maximum}, got {value}")


@dataclass(frozen=True, slots=True)
class EngineConfig:
    """How one engine pages and schedules.

    num_pages: pages of the pool. block_size: slots of a page.
    max_running: most sequences running at once. max_tokens_per_step: token budget of a step.
    chunk_size: most tokens of one prompt in one step; None = as many as the budget allows.
    full_prompt_gate: admit a sequence only when all its known tokens fit now.
    watermark: fraction of `num_pages + 1` kept free at admissions while something runs
    (the one more is vLLM's null block, so that a fraction means the same pages in both).
    max_seq_len: most tokens of a sequence, prompt included; None = no limit.
    reject_impossible: refuse at submit what can never fit; off for replays of recorded
    workloads, where the stall itself is the behaviour to reproduce.
    preemption: what becomes of a victim: `recompute` keeps its tokens and computes them again,
    `swap` copies its K/V to the host and back (and recomputes when the host has no room), `abort`
    ends it. host_pages: pages of the host pool, for `swap`.
    """

    num_pages: int
    block_size: int = 16
    max_running: int = 64
    max_tokens_per_step: int = 512
    prefix_caching: bool = True
    full_prompt_gate: bool = True
    watermark: float = 0.0
    chunk_size: int | None = None
    max_seq_len: int | None = None
    reject_impossible: bool = True
    preemption: str = "recompute"
    host_pages: int = 0

    def __post_init__(self) -> None:
        check_int("num_pages", self.num_pages, 1, MAX_PAGES)
        check_int("block_size", self.block_size, 1, MAX_BLOCK_SIZE)
        check_int("max_running", self.max_running, 1)
        check_int("max_tokens_per_step", self.max_tokens_per_step, 1)
        if self.chunk_size is not None:
            check_int("chunk_size", self.chunk_size, 1)
        if self.max_seq_len is not None:
            check_int("max_seq_len", self.max_seq_len, 2)
        for name in ("prefix_caching", "full_prompt_gate", "reject_impossible"):
            if not isinstance(getattr(self, name), bool):
                raise ConfigError(f"{name} must be true or false, got {getattr(self, name)!r}")
        if self.preemption not in PREEMPTIONS:
            raise ConfigError(
                f"preemption must be one of {', '.join(PREEMPTIONS)}, got {self.preemption!r}"
            )
        check_int("host_pages", self.host_pages, 0, MAX_PAGES)
        if self.preemption == "swap" and not self.host_pages:
            raise ConfigError("preemption by swap needs host_pages of at least 1, got 0")
        if isinstance(self.watermark, bool) or not isinstance(self.watermark, int | float):
            raise ConfigError(f"watermark must be a number, got {self.watermark!r}")
        if not 0 <= self.watermark < 1:
            raise ConfigError(f"watermark must be in [0, 1), got {self.watermark}")

    @property
    def watermark_pages(self) -> int:
        """Pages kept free at admissions while something runs."""
        return int(self.watermark * (self.num_pages + 1))
