"""A model folder loads whatever its float type and however it is sharded, or says why it cannot."""

import json
import re
import struct

import numpy as np
import pytest
import safetensors
from safetensors.numpy import load_file, save_file

from pagedviz.model import (
    CheckpointInvalid,
    ConfigUnsupported,
    ModelError,
    load_model,
    paged_logits,
)

PROMPT = [5, 90, 17, 3, 3, 60, 127, 0, 44]
INDEX = "model.safetensors.index.json"


def refuses(folder, message, kind=CheckpointInvalid):
    with pytest.raises(kind, match=message) as caught:
        load_model(folder)
    text = str(caught.value)
    assert "\n" not in text
    assert text.endswith(".")


def save_as(path, tensors, dtype):
    """Write float32 `tensors` as another safetensors type, bfloat16 by cutting the low half."""
    stored = {
        "float16": lambda a: a.astype(np.float16),
        "bfloat16": lambda a: (a.view(np.uint32) >> 16).astype(np.uint16),
    }[dtype]
    arrays = {name: np.ascontiguousarray(stored(a)) for name, a in tensors.items()}
    specs = {
        name: safetensors.TensorSpec(
            dtype=dtype, shape=a.shape, data_ptr=a.ctypes.data, data_len=a.nbytes
        )
        for name, a in arrays.items()
    }
    safetensors.serialize_file(specs, path)


def edit(folder, **changes):
    """Replace tensors by name (None removes one); dots in names are written as __."""
    tensors = load_file(folder / "model.safetensors")
    for name, value in changes.items():
        tensors.pop(name.replace("__", "."), None)
        if value is not None:
            tensors[name.replace("__", ".")] = value
    save_file(tensors, folder / "model.safetensors")


def configure(folder, **changes):
    path = folder / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))


def shard(folder):
    """Split the weights over two files with an index; returns the index."""
    tensors = load_file(folder / "model.safetensors")
    (folder / "model.safetensors").unlink()
    names = sorted(tensors)
    weight_map = {}
    for number, part in ((1, names[::2]), (2, names[1::2])):
        file = f"model-0000{number}-of-00002.safetensors"
        save_file({name: tensors[name] for name in part}, folder / file)
        weight_map |= dict.fromkeys(part, file)
    index = {"metadata": {"total_size": 0}, "weight_map": weight_map}
    (folder / INDEX).write_text(json.dumps(index))
    return index


def test_attributes_tell_what_an_engine_needs(llama):
    assert (llama.num_layers, llama.num_kv_heads, llama.head_dim) == (3, 2, 12)
    assert (llama.vocab_size, llama.max_seq_len, llama.eos_token_ids) == (128, 256, ())
    assert llama.tokenizer is None


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_half_floats_become_exactly_the_float32_they_stand_for(llama_folder, dtype):
    tensors = load_file(llama_folder / "model.safetensors")
    save_as(llama_folder / "model.safetensors", tensors, dtype)
    halves = paged_logits(load_model(llama_folder), PROMPT)
    if dtype == "float16":
        rounded = {name: a.astype(np.float16).astype(np.float32) for name, a in tensors.items()}
    else:
        rounded = {
            name: (a.view(np.uint32) & 0xFFFF0000).view(np.float32) for name, a in tensors.items()
        }
    save_file(rounded, llama_folder / "model.safetensors")
    assert (halves == paged_logits(load_model(llama_folder), PROMPT)).all()


def test_shards_equal_one_file(llama, llama_folder):
    shard(llama_folder)
    logits = paged_logits(load_model(llama_folder), PROMPT)
    assert (logits == paged_logits(llama, PROMPT)).all()
    (llama_folder / INDEX).unlink()  # the files alone say enough
    assert (paged_logits(load_model(llama_folder), PROMPT) == logits).all()


def test_harmless_extras_are_left_alone(llama, llama_folder):
    edit(llama_folder, model__layers__0__self_attn__rotary_emb__inv_freq=np.ones(6, np.float32))
    assert (paged_logits(load_model(llama_folder), PROMPT) == paged_logits(llama, PROMPT)).all()
    configure(llama_folder, tie_word_embeddings=True)  # a stored head is not used then
    assert (paged_logits(load_model(llama_folder), PROMPT) != paged_logits(llama, PROMPT)).any()


def test_missing_things_are_named(tmp_path, llama_folder):
    refuses(tmp_path / "nowhere", "there is no model folder .*nowhere")
    refuses(llama_folder / "config.json", "there is no model folder")
    (llama_folder / "model.safetensors").rename(llama_folder / "pytorch_model.bin")
    refuses(llama_folder, "only pickled weights, which are never opened")
    (llama_folder / "pytorch_model.bin").unlink()
    refuses(llama_folder, "has no weights: no model.safetensors")
    (llama_folder / "config.json").unlink()
    refuses(llama_folder, "has no config.json", ConfigUnsupported)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "not valid JSON"),
        ("[]", "must hold a JSON object, not list"),
        ("[" * 100_000, "not valid JSON"),
        ('{"vocab_size": ' + "9" * 5000 + "}", "not valid JSON"),
        (b"\xff\xfe\x00", "not valid JSON"),
    ],
    ids=["cut", "list", "deep", "huge number", "bytes"],
)
def test_a_config_that_is_no_json_object_is_refused(llama_folder, text, message):
    data = text if isinstance(text, bytes) else text.encode()
    (llama_folder / "config.json").write_bytes(data)
    refuses(llama_folder, message, ConfigUnsupported)


def test_an_unknown_architecture_is_refused_before_the_weights_are_opened(llama_folder):
    configure(llama_folder, architectures=["MambaForCausalLM"])
    (llama_folder / "model.safetensors").unlink()
    refuses(llama_folder, "MambaForCausalLM", ConfigUnsupported)


def test_tensors_must_fit_the_configuration(llama_folder):
    edit(llama_folder, model__norm__weight=None)
    refuses(llama_folder, "no tensor model.norm.weight, which config.json needs")
    edit(llama_folder, model__norm__weight=np.ones(47, np.float32))
    refuses(llama_folder, re.escape("model.norm.weight in model.safetensors is [47]; ") + ".*48")
    edit(llama_folder, model__norm__weight=np.ones(48, np.int32))
    refuses(llama_folder, "model.norm.weight in model.safetensors is I32; only F32, F16 and BF16")
    edit(llama_folder, model__norm__weight=np.ones(48, np.float32))
    load_model(llama_folder)
    edit(llama_folder, model__layers__0__self_attn__q_proj__bias=np.ones(48, np.float32))
    refuses(llama_folder, "q_proj.bias has no place in the model")


def test_a_config_larger_than_the_weights_allocates_nothing(llama_folder):
    configure(llama_folder, hidden_size=4096, intermediate_size=16_000, vocab_size=100_000)
    refuses(llama_folder, r"embed_tokens.weight in .* is \[128, 48\]; .* \[100000, 4096\]")
    configure(llama_folder, num_hidden_layers=1000, hidden_size=65_536)
    refuses(llama_folder, "the limit is", ConfigUnsupported)


def test_every_truncation_of_the_weights_is_noticed(llama_folder):
    path = llama_folder / "model.safetensors"
    whole = path.read_bytes()
    for length in (0, 4, 8, 100, 2000, len(whole) // 2, len(whole) - 1):
        path.write_bytes(whole[:length])
        refuses(llama_folder, "model.safetensors is not a whole safetensors file")
    path.unlink()
    path.mkdir()
    refuses(llama_folder, "cannot be read")


def test_damaged_headers_are_refused_or_load_as_they_say(llama_folder):
    path = llama_folder / "model.safetensors"
    whole = bytearray(path.read_bytes())
    header_length = struct.unpack("<Q", whole[:8])[0]
    rng = np.random.default_rng(5)
    refused = 0
    for _ in range(200):
        damaged = bytearray(whole)
        for position in rng.integers(0, 8 + header_length, 3):
            damaged[position] = rng.integers(0, 256)
        path.write_bytes(damaged)
        try:
            load_model(llama_folder)
        except ModelError:
            refused += 1
    assert refused > 150


def test_one_tensor_in_two_files_is_refused(llama_folder):
    shard(llama_folder)
    (llama_folder / INDEX).unlink()
    save_file({"model.norm.weight": np.ones(48, np.float32)}, llama_folder / "z.safetensors")
    refuses(llama_folder, "model.norm.weight is in model-0000.* and in z.safetensors")


@pytest.mark.parametrize(
    "name",
    ["../secret.safetensors", "/etc/secret.safetensors", "a\\b.safetensors", "C:b.safetensors"],
)
def test_an_index_cannot_point_out_of_its_folder(llama_folder, name):
    index = shard(llama_folder)
    (llama_folder.parent / "secret.safetensors").write_bytes(b"")
    index["weight_map"]["model.norm.weight"] = name
    (llama_folder / INDEX).write_text(json.dumps(index))
    refuses(llama_folder, "which is no file name")


@pytest.mark.parametrize(
    ("index", "message"),
    [
        ({}, "has no weight_map"),
        ({"weight_map": []}, "has no weight_map"),
        ({"weight_map": {"a": 3}}, "names '3', which is no file name"),
        ({"weight_map": {"a": "model.bin"}}, "names model.bin, which is not .safetensors"),
        ({"weight_map": {"a": "b.safetensors"}}, "names b.safetensors, which is not in"),
        ({"weight_map": {"a": "\0.safetensors"}}, "names .*, which is not in"),
        ([], "must hold a JSON object"),
    ],
)
def test_a_broken_index_is_refused(llama_folder, index, message):
    shard(llama_folder)
    (llama_folder / INDEX).write_text(json.dumps(index))
    refuses(llama_folder, message)
