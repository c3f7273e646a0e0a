"""Scenario: a small workload with a title, read from a TOML file and checked to the last key.

Invariants: a scenario that exists is valid but for what only a model can tell (tokens, context); a
request follows only a request above it, so there are no rings.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from pagedviz.engine.config import EngineConfig
from pagedviz.engine.errors import ConfigError, ScenarioError
from pagedviz.engine.sampling import SamplingParams
from pagedviz.scenarios.tables import Table, show, suggest

FOLDER = Path(__file__).resolve().parent

MAX_FILE_BYTES = 1_000_000
MAX_REQUESTS = 256
MAX_PROMPT_CHARS = 100_000
MAX_PROMPT_TOKENS = 100_000
MAX_STEP = 100_000
MAX_NEW_TOKENS = 100_000
MAX_FORKS = 16
MAX_NAME_CHARS = 40
MAX_TITLE_CHARS = 80
MAX_TEXT_CHARS = 2_000
MAX_LOOK_FOR = 32

SCENARIO_KEYS = ("title", "description", "start_step", "look_for", "engine", "requests")
ENGINE_KEYS = (
    "num_pages",
    "block_size",
    "max_running",
    "max_tokens_per_step",
    "prefix_caching",
    "chunk_size",
    "watermark",
    "full_prompt_gate",
    "preemption",
    "host_pages",
    "profile",
)
SAMPLING_KEYS = ("temperature", "top_k", "top_p", "min_p", "seed")
REQUEST_KEYS = (
    "name",
    "prompt",
    "prompt_ids",
    "max_new_tokens",
    "arrival_step",
    "follows",
    "after",
    "adapter",
    "num_samples",
    "beam_width",
    *SAMPLING_KEYS,
)


class LookFor(NamedTuple):
    """A moment worth a look: what happens in `step`."""

    step: int
    text: str


@dataclass(frozen=True, slots=True)
class Request:
    """One prompt. Exactly one of prompt and prompt_ids is given.

    arrival_step: the step it is submitted before. follows: instead, the name of a request whose
    tokens come before this prompt; it is submitted `after` steps behind the last one of that
    request (1 = the next). adapter: the LoRA adapter it is computed under, None = the model alone.
    num_samples: continuations of the one prompt. beam_width: hypotheses of a beam search.
    """

    name: str
    prompt: str | None
    prompt_ids: tuple[int, ...] | None
    max_new_tokens: int
    arrival_step: int
    follows: str | None
    after: int
    sampling: SamplingParams
    adapter: str | None = None
    num_samples: int = 1
    beam_width: int = 1


@dataclass(frozen=True, slots=True)
class Scenario:
    """A workload with its settings. start_step: the step to look at first.

    table: the tables of its file. overrides: what differs from them, as `apply_settings` takes it.
    """

    name: str
    title: str
    description: str
    start_step: int
    look_for: tuple[LookFor, ...]
    engine: EngineConfig
    requests: tuple[Request, ...]
    table: Mapping[str, Any] = field(compare=False, repr=False)
    overrides: Mapping[str, Any] = field(default_factory=dict, compare=False, repr=False)

    def request(self, name: str) -> Request:
        """Raises KeyError for a name that is not there."""
        for request in self.requests:
            if request.name == name:
                return request
        raise KeyError(name)


def scenario_names() -> tuple[str, ...]:
    """The scenarios that come with the package, the simplest first."""
    return ("growing", "shared_prompt", "burst", "thrash", "swap", "chat", "samples", "adapters")


def load_scenario(name_or_path: str | Path) -> Scenario:
    """A bundled scenario by name, or any file whose name ends in .toml.

    Raises ScenarioError: no such scenario, not readable, not TOML, or a wrong key or value in it.
    """
    path = Path(name_or_path)
    if path.suffix != ".toml":
        name = str(name_or_path)
        if name not in scenario_names():
            raise ScenarioError(
                f"there is no scenario {show(name)}{suggest(name, scenario_names())} "
                "(or the path of a .toml file)"
            )
        return _bundled_scenario(name)
    return _read_scenario(path)


@cache
def _bundled_scenario(name: str) -> Scenario:
    """Read once: a server asks for all of them whenever somebody does something."""
    return _read_scenario(FOLDER / f"{name}.toml")


def _read_scenario(path: Path) -> Scenario:
    try:
        with path.open("rb") as file:
            data = file.read(MAX_FILE_BYTES + 1)
    except OSError as error:
        raise ScenarioError(f"cannot read {path}: {error.strerror}") from None
    except ValueError as error:  # a null character in the name
        raise ScenarioError(f"cannot read {show(str(path))}: {error}") from None
    if len(data) > MAX_FILE_BYTES:
        raise ScenarioError(f"{path} is larger than {MAX_FILE_BYTES} bytes, the most that is read")
    try:
        return parse_scenario(_parse_toml(data), path.stem)
    except ScenarioError as error:
        raise ScenarioError(f"{path.name}: {error}") from None


def _parse_toml(data: bytes) -> Mapping[str, Any]:
    try:
        return tomllib.loads(data.decode("utf-8"))
    except UnicodeDecodeError as error:
        raise ScenarioError(f"byte {error.start} is not UTF-8") from None
    except tomllib.TOMLDecodeError as error:
        raise ScenarioError(f"not TOML: {error}") from None
    except ValueError as error:  # int() refuses numbers of thousands of digits
        raise ScenarioError(f"not TOML: {error}") from None
    except RecursionError:
        raise ScenarioError("not TOML that can be read: it is nested too deeply") from None


def parse_scenario(values: Mapping[str, Any], name: str) -> Scenario:
    """The scenario in the tables of a TOML file. ScenarioError names the table and the key."""
    table = Table("", values, SCENARIO_KEYS)
    return Scenario(
        # The file's name, but a trace must be able to hold it.
        name=name if 0 < len(name) <= MAX_TITLE_CHARS and name.isprintable() else "unnamed",
        title=table.line("title", MAX_TITLE_CHARS),
        description=table.text("description", MAX_TEXT_CHARS),
        start_step=table.whole("start_step", 0, MAX_STEP, default=0),
        look_for=tuple(
            _parse_look_for(number, item)
            for number, item in enumerate(table.list("look_for", MAX_LOOK_FOR, default=[]), 1)
        ),
        engine=_parse_engine(table.take("engine")),
        requests=_parse_requests(table),
        table=values,
    )


def _parse_look_for(number: int, values: object) -> LookFor:
    table = Table(f"look_for {number}", values, ("step", "text"))
    return LookFor(table.whole("step", 0, MAX_STEP), table.line("text", MAX_TEXT_CHARS))


def _parse_engine(values: object) -> EngineConfig:
    table = Table("[engine]", values, ENGINE_KEYS)
    table.take("num_pages")
    settings = {key: table.take(key) for key in ENGINE_KEYS if key in table}
    try:
        return EngineConfig(**settings)
    except ConfigError as error:
        raise ScenarioError(str(error)) from None


def _parse_requests(scenario: Table) -> tuple[Request, ...]:
    items = scenario.list("requests", MAX_REQUESTS)
    if not items:
        raise scenario.error('"requests" is empty: at least one [[requests]] is needed')
    requests: dict[str, Request] = {}
    for number, item in enumerate(items, 1):
        request = _parse_request(number, item, tuple(requests))
        if request.name in requests:
            raise scenario.error(
                f"request {number}: the name {show(request.name)} is taken by request "
                f"{list(requests).index(request.name) + 1}"
            )
        requests[request.name] = request
    return tuple(requests.values())


def _parse_request(number: int, values: object, above: tuple[str, ...]) -> Request:
    table = Table(f"request {number}", values, REQUEST_KEYS)
    name = table.line("name", MAX_NAME_CHARS)
    table = Table(f"request {number} ({show(name)})", values, REQUEST_KEYS)
    if ("prompt" in table) == ("prompt_ids" in table):
        both = "both are given" if "prompt" in table else '"prompt" is missing'
        raise table.error(f'{both}: either "prompt" (a text) or "prompt_ids" is needed')
    follows = table.text("follows", MAX_NAME_CHARS) if "follows" in table else None
    if follows is not None and follows not in above:
        known = suggest(follows, above) if above else "; it is the first"
        raise table.error(f'"follows" must name a request above, got {show(follows)}{known}')
    if follows is not None and "arrival_step" in table:
        raise table.error('"arrival_step" and "follows" exclude each other; use "after"')
    if follows is None and "after" in table:
        raise table.error('"after" goes with "follows" only; use "arrival_step"')
    return Request(
        name=name,
        prompt=table.text("prompt", MAX_PROMPT_CHARS) if "prompt" in table else None,
        prompt_ids=(
            table.token_ids("prompt_ids", MAX_PROMPT_TOKENS) if "prompt_ids" in table else None
        ),
        max_new_tokens=table.whole("max_new_tokens", 1, MAX_NEW_TOKENS),
        arrival_step=table.whole("arrival_step", 0, MAX_STEP, default=0),
        follows=follows,
        after=table.whole("after", 1, MAX_STEP, default=1),
        sampling=_parse_sampling(table),
        num_samples=table.whole("num_samples", 1, MAX_FORKS, default=1),
        beam_width=table.whole("beam_width", 1, MAX_FORKS, default=1),
        adapter=table.line("adapter", MAX_NAME_CHARS) if "adapter" in table else None,
    )


def _parse_sampling(table: Table) -> SamplingParams:
    defaults = {f.name: f.default for f in fields(SamplingParams)}
    given = {key: table.take(key) for key in SAMPLING_KEYS if key in table}
    try:
        return SamplingParams(**{key: given.get(key, defaults[key]) for key in SAMPLING_KEYS})
    except ConfigError as error:
        raise table.error(str(error)) from None
