"""An adapter's folder loads as PEFT wrote it, or says in one sentence why it cannot."""

import json
import re
import shutil
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

import pagedviz.model.adapter_files as adapter_files
from pagedviz.model import (
    BadModelInput,
    CheckpointInvalid,
    ConfigUnsupported,
    ModelError,
    dense_logits,
    load_adapter,
    load_tiny,
)
from tests.model.test_checkpoint import save_as

DATA = Path(__file__).parent.parent / "data" / "adapters" / "all_four"
TINY_ADAPTERS = Path(adapter_files.__file__).parent / "tiny" / "adapters"
CONFIG, WEIGHTS = "adapter_config.json", "adapter_model.safetensors"
Q_PROJ = "base_model.model.model.layers.0.self_attn.q_proj"


@pytest.fixture
def folder(tmp_path) -> Path:
    """A copy that a test may damage."""
    for name in (CONFIG, WEIGHTS):
        shutil.copy(DATA / name, tmp_path / name)
    return tmp_path


def configure(folder, **changes):
    path = folder / CONFIG
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))


def edit(folder, changes):
    """Replace tensors by name; None removes one."""
    tensors = load_file(folder / WEIGHTS) | changes
    save_file({k: v for k, v in tensors.items() if v is not None}, folder / WEIGHTS)


def refuses(folder, model, message, kind):
    with pytest.raises(kind, match=message) as caught:
        load_adapter(folder, model)
    assert "\n" not in str(caught.value)
    assert str(caught.value).endswith(".")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"peft_type": "LOHA"}, "peft_type is 'LOHA'; only 'LORA'"),
        ({"peft_type": None}, "peft_type is missing; only 'LORA'"),
        ({"bias": "all"}, "bias is 'all'; only adapters that train no biases"),
        ({"use_dora": True}, "has use_dora = True; only plain LoRA"),
        ({"modules_to_save": ["lm_head"]}, r"has modules_to_save = \['lm_head'\]; only plain LoRA"),
        ({"fan_in_fan_out": True}, "has fan_in_fan_out = True"),
        ({"rank_pattern": {"q_proj": 8}}, "has rank_pattern = {'q_proj': 8}"),
        ({"alpha_pattern": {"q_proj": 8}}, "has alpha_pattern"),
        ({"layers_to_transform": [0]}, "has layers_to_transform"),
        ({"layers_to_transform": 0}, "has layers_to_transform"),
        ({"lora_bias": True}, "has lora_bias = True"),
        ({"alora_invocation_tokens": [1]}, "has alora_invocation_tokens"),
        ({"use_what_comes_next_year": True}, "has use_what_comes_next_year = True"),
        ({"init_lora_weights": "pissa"}, "init_lora_weights is 'pissa', which may have changed"),
        ({"init_lora_weights": ["gaussian"]}, "init_lora_weights is"),
        ({"target_modules": ["q_proj", "gate_proj"]}, "target_modules has 'gate_proj'; only the"),
        ({"target_modules": [["q_proj"]]}, r"target_modules has \['q_proj'\]"),
        ({"target_modules": ".*_proj"}, "target_modules must be a list of q_proj, k_proj"),
        ({"target_modules": []}, "target_modules must be a list"),
        ({"target_modules": None}, "target_modules must be a list of .*, not missing"),
        ({"r": 0}, "r must be a whole number from 1 to 1,024, not 0"),
        ({"r": 4.0}, "r must be a whole number from 1 to 1,024, not 4.0"),
        ({"r": None}, "r must be a whole number .* not missing"),
        ({"lora_alpha": 0}, "lora_alpha must be a finite number above 0, not 0"),
        ({"lora_alpha": "16"}, "lora_alpha must be a number above 0, not '16'"),
        ({"lora_alpha": float("nan")}, "lora_alpha must be a finite number above 0, not nan"),
        ({"use_rslora": 1}, "use_rslora must be true or false, not 1"),
    ],
    ids=lambda value: str(value)[:40],
)
def test_a_configuration_that_is_not_plain_lora_is_refused(folder, llama, changes, message):
    configure(folder, **changes)
    refuses(folder, llama, message, ConfigUnsupported)


def test_weights_must_fit_the_rank_the_targets_and_the_model(folder, llama):
    tensors = load_file(folder / WEIGHTS)
    a, b = f"{Q_PROJ}.lora_A.weight", f"{Q_PROJ}.lora_B.weight"
    configure(folder, r=8)
    refuses(
        folder,
        llama,
        re.escape(f"tensor {a} in {WEIGHTS} is [4, 48]; {CONFIG} makes it [8, 48]"),
        CheckpointInvalid,
    )
    configure(folder, r=4)
    edit(folder, {b: None})
    refuses(
        folder, llama, f"have no tensor {re.escape(b)}, which {CONFIG} needs", CheckpointInvalid
    )
    edit(folder, {b: tensors[b], a: None})
    refuses(folder, llama, f"have no tensor {re.escape(a)}", CheckpointInvalid)
    edit(folder, {a: tensors[a].T.copy()})
    refuses(
        folder, llama, re.escape("is [48, 4]; ") + ".*" + re.escape("[4, 48]"), CheckpointInvalid
    )
    edit(folder, {a: tensors[a].astype(np.float64)})
    refuses(folder, llama, "is F64; only F32, F16 and BF16", CheckpointInvalid)
    edit(folder, {a: tensors[a], f"{Q_PROJ}.lora_magnitude_vector": np.ones(48, np.float32)})
    refuses(folder, llama, "q_proj.lora_magnitude_vector has no place", CheckpointInvalid)
    edit(folder, {f"{Q_PROJ}.lora_magnitude_vector": None})
    load_adapter(folder, llama)
    # Fewer targets than the file has, and a file of a model with more layers.
    configure(folder, target_modules=["k_proj"])
    refuses(folder, llama, "[qo]_proj.lora_A.weight has no place in the model", CheckpointInvalid)
    configure(folder, target_modules=["q_proj", "k_proj", "v_proj", "o_proj"])
    deep = {name.replace("layers.0", "layers.3"): value for name, value in tensors.items()}
    edit(folder, deep)
    refuses(folder, llama, r"layers\.3\..* has no place in the model", CheckpointInvalid)


def test_missing_things_are_named_and_pickles_never_opened(folder, llama):
    refuses(folder / "nowhere", llama, "there is no adapter folder .*nowhere", CheckpointInvalid)
    (folder / WEIGHTS).rename(folder / "adapter_model.bin")
    refuses(
        folder, llama, "only adapter_model.bin, a pickle, which is never opened", CheckpointInvalid
    )
    (folder / "adapter_model.bin").unlink()
    refuses(folder, llama, f"has no {WEIGHTS}", CheckpointInvalid)
    (folder / CONFIG).unlink()
    refuses(folder, llama, f"has no {CONFIG}", ConfigUnsupported)


@pytest.mark.parametrize(
    "text", ["{", "[]", "[" * 100_000, ""], ids=["cut", "list", "deep", "none"]
)
def test_a_config_that_is_no_json_object_is_refused(folder, llama, text):
    (folder / CONFIG).write_text(text)
    refuses(
        folder, llama, f"{CONFIG} (is not valid JSON|must hold a JSON object)", ConfigUnsupported
    )


def test_a_file_beyond_the_limit_is_not_opened(folder, llama, monkeypatch):
    monkeypatch.setattr(adapter_files, "MAX_BYTES", 5000)
    refuses(folder, llama, "has 19,136 bytes; the limit is 5,000", CheckpointInvalid)


def test_numbers_that_are_not_finite_are_refused(folder, llama):
    a = f"{Q_PROJ}.lora_A.weight"
    broken = load_file(folder / WEIGHTS)[a].copy()
    for value in (np.nan, np.inf):
        broken[1, 2] = value
        edit(folder, {a: broken})
        refuses(folder, llama, f"{re.escape(a)} in {WEIGHTS} holds numbers that", CheckpointInvalid)


# ---- beside those of the bundled model ---------------------------------------------------------


def test_the_bundled_model_takes_adapters_besides_its_own():
    model = load_tiny([("mine", TINY_ADAPTERS / "golden")])
    assert model.adapter_names == ("brief", "golden", "mine")
    ids = [5, 6, 7]
    golden = dense_logits(model, ids, adapter="golden")
    assert (dense_logits(model, ids, adapter="mine") == golden).all()
    assert (dense_logits(model, ids, adapter="brief") != golden).any()


@pytest.mark.parametrize(
    ("more", "message", "kind"),
    [
        ([("golden", "golden")], "there is an adapter 'golden' already", BadModelInput),
        ([("a", "golden"), ("a", "brief")], "there is an adapter 'a' already", BadModelInput),
        ([("a/b", "golden")], "an adapter cannot be called 'a/b'", BadModelInput),
        ([("<b>", "golden")], "an adapter cannot be called '<b>'", BadModelInput),
        ([("x" * 41, "golden")], "an adapter cannot be called 'xxx", BadModelInput),
        ([("a", "none")], "adapter 'a': there is no adapter folder .*none", CheckpointInvalid),
        ([(f"a{n}", "golden") for n in range(17)], "up to 16 adapters", BadModelInput),
    ],
)
def test_an_adapter_that_cannot_be_added_is_one_sentence(more, message, kind):
    with pytest.raises(kind, match=message) as caught:
        load_tiny([(name, TINY_ADAPTERS / folder) for name, folder in more])
    assert str(caught.value).endswith(".") and "\n" not in str(caught.value)


def test_an_adapter_of_another_model_is_refused_by_the_bundled_one():
    with pytest.raises(CheckpointInvalid, match=r"adapter 'other': tensor .* makes it"):
        load_tiny([("other", DATA)])


def test_a_truncated_or_damaged_file_is_refused_or_loads_as_it_says(folder, llama):
    path = folder / WEIGHTS
    whole = path.read_bytes()
    for length in (0, 8, 100, len(whole) // 2, len(whole) - 1):
        path.write_bytes(whole[:length])
        refuses(folder, llama, "is not a whole safetensors file", CheckpointInvalid)
    rng = np.random.default_rng(5)
    refused = 0
    for _ in range(60):
        damaged = bytearray(whole)
        for position in rng.integers(0, 2000, 3):
            damaged[position] = rng.integers(0, 256)
        path.write_bytes(damaged)
        try:
            load_adapter(folder, llama)
        except ModelError:
            refused += 1
    assert refused > 40


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_half_floats_are_read(folder, llama, dtype):
    ids = [5, 90, 17, 3]
    whole = llama.with_adapters({"a": load_adapter(folder, llama)})
    save_as(folder / WEIGHTS, load_file(folder / WEIGHTS), dtype)
    half = llama.with_adapters({"a": load_adapter(folder, llama)})
    error = np.abs(dense_logits(half, ids, adapter="a") - dense_logits(whole, ids, adapter="a"))
    assert 0 < error.max() < 0.3


def test_one_projection_alone_leaves_the_others_as_they_are(folder, llama):
    tensors = load_file(folder / WEIGHTS)
    for name in ("q_proj", "k_proj", "v_proj", "o_proj"):
        configure(folder, target_modules=[name])
        save_file({k: v for k, v in tensors.items() if f".{name}." in k}, folder / WEIGHTS)
        layer = load_adapter(folder, llama).layers[0]
        stem = f"base_model.model.model.layers.0.self_attn.{name}"
        product = tensors[f"{stem}.lora_B.weight"] @ tensors[f"{stem}.lora_A.weight"]  # [out, in]
        if name == "o_proj":
            assert layer.qkv is None and layer.output is not None
            change = layer.output.down @ layer.output.up
        else:
            assert layer.output is None and layer.qkv is not None
            # 4 query heads, 2 KV heads of 12: the columns of q, k and v in the stacked weights.
            start = {"q_proj": 0, "k_proj": 48, "v_proj": 72}[name]
            whole = layer.qkv.down @ layer.qkv.up
            change = whole[:, start : start + product.shape[0]]
            assert np.count_nonzero(whole) == np.count_nonzero(change)
        np.testing.assert_allclose(change, product.T, atol=1e-6)
