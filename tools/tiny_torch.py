"""The Llama decoder in PyTorch, for training only.

Invariants: parameter names, shapes and arithmetic (half-split RoPE, grouped-query attention,
SwiGLU, RMSNorm, tied head) are those of Hugging Face's `LlamaForCausalLM`, so the saved file is
read by anything that reads such a folder.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.nn import functional as F

VOCAB, CONTEXT = 768, 512
HIDDEN, INNER, LAYERS, HEADS, KV_HEADS, HEAD = 96, 256, 4, 4, 2, 24
EPS, THETA = 1e-5, 10000.0

CONFIG = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "vocab_size": VOCAB,
    "hidden_size": HIDDEN,
    "intermediate_size": INNER,
    "num_hidden_layers": LAYERS,
    "num_attention_heads": HEADS,
    "num_key_value_heads": KV_HEADS,
    "head_dim": HEAD,
    "hidden_act": "silu",
    "max_position_embeddings": CONTEXT,
    "rms_norm_eps": EPS,
    "rope_theta": THETA,
    "rope_scaling": None,
    "attention_bias": False,
    "mlp_bias": False,
    "tie_word_embeddings": True,
    "bos_token_id": None,
    "eos_token_id": 0,
    "torch_dtype": "float16",
}


def _rotate(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    a, b = x.chunk(2, dim=-1)
    return x * cos + torch.cat((-b, a), dim=-1) * sin  # [B, heads, T, HEAD]


class Attention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.q_proj = nn.Linear(HIDDEN, HEADS * HEAD, bias=False)
        self.k_proj = nn.Linear(HIDDEN, KV_HEADS * HEAD, bias=False)
        self.v_proj = nn.Linear(HIDDEN, KV_HEADS * HEAD, bias=False)
        self.o_proj = nn.Linear(HEADS * HEAD, HIDDEN, bias=False)

    def forward(self, x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        b, t, _ = x.shape
        q = self.q_proj(x).view(b, t, HEADS, HEAD).transpose(1, 2)  # [B, 4, T, 24]
        k = self.k_proj(x).view(b, t, KV_HEADS, HEAD).transpose(1, 2)  # [B, 2, T, 24]
        v = self.v_proj(x).view(b, t, KV_HEADS, HEAD).transpose(1, 2)
        q, k = _rotate(q, cos, sin), _rotate(k, cos, sin)
        k = k.repeat_interleave(HEADS // KV_HEADS, dim=1)
        v = v.repeat_interleave(HEADS // KV_HEADS, dim=1)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.o_proj(y.transpose(1, 2).reshape(b, t, HEADS * HEAD))


class MLP(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.gate_proj = nn.Linear(HIDDEN, INNER, bias=False)
        self.up_proj = nn.Linear(HIDDEN, INNER, bias=False)
        self.down_proj = nn.Linear(INNER, HIDDEN, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        return self.down_proj(F.silu(self.gate_proj(x)) * self.up_proj(x))


class Layer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.input_layernorm = nn.RMSNorm(HIDDEN, eps=EPS)
        self.self_attn = Attention()
        self.post_attention_layernorm = nn.RMSNorm(HIDDEN, eps=EPS)
        self.mlp = MLP()

    def forward(self, x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        x = x + self.self_attn(self.input_layernorm(x), cos, sin)
        return x + self.mlp(self.post_attention_layernorm(x))


class Decoder(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embed_tokens = nn.Embedding(VOCAB, HIDDEN)
        self.layers = nn.ModuleList(Layer() for _ in range(LAYERS))
        self.norm = nn.RMSNorm(HIDDEN, eps=EPS)


class TinyLlama(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.model = Decoder()
        for name, p in self.named_parameters():
            if p.dim() == 2:
                # Fan-in, because the usual 0.02 starves attention at this width; the embedding
                # as large as a layer's output; residual outputs small, so that depth does not
                # swell the stream (GPT-2).
                std = 0.1 if "embed" in name else p.shape[1] ** -0.5
                out = name.endswith(("o_proj.weight", "down_proj.weight"))
                nn.init.normal_(p, std=std / math.sqrt(2 * LAYERS) if out else std)
        freq = THETA ** (-torch.arange(0, HEAD, 2) / HEAD)  # [12]
        angle = torch.outer(torch.arange(CONTEXT), freq).repeat(1, 2)  # [512, 24]
        self.register_buffer("cos", angle.cos(), persistent=False)
        self.register_buffer("sin", angle.sin(), persistent=False)

    def forward(self, ids: Tensor) -> Tensor:
        """ids [B, T] -> logits [B, T, vocab]."""
        t = ids.shape[1]
        x = self.model.embed_tokens(ids)  # [B, T, 96]
        for layer in self.model.layers:
            x = layer(x, self.cos[:t], self.sin[:t])
        return F.linear(self.model.norm(x), self.model.embed_tokens.weight)
