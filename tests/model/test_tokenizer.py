"""Text becomes ids and comes back; every id can be shown."""

import pytest
from tokenizers import Tokenizer as FastTokenizer
from tokenizers import decoders, models, pre_tokenizers

from pagedviz.model import BadModelInput, CheckpointInvalid, Tokenizer, load_model

TEXT = "Lily had a purple basket.\n  She said: naïve 🐢!"


@pytest.fixture(scope="module")
def byte_level(tmp_path_factory):
    """256 bytes, the merge " h", and a special end token 257."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    vocab = {letter: i for i, letter in enumerate(alphabet)} | {"Ġh": 256}
    rules = FastTokenizer(models.BPE(vocab=vocab, merges=[("Ġ", "h")]))
    rules.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    rules.decoder = decoders.ByteLevel()
    rules.add_special_tokens(["<|end|>"])
    path = tmp_path_factory.mktemp("tokenizer") / "tokenizer.json"
    rules.save(str(path))
    return Tokenizer.load(path)


def test_any_text_comes_back(byte_level):
    ids = byte_level.encode(TEXT)
    assert byte_level.decode(ids) == TEXT
    assert 256 in ids
    assert byte_level.encode("") == []
    assert byte_level.vocab_size == 258


def test_each_token_can_be_shown(byte_level):
    shown = [byte_level.token_text(i) for i in byte_level.encode(" hï\n")]
    assert shown == [" h", "\\xc3", "\\xaf", "\n"]
    assert byte_level.token_text(257) == "<|end|>"
    assert byte_level.token_text(9999) == "<9999>"


def test_special_tokens_are_no_text(byte_level):
    assert byte_level.decode([*byte_level.encode("hi"), 257]) == "hi"


def test_pieces_of_other_vocabularies_show_their_space(tmp_path):
    rules = FastTokenizer(models.WordLevel({"\u2581the": 0, "cat": 1, "?": 2}, unk_token="?"))
    rules.save(str(tmp_path / "tokenizer.json"))
    words = Tokenizer.load(tmp_path / "tokenizer.json")
    assert [words.token_text(i) for i in range(3)] == [" the", "cat", "?"]


@pytest.mark.parametrize("token_id", [-1, 2**32])
def test_numbers_that_are_no_ids_are_refused(byte_level, token_id):
    with pytest.raises(BadModelInput, match=f"{token_id} is not a token id"):
        byte_level.token_text(token_id)
    with pytest.raises(BadModelInput, match="is not a token id"):
        byte_level.decode([1, token_id])


@pytest.mark.parametrize("text", ["", "{}", "[1]", '{"model": {"type": "None"}}'])
def test_a_broken_tokenizer_file_is_refused(llama_folder, text):
    (llama_folder / "tokenizer.json").write_text(text)
    with pytest.raises(CheckpointInvalid, match=r"tokenizer\.json cannot be read"):
        load_model(llama_folder)
