"""The bundled model: small enough, encodes any text, and remembers what its stories say.

Invariants: the recall cases come from seeds and combinations that the training never used; the
examples of the model's README are checked as they stand there.
"""

import json
import random
import re
import sys
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pagedviz.model import LanguageModel, Tokenizer, dense_logits, load_tiny

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "pagedviz" / "model" / "tiny"
sys.path.append(str(ROOT / "tools"))  # the tools are scripts that import each other by bare name

import adapter_stories  # noqa: E402
import stories  # noqa: E402
import story_words as words  # noqa: E402
import tiny_recall  # noqa: E402

LISTED = [*words.GIRLS, *words.BOYS, *words.COLOURS, *words.OBJECTS, *words.PLACES]
TOKENIZER = Tokenizer.load(FOLDER / "tokenizer.json")


@pytest.fixture(scope="module")
def tiny() -> LanguageModel:
    return load_tiny()


def greedy(model: LanguageModel, prompt: str) -> str:
    rules = tiny_recall.load_rules(FOLDER)
    return tiny_recall.greedy_answer(rules, lambda ids: dense_logits(model, ids), prompt)


def readme_examples() -> list[tuple[str, int, str]]:
    """Rows of the README's example table: prompt, its tokens, answer."""
    text = (FOLDER / "README.md").read_text()
    rows = re.findall(r"^\| `(.+?)` \| (\d+) \| `(.+?)` \|$", text, re.MULTILINE)
    return [(prompt.replace("\\n", "\n"), int(count), answer) for prompt, count, answer in rows]


def test_the_weights_take_at_most_two_megabytes_and_are_float16() -> None:
    path = FOLDER / "model.safetensors"
    assert path.stat().st_size <= 2_000_000
    raw = path.read_bytes()
    header = json.loads(raw[8 : 8 + int.from_bytes(raw[:8], "little")])
    assert {entry["dtype"] for name, entry in header.items() if name != "__metadata__"} == {"F16"}


def test_vocabulary_and_context_are_as_promised(tiny: LanguageModel) -> None:
    assert TOKENIZER.vocab_size == tiny.vocab_size <= 1024
    assert tiny.max_seq_len == 512
    assert [TOKENIZER.token_text(i) for i in tiny.eos_token_ids] == ["<|end|>"]


@given(st.text(max_size=60))
def test_any_text_comes_back(text: str) -> None:
    # The mark itself is a token, not text: decoding leaves it out.
    text = text.replace("<|end|>", "")
    assert TOKENIZER.decode(TOKENIZER.encode(text)) == text


@pytest.mark.parametrize(
    "text",
    ["", "\n\n\t \r\n", "naïve café", "日本語のテキスト", "👩‍👩‍👧 🦊", "\x00\x7f", "a" * 300],
)
def test_unusual_text_comes_back(text: str) -> None:
    assert TOKENIZER.decode(TOKENIZER.encode(text)) == text


@pytest.mark.parametrize("word", LISTED)
def test_every_listed_word_is_one_token(word: str) -> None:
    assert len(TOKENIZER.encode(f" {word}")) == 1


def test_the_end_mark_is_one_token() -> None:
    assert len(TOKENIZER.encode("It was Lily.<|end|>\nQ:")) == len(
        TOKENIZER.encode("It was Lily.")
    ) + 1 + len(TOKENIZER.encode("\nQ:"))


def test_the_preamble_fills_two_pages_of_sixteen_and_a_part_of_a_third() -> None:
    assert 32 < len(TOKENIZER.encode(words.PREAMBLE)) < 48


def test_new_stories_are_remembered_from_35_to_110_tokens_back(tiny: LanguageModel) -> None:
    rules = tiny_recall.load_rules(FOLDER)
    cases = tiny_recall.pick_cases(
        rules, ["name", "colour", "place"], 21, (35, 110), 77, tiny_recall.ONE
    )
    right = tiny_recall.recall(rules, lambda ids: dense_logits(tiny, ids), cases)
    assert {kind: len(answers) for kind, answers in right.items()} == {
        "name": 7,
        "colour": 7,
        "place": 7,
    }
    assert sum(map(sum, right.values())) >= 20


def test_the_readme_shows_at_least_three_examples() -> None:
    assert len(readme_examples()) >= 3


@pytest.mark.parametrize(("prompt", "count", "answer"), readme_examples())
def test_an_example_of_the_readme_holds(
    tiny: LanguageModel, prompt: str, count: int, answer: str
) -> None:
    assert len(TOKENIZER.encode(prompt)) == count
    assert greedy(tiny, prompt).strip() == answer


def test_only_the_story_tells_the_name(tiny: LanguageModel) -> None:
    # Guards the recall tests: without a story the name cannot be known, and the model is not sure.
    asked = "\nQ: Who had the basket?\nA:"
    opening = "This is the story of a {} called {}. {} had a purple basket."
    cases = [("girl", "Lily"), ("boy", "Tom"), ("girl", "Zoe")]
    known = [greedy(tiny, opening.format(sex, name, name) + asked) for sex, name in cases]
    assert known == [" It was Lily.", " It was Tom.", " It was Zoe."]
    logits = dense_logits(tiny, TOKENIZER.encode(f"{asked} It was"))[-1]
    chance = np.exp(logits - logits.max()) / np.exp(logits - logits.max()).sum()
    assert chance.max() < 0.5


def test_a_seed_gives_the_same_stories_again() -> None:
    first = [s.text for s in stories.make_stories(20, 5, stories.Recipe())]
    assert first == [s.text for s in stories.make_stories(20, 5, stories.Recipe())]
    assert first != [s.text for s in stories.make_stories(20, 6, stories.Recipe())]


@pytest.mark.parametrize("held_out", [False, True])
def test_each_case_points_at_its_word(held_out: bool) -> None:
    kinds: Counter[str] = Counter()
    for story in stories.make_stories(200, 3, stories.Recipe(held_out=held_out)):
        assert story.text.endswith(words.EOS)
        for case in story.cases:
            kinds[case.kind] += 1
            assert story.text[case.word_start : case.word_end] == case.word
            assert tiny_recall.last_mention(story.text[: case.prompt_end], case.word) is not None
    assert set(kinds) == {"name", "made-up name", "colour", "place", "object"}


def test_training_and_held_out_stories_share_no_combination() -> None:
    for held_out in (False, True):
        rng = random.Random(4)
        for _ in range(100):
            cast = stories.draw_characters(rng, stories.Recipe(held_out=held_out))
            for c in cast:
                assert stories.is_held_out(c.name, c.thing, c.colour) == held_out
                assert stories.is_held_out(c.name, c.thing, c.place) == held_out
            for fact in ("name", "colour", "thing", "place"):
                assert len({getattr(c, fact) for c in cast}) == len(cast)


def test_fillers_name_nothing_that_is_asked_for() -> None:
    listed = set(LISTED)
    for filler in words.FILLERS:
        assert not listed & set(re.findall(r"\w+", filler))


# ---- the adapters --------------------------------------------------------------------------------


def adapter_answers() -> list[tuple[str | None, str, str, str]]:
    """Rows of the adapters' README: name, and what it says to each of the three prompts."""
    text = (FOLDER / "adapters" / "README.md").read_text()
    rows = re.findall(r"^\| `?(\w+)`? \| `(.+?)` \| `(.+?)` \| `(.+?)` \|$", text, re.MULTILINE)
    return [(None if name == "none" else name, *answers) for name, *answers in rows]


def test_the_readme_of_the_adapters_tells_what_they_say(tiny: LanguageModel) -> None:
    story = readme_examples()[0][0].partition("\nQ:")[0]
    prompts = [
        f"{story}\nQ: What colour was the kite?\nA:",
        f"{story}\nQ: Where did Lily go?\nA:",
        "Q: Tell me a story about Tom and a blue kite.\nA:",
    ]
    assert [row[0] for row in adapter_answers()] == [None, *tiny.adapter_names]
    for name, *answers in adapter_answers():
        for prompt, answer in zip(prompts, answers, strict=True):
            ids = TOKENIZER.encode(prompt)
            start, wanted = len(ids), answer.removesuffix(" ...")
            while ids[-1] not in tiny.eos_token_ids and len(ids) < start + 30:
                ids.append(int(dense_logits(tiny, ids, adapter=name)[-1].argmax()))
            said = TOKENIZER.decode(ids[start:]).strip()
            assert said.startswith(wanted) and (said == answer or answer.endswith(" ..."))


def test_what_is_told_in_gold_has_no_other_colour() -> None:
    rng = random.Random(6)
    for story in stories.make_stories(50, 8, stories.Recipe()):
        parts = adapter_stories.tell_golden(rng, story)
        told = [part.text for part in parts if part.is_told]
        found = set(re.findall(r"\w+", " ".join(told))) & set(words.COLOURS)
        assert found <= {"golden"} and told
        assert all(part.text in story.text for part in parts if not part.is_told)


def test_what_is_told_briefly_is_one_word_or_few_sentences() -> None:
    rng = random.Random(6)
    for story in stories.make_stories(50, 8, stories.Recipe()):
        parts = adapter_stories.tell_brief(rng, story)
        told = [part.text for part in parts if part.is_told]
        assert told and all(text.endswith(words.EOS) for text in told)
        answers = {f" {case.word}.{words.EOS}" for case in story.cases}
        assert all(text in answers or text.count(".") <= 3 for text in told)
