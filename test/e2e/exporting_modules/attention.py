# SPDX-License-Identifier: Apache-2.0
"""Attention, transformer blocks and language models."""
import math

import torch
import torch.nn as nn
import torch.nn.functional as F

from .base import BATCH, CLASSES, TOKENS, VOCABULARY, WIDTH, Classifier, LanguageModel, case, series, tokens


@case(series)
class MultiheadAttention(Classifier):
    def __init__(self):
        super().__init__()
        self.attention, self.head = nn.MultiheadAttention(WIDTH, 2, batch_first=True), nn.Linear(WIDTH, CLASSES)

    def logits(self, x):
        return self.head(self.attention(x, x, x, need_weights=False)[0].mean(1))


@case(series)
class EncoderLayer(Classifier):
    def __init__(self):
        super().__init__()
        self.layer = nn.TransformerEncoderLayer(WIDTH, 2, 16, dropout=0.0, batch_first=True)
        self.head = nn.Linear(WIDTH, CLASSES)

    def logits(self, x):
        return self.head(self.layer(x)[:, 0])


@case(series, "ropout")
class EncoderLayerWithDropout(Classifier):
    def __init__(self):
        super().__init__()
        self.layer = nn.TransformerEncoderLayer(WIDTH, 2, 16, batch_first=True, norm_first=True)
        self.head = nn.Linear(WIDTH, CLASSES)

    def logits(self, x):
        return self.head(self.layer(x)[:, 0])


class CausalSelfAttention(nn.Module):
    def __init__(self, dropout=0.0):
        super().__init__()
        self.qkv, self.out, self.dropout = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH), dropout

    def forward(self, x):
        q, k, v = (part.view(BATCH, TOKENS, 2, WIDTH // 2).transpose(1, 2) for part in self.qkv(x).split(WIDTH, 2))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True, dropout_p=self.dropout if self.training else 0.0)
        return self.out(y.transpose(1, 2).reshape(BATCH, TOKENS, WIDTH))


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm1, self.attention, self.norm2 = nn.LayerNorm(WIDTH), CausalSelfAttention(), nn.LayerNorm(WIDTH)
        self.mlp = nn.Sequential(nn.Linear(WIDTH, 16), nn.GELU(), nn.Linear(16, WIDTH))

    def forward(self, x):
        x = x + self.attention(self.norm1(x))
        return x + self.mlp(self.norm2(x))


@case(tokens, "onnx::Add_")
class TiedGpt(LanguageModel):
    """Learned positions, causal attention, the head tied to the embedding."""

    def __init__(self):
        super().__init__()
        self.wte, self.wpe, self.block = nn.Embedding(VOCABULARY, WIDTH), nn.Embedding(TOKENS, WIDTH), Block()
        self.norm, self.head = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, VOCABULARY, bias=False)
        self.head.weight = self.wte.weight

    def logits(self, ids):
        return self.head(self.norm(self.block(self.wte(ids) + self.wpe(torch.arange(TOKENS)))))


@case(tokens, "ropout")
class AttentionDropout(LanguageModel):
    """Dropout inside of scaled_dot_product_attention."""

    def __init__(self):
        super().__init__()
        self.wte, self.attention, self.head = nn.Embedding(VOCABULARY, WIDTH), CausalSelfAttention(0.3), nn.Linear(WIDTH, VOCABULARY)

    def logits(self, ids):
        return self.head(self.attention(self.wte(ids)))


@case(tokens)
class BufferMask(LanguageModel):
    """Attention by hand, with a triangular mask that is a buffer."""

    def __init__(self):
        super().__init__()
        self.wte, self.qkv, self.head = nn.Embedding(VOCABULARY, WIDTH), nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, VOCABULARY)
        self.register_buffer("mask", torch.tril(torch.ones(2 * TOKENS, 2 * TOKENS)))

    def logits(self, ids):
        q, k, v = self.qkv(self.wte(ids)).chunk(3, 2)
        scores = (q @ k.transpose(1, 2) / math.sqrt(WIDTH)).masked_fill(self.mask[:TOKENS, :TOKENS] == 0, float("-inf"))
        return self.head(scores.softmax(2) @ v)


class RmsNorm(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.rand(WIDTH) + 0.5)

    def forward(self, x):
        return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + 1e-6) * self.weight


@case(tokens)
class Llama(LanguageModel):
    """RMS norm, rotary positions from a buffer, SwiGLU."""

    def __init__(self):
        super().__init__()
        self.embed, self.norm, self.head = nn.Embedding(VOCABULARY, WIDTH), RmsNorm(), nn.Linear(WIDTH, VOCABULARY, bias=False)
        self.q, self.k, self.v, self.o = (nn.Linear(WIDTH, WIDTH, bias=False) for _ in range(4))
        self.gate, self.up, self.down = nn.Linear(WIDTH, 12, bias=False), nn.Linear(WIDTH, 12, bias=False), nn.Linear(12, WIDTH, bias=False)
        self.register_buffer("inv_freq", 1.0 / 100 ** (torch.arange(0, 4, 2) / 4), persistent=False)

    def rotate(self, x):
        angles = torch.outer(torch.arange(TOKENS).to(self.inv_freq.dtype), self.inv_freq).repeat(1, 2)
        a, b = x.chunk(2, -1)
        return x * angles.cos() + torch.cat([-b, a], -1) * angles.sin()

    def logits(self, ids):
        x = self.embed(ids)
        q, k, v = (f(x).view(BATCH, TOKENS, 2, 4).transpose(1, 2) for f in (self.q, self.k, self.v))
        y = F.scaled_dot_product_attention(self.rotate(q), self.rotate(k), v, is_causal=True)
        x = self.norm(x + self.o(y.transpose(1, 2).flatten(2)))
        return self.head(x + self.down(F.silu(self.gate(x)) * self.up(x)))


@case(series)
class ClassToken(Classifier):
    """A class token, learned positions, layer scale, stochastic nothing: a small vision transformer's block."""

    def __init__(self):
        super().__init__()
        self.cls, self.pos = nn.Parameter(torch.randn(1, 1, WIDTH)), nn.Parameter(torch.randn(1, TOKENS + 1, WIDTH) * 0.02)
        self.norm, self.mlp, self.head = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, CLASSES)
        self.scale = nn.Parameter(torch.full((WIDTH,), 0.1))

    def logits(self, x):
        x = torch.cat([self.cls.expand(BATCH, 1, WIDTH), x], 1) + self.pos
        x = x + self.scale * F.gelu(self.mlp(self.norm(x)))
        return self.head(x.mean(1) + x[:, 0])


@case(tokens, "onnx::Add_")
class SlicedPositions(LanguageModel):
    """A table of learned positions that is longer than the sequence."""

    def __init__(self):
        super().__init__()
        self.embed, self.head = nn.Embedding(VOCABULARY, WIDTH), nn.Linear(WIDTH, VOCABULARY)
        self.pos = nn.Parameter(torch.randn(1, 3 * TOKENS, WIDTH) * 0.02)

    def logits(self, ids):
        return self.head(torch.tanh(self.embed(ids) + self.pos[:, :TOKENS]))


@case(tokens, "pe")
class SinusoidalPositions(LanguageModel):
    """The table of PyTorch's own tutorial: a buffer, not trained."""

    def __init__(self):
        super().__init__()
        self.embed, self.head = nn.Embedding(VOCABULARY, WIDTH), nn.Linear(WIDTH, VOCABULARY)
        angles = torch.arange(TOKENS)[:, None] * torch.exp(torch.arange(0, WIDTH, 2) * (-math.log(10000.0) / WIDTH))
        pe = torch.zeros(1, TOKENS, WIDTH)
        pe[0, :, 0::2], pe[0, :, 1::2] = angles.sin(), angles.cos()
        self.register_buffer("pe", pe)

    def logits(self, ids):
        return self.head(torch.tanh(self.embed(ids) + self.pe))
