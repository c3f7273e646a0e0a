"""Find seeds whose stories are worth showing, for the sampled requests of the bundled scenarios.

    PYTHONPATH=. python tools/scenario_seeds.py [--seeds 100] [scenario ...]

Invariant: writes nothing; prints, for each sampled request that opens a conversation, the seeds
whose story ends by itself, repeats no sentence, and tells every name, colour and thing asked for.
Needed when the bundled model changes: a seed then tells another story.
"""

from __future__ import annotations

import argparse
import re

from pagedviz.engine import Engine, EngineConfig
from pagedviz.model import LanguageModel, load_tiny
from pagedviz.scenarios import Request, load_scenario, scenario_names
from pagedviz.scenarios.scenario import Scenario
from pagedviz.scenarios.settings import apply_settings

BATCH = 20


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("scenarios", nargs="*", default=scenario_names())
    parser.add_argument("--seeds", type=int, default=100, help="how many are tried")
    arguments = parser.parse_args()
    model = load_tiny()
    for name in arguments.scenarios:
        scenario = load_scenario(name)
        for request in scenario.requests:
            if request.sampling.temperature and request.follows is None:
                print(f"\n{name}, {request.name} (now {request.sampling.seed})")
                for seed, story in stories(scenario, request, arguments.seeds, model):
                    print(f"  {seed:4} {story}")


def stories(
    scenario: Scenario, request: Request, num_seeds: int, model: LanguageModel
) -> list[tuple[int, str]]:
    """The seeds from 1 to `num_seeds` that tell a good story, and the story."""
    assert request.prompt is not None and model.tokenizer is not None
    found = []
    prompt_ids = model.tokenizer.encode(request.prompt)
    for first in range(1, num_seeds + 1, BATCH):
        engine = Engine(EngineConfig(num_pages=4096), model)
        seeds = range(first, min(first + BATCH, num_seeds + 1))
        seq_ids = []
        for seed in seeds:
            changed = apply_settings(scenario, {"requests": {request.name: {"seed": seed}}})
            sampling = changed.request(request.name).sampling
            seq_ids.append(
                engine.submit(prompt_ids, sampling, request.max_new_tokens, adapter=request.adapter)
            )
        while engine.has_unfinished:
            engine.step()
        for seed, seq_id in zip(seeds, seq_ids, strict=True):
            generated = engine.sequences.get(seq_id).generated_ids
            story = model.tokenizer.decode(generated).strip()
            if generated[-1] in model.eos_token_ids and is_good(request.prompt, story):
                found.append((seed, story))
    return found


def is_good(prompt: str, story: str) -> bool:
    sentences = [sentence for sentence in re.split(r"[.?!]\s*", story) if sentence]
    asked = re.search(r"story about (\w+)(?: and an? (\w+) (\w+))?\.", prompt)
    if asked is None or len(set(sentences)) < len(sentences) or len(sentences) < 4:
        return False
    name, colour, thing = asked.groups()
    is_told = thing is None or f"{colour} {thing}" in story or f"{thing} was {colour}" in story
    return name in story and is_told


if __name__ == "__main__":
    main()
