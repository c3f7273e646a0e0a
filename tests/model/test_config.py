"""A config.json is understood in both spellings, or refused in one sentence."""

import json

import pytest

from pagedviz.model import ConfigUnsupported, LlamaConfig
from pagedviz.model.config import Llama3Scaling, Rope

SMALL = {
    "architectures": ["LlamaForCausalLM"],
    "vocab_size": 100,
    "hidden_size": 32,
    "intermediate_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
}
LLAMA3 = {
    "rope_type": "llama3",
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 64,
}


def test_what_is_left_out_has_the_defaults_of_the_family():
    config = LlamaConfig.from_dict(SMALL)
    assert config.num_kv_heads == 4
    assert config.head_dim == 8
    assert config.max_position_embeddings == 2048
    assert config.rms_norm_eps == 1e-6
    assert config.rope == Rope(10_000.0)
    assert not config.tie_word_embeddings
    assert config.eos_token_ids == ()


def test_null_means_left_out():
    names = ("head_dim", "num_key_value_heads", "rope_scaling", "eos_token_id", "mlp_bias")
    nulls = dict.fromkeys(names)
    assert LlamaConfig.from_dict(SMALL | nulls) == LlamaConfig.from_dict(SMALL)


@pytest.mark.parametrize("rules", [{"rope_type": "default"}, LLAMA3])
def test_both_spellings_of_rope_mean_the_same(rules):
    v5 = LlamaConfig.from_dict(SMALL | {"rope_parameters": rules | {"rope_theta": 5e5}})
    v4 = LlamaConfig.from_dict(SMALL | {"rope_theta": 5e5, "rope_scaling": rules})
    assert v5 == v4
    assert v5.rope.theta == 5e5
    assert v5.rope.llama3 == (Llama3Scaling(8.0, 1.0, 4.0, 64) if rules is LLAMA3 else None)


@pytest.mark.parametrize(("value", "ids"), [(7, (7,)), ([7, 9], (7, 9)), (None, ()), ([], ())])
def test_end_of_text_is_one_id_several_or_none(value, ids):
    assert LlamaConfig.from_dict(SMALL | {"eos_token_id": value}).eos_token_ids == ids


def test_model_type_stands_in_for_missing_architectures():
    named = {name: value for name, value in SMALL.items() if name != "architectures"}
    assert LlamaConfig.from_dict(named | {"model_type": "llama"}) == LlamaConfig.from_dict(SMALL)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"architectures": ["MambaForCausalLM"]}, "describes MambaForCausalLM; .* LlamaFor"),
        ({"architectures": None, "model_type": "bert"}, "describes bert"),
        ({"architectures": None}, "describes None"),
        ({"hidden_act": "gelu"}, "hidden_act is 'gelu'; only 'silu'"),
        ({"attention_bias": True}, "attention_bias is true"),
        ({"mlp_bias": True}, "mlp_bias is true"),
        ({"tie_word_embeddings": "yes"}, "tie_word_embeddings must be true or false, not 'yes'"),
        ({"quantization_config": {"bits": 4}}, "quantization_config"),
        ({"vocab_size": None}, "vocab_size must be a whole number .* not missing"),
        ({"vocab_size": "100"}, "vocab_size must be a whole number .* not '100'"),
        ({"vocab_size": True}, "vocab_size must be a whole number .* not True"),
        ({"vocab_size": 0}, "vocab_size must be a whole number from 1"),
        ({"num_hidden_layers": 10**9}, "num_hidden_layers must be .* to 1,024, not 1000000000"),
        (
            {"hidden_size": 65_536, "vocab_size": 10**6},
            "165,.* weights; the limit is 2,000,000,000",
        ),
        ({"hidden_size": 30}, "hidden_size 30 cannot be split over 4 heads"),
        ({"head_dim": 7}, "head_dim is 7, .* even"),
        ({"num_key_value_heads": 3}, "num_attention_heads is 4, .* 3, does not divide"),
        ({"rms_norm_eps": 0}, "rms_norm_eps must be a finite number above 0, not 0"),
        ({"rms_norm_eps": float("nan")}, "rms_norm_eps must be a finite number above 0, not nan"),
        ({"rms_norm_eps": "1e-5"}, "rms_norm_eps must be a number above 0, not '1e-5'"),
        ({"rope_theta": 10**400}, "rope_theta must be"),
        ({"eos_token_id": 100}, "eos_token_id is 100; expected ids from 0 to 99"),
        ({"eos_token_id": [1, "2"]}, "eos_token_id is"),
        ({"rope_scaling": "linear"}, "rope_scaling must be an object"),
        ({"rope_scaling": {"type": "linear", "factor": 2.0}}, "rope type is 'linear'"),
        ({"rope_parameters": {"rope_type": "yarn"}}, "rope type is 'yarn'; only 'default' and"),
        ({"rope_parameters": LLAMA3 | {"factor": None}}, "factor must be .* not missing"),
        ({"rope_scaling": LLAMA3 | {"high_freq_factor": 1.0}}, "high_freq_factor 1.0 must be"),
        ({"partial_rotary_factor": 0.5}, "partial_rotary_factor is 0.5"),
    ],
    ids=lambda value: json.dumps(value)[:60] if isinstance(value, dict) else "",
)
def test_what_cannot_be_computed_is_refused(change, message):
    with pytest.raises(ConfigUnsupported, match=message) as caught:
        LlamaConfig.from_dict(SMALL | change)
    assert len(str(caught.value)) < 300
    assert str(caught.value).endswith(".")
