# SPDX-License-Identifier: Apache-2.0
"""Modules as people write them in PyTorch, each with its loss in forward(), small enough to train in milliseconds.

MODULES: name -> Case(module class, inputs). The inputs of a step are drawn by `inputs(generator)`, by their names in forward().
"""
import math
from collections import namedtuple

import torch
import torch.nn as nn
import torch.nn.functional as F

BATCH, TOKENS, VOCABULARY, WIDTH, CLASSES, SIDE = 4, 6, 13, 8, 5, 8

# `differs`: words of which a warning must hold one, where a graph is trained that is not the module as it was exported.
Case = namedtuple("Case", "module inputs differs")
MODULES = {}


def images(g):
    return {"x": torch.randn(BATCH, 3, SIDE, SIDE, generator=g), "labels": torch.randint(CLASSES, (BATCH,), generator=g)}


def features(g):
    return {"x": torch.randn(BATCH, WIDTH, generator=g), "labels": torch.randint(CLASSES, (BATCH,), generator=g)}


def targets(g):
    return {"x": torch.randn(BATCH, WIDTH, generator=g), "y": torch.randn(BATCH, CLASSES, generator=g)}


def series(g):
    return {"x": torch.randn(BATCH, TOKENS, WIDTH, generator=g), "labels": torch.randint(CLASSES, (BATCH,), generator=g)}


def tokens(g):
    ids = torch.randint(VOCABULARY, (BATCH, TOKENS + 1), generator=g)
    return {"ids": ids[:, :-1].contiguous(), "labels": ids[:, 1:].contiguous()}


def case(inputs, *differs):
    def add(module):
        MODULES[module.__name__] = Case(module, inputs, differs)
        return module
    return add


class Classifier(nn.Module):
    """The cross entropy of what `logits` gives."""

    def forward(self, x, labels):
        return F.cross_entropy(self.logits(x), labels)


class LanguageModel(nn.Module):
    """The cross entropy of each next token."""

    def forward(self, ids, labels):
        return F.cross_entropy(self.logits(ids).flatten(0, 1), labels.flatten())


# ---- layers ---------------------------------------------------------------------------------------------------------------------------

@case(features)
class Perceptron(Classifier):
    def __init__(self):
        super().__init__()
        self.logits = nn.Sequential(nn.Linear(WIDTH, 12), nn.ReLU(), nn.Linear(12, CLASSES))


@case(targets)
class RegressionMse(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(WIDTH, 12), nn.GELU(), nn.LayerNorm(12), nn.Linear(12, CLASSES))

    def forward(self, x, y):
        return F.mse_loss(self.net(x), y)


@case(images)
class ConvNet(Classifier):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Conv2d(3, 6, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(6, 8, 3, stride=2), nn.SiLU(), nn.Flatten())
        self.head = nn.Linear(8, CLASSES)

    def logits(self, x):
        return self.head(self.net(x))


@case(images, "bn1", "bn2")
class ConvBatchNorm(Classifier):
    def __init__(self):
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(3, 6, 3, bias=False), nn.BatchNorm2d(6)
        self.conv2, self.bn2 = nn.Conv2d(6, 8, 3, bias=False), nn.BatchNorm2d(8)
        self.head = nn.Linear(8, CLASSES)

    def logits(self, x):
        x = F.relu(self.bn1(self.conv1(x)))
        x = F.relu(self.bn2(self.conv2(x)))
        return self.head(x.mean((2, 3)))


@case(features, "bn")
class BatchNorm1d(Classifier):
    def __init__(self):
        super().__init__()
        self.fc1, self.bn, self.fc2 = nn.Linear(WIDTH, 12), nn.BatchNorm1d(12), nn.Linear(12, CLASSES)

    def logits(self, x):
        return self.fc2(torch.tanh(self.bn(self.fc1(x))))


@case(images, "down.1", "up.1")
class UNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.down = nn.Sequential(nn.Conv2d(3, 4, 3, padding=1), nn.BatchNorm2d(4), nn.ReLU())
        self.middle = nn.Conv2d(4, 4, 3, padding=1)
        self.up = nn.Sequential(nn.Conv2d(8, 4, 3, padding=1), nn.BatchNorm2d(4), nn.ReLU())
        self.head = nn.Conv2d(4, CLASSES, 1)

    def forward(self, x, labels):
        high = self.down(x)
        low = F.interpolate(F.relu(self.middle(F.max_pool2d(high, 2))), scale_factor=2, mode="nearest")
        logits = self.head(self.up(torch.cat([high, low], 1)))
        return F.cross_entropy(logits, labels[:, None, None].expand(BATCH, SIDE, SIDE))


@case(images)
class Depthwise(Classifier):
    def __init__(self):
        super().__init__()
        self.stem, self.depth, self.point = nn.Conv2d(3, 6, 1), nn.Conv2d(6, 6, 3, groups=6, padding=1), nn.Conv2d(6, 8, 1)
        self.head = nn.Linear(8, CLASSES)

    def logits(self, x):
        return self.head(F.hardswish(self.point(self.depth(self.stem(x)))).mean((2, 3)))


@case(lambda g: {"x": torch.randn(BATCH, 3, SIDE, SIDE, generator=g)})
class TransposedConv(nn.Module):
    def __init__(self):
        super().__init__()
        self.encode = nn.Conv2d(3, 5, 4, stride=2, padding=1)
        self.decode = nn.ConvTranspose2d(5, 3, 4, stride=2, padding=1)

    def forward(self, x):
        return F.mse_loss(self.decode(F.elu(self.encode(x))), x)


@case(series)
class DilatedConv1d(Classifier):
    def __init__(self):
        super().__init__()
        self.conv, self.head = nn.Conv1d(WIDTH, 7, 2, dilation=2), nn.Linear(7, CLASSES)

    def logits(self, x):
        return self.head(torch.tanh(self.conv(x.transpose(1, 2))).amax(2))


@case(images, "net.1")
class GroupNorm(Classifier):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Conv2d(3, 6, 3), nn.GroupNorm(3, 6), nn.ReLU(), nn.Conv2d(6, 8, 3), nn.GroupNorm(1, 8), nn.ReLU())
        self.head = nn.Linear(8, CLASSES)

    def logits(self, x):
        return self.head(self.net(x).mean((2, 3)))


@case(images)
class SqueezeExcite(Classifier):
    def __init__(self):
        super().__init__()
        self.stem, self.norm = nn.Conv2d(3, 8, 3, stride=2), nn.InstanceNorm2d(8, affine=True)
        self.squeeze, self.excite, self.act, self.head = nn.Conv2d(8, 2, 1), nn.Conv2d(2, 8, 1), nn.PReLU(8), nn.Linear(8, CLASSES)

    def logits(self, x):
        x = self.act(self.norm(self.stem(x)))
        gate = torch.sigmoid(self.excite(F.relu(self.squeeze(F.adaptive_avg_pool2d(x, 1)))))
        return self.head((x * gate).mean((2, 3)))


# ---- recurrent ------------------------------------------------------------------------------------------------------------------------

@case(series)
class Lstm(Classifier):
    def __init__(self):
        super().__init__()
        self.rnn, self.head = nn.LSTM(WIDTH, 7, batch_first=True), nn.Linear(7, CLASSES)

    def logits(self, x):
        return self.head(self.rnn(x)[0][:, -1])


@case(series)
class Gru(Lstm):
    def __init__(self):
        super().__init__()
        self.rnn = nn.GRU(WIDTH, 7, batch_first=True)


@case(series)
class Rnn(Lstm):
    def __init__(self):
        super().__init__()
        self.rnn = nn.RNN(WIDTH, 7, batch_first=True)


@case(series)
class BidirectionalLstm(Classifier):
    def __init__(self):
        super().__init__()
        self.rnn, self.head = nn.LSTM(WIDTH, 5, num_layers=2, bidirectional=True, batch_first=True), nn.Linear(10, CLASSES)

    def logits(self, x):
        return self.head(self.rnn(x)[0].mean(1))


@case(series, "ropout")
class LstmWithDropout(Lstm):
    def __init__(self):
        super().__init__()
        self.rnn = nn.LSTM(WIDTH, 7, num_layers=2, dropout=0.2, batch_first=True)


# ---- attention ------------------------------------------------------------------------------------------------------------------------

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


# ---- mixtures, tables, tied and derived weights -----------------------------------------------------------------------------------------

@case(features)
class SoftMixture(Classifier):
    def __init__(self):
        super().__init__()
        self.router, self.w1, self.w2 = nn.Linear(WIDTH, 3), nn.Parameter(torch.randn(3, WIDTH, 9) / 3), nn.Parameter(torch.randn(3, 9, CLASSES) / 3)

    def logits(self, x):
        hidden = F.relu(torch.einsum("bi,eij->ebj", x, self.w1))
        return torch.einsum("ebk,be->bk", torch.einsum("ebj,ejk->ebk", hidden, self.w2), self.router(x).softmax(1))


@case(features)
class TopKMixture(Classifier):
    def __init__(self):
        super().__init__()
        self.router, self.experts = nn.Linear(WIDTH, 3), nn.ModuleList(nn.Linear(WIDTH, CLASSES) for _ in range(3))

    def logits(self, x):
        weights, chosen = self.router(x).softmax(1).topk(2, 1)
        out = torch.stack([expert(x) for expert in self.experts], 1)
        gates = torch.zeros(BATCH, 3, dtype=x.dtype).scatter(1, chosen, weights / weights.sum(1, keepdim=True))
        return (out * gates[:, :, None]).sum(1)


@case(tokens)
class TiedEmbedding(LanguageModel):
    def __init__(self):
        super().__init__()
        self.embed, self.mix, self.head = nn.Embedding(VOCABULARY, WIDTH), nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, VOCABULARY, bias=False)
        self.head.weight = self.embed.weight

    def logits(self, ids):
        return self.head(torch.tanh(self.mix(self.embed(ids))))


@case(lambda g: {"x": torch.randn(BATCH, WIDTH, generator=g)})
class TiedAutoencoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight, self.bias = nn.Parameter(torch.randn(5, WIDTH) / 3), nn.Parameter(torch.zeros(5))

    def forward(self, x):
        return F.mse_loss(torch.sigmoid(F.linear(x, self.weight, self.bias)) @ self.weight, x)


@case(lambda g: {"ids": torch.randint(VOCABULARY, (BATCH, TOKENS), generator=g), "labels": torch.randint(CLASSES, (BATCH,), generator=g)})
class EmbeddingBag(nn.Module):
    def __init__(self):
        super().__init__()
        self.bag, self.head = nn.EmbeddingBag(VOCABULARY, WIDTH, mode="mean"), nn.Linear(WIDTH, CLASSES)

    def forward(self, ids, labels):
        return F.cross_entropy(self.head(self.bag(ids)), labels)


@case(lambda g: {"ids": torch.randint(4, (BATCH, TOKENS), generator=g), "labels": torch.randint(CLASSES, (BATCH,), generator=g)},
      "embed.weight row 0")
class PaddedEmbedding(nn.Module):
    """The row of padding stays as it is, also where it counts in a mean."""

    def __init__(self):
        super().__init__()
        self.embed, self.head = nn.Embedding(VOCABULARY, WIDTH, padding_idx=0), nn.Linear(WIDTH, CLASSES)

    def forward(self, ids, labels):
        return F.cross_entropy(self.head(self.embed(ids).mean(1)), labels)


@case(lambda g: {"ids": torch.randint(4, (BATCH, TOKENS), generator=g), "labels": torch.randint(CLASSES, (BATCH,), generator=g)},
      "embed.weight")
class PaddedPretrainedEmbedding(nn.Module):
    """The row of padding is not zeros: the table was loaded."""

    def __init__(self):
        super().__init__()
        self.embed, self.head = nn.Embedding.from_pretrained(torch.randn(VOCABULARY, WIDTH), freeze=False, padding_idx=1), nn.Linear(WIDTH, CLASSES)

    def forward(self, ids, labels):
        return F.cross_entropy(self.head(self.embed(ids).mean(1)), labels)


@case(lambda g: {"x": torch.randn(BATCH, 3, generator=g), "ids": torch.randint(VOCABULARY, (BATCH, 2), generator=g),
                 "y": torch.randint(2, (BATCH,), generator=g).float()})
class Recommender(nn.Module):
    """Tables, products of features, binary cross entropy: DLRM's form."""

    def __init__(self):
        super().__init__()
        self.bottom, self.tables = nn.Linear(3, WIDTH), nn.ModuleList(nn.Embedding(VOCABULARY, WIDTH) for _ in range(2))
        self.top = nn.Linear(WIDTH + 3, 1)

    def forward(self, x, ids, y):
        rows = torch.stack([F.relu(self.bottom(x)), *(table(ids[:, i]) for i, table in enumerate(self.tables))], 1)
        products = (rows @ rows.transpose(1, 2))[:, [0, 0, 1], [1, 2, 2]]
        return F.binary_cross_entropy_with_logits(self.top(torch.cat([rows[:, 0], products], 1))[:, 0], y)


@case(features)
class WeightNorm(Classifier):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.utils.parametrizations.weight_norm(nn.Linear(WIDTH, 9)), nn.Tanh(), nn.Linear(9, CLASSES))

    def logits(self, x):
        return self.net(x)


@case(images)
class WeightStandardization(Classifier):
    """A convolution whose weight is computed from its parameter."""

    def __init__(self):
        super().__init__()
        self.weight, self.head = nn.Parameter(torch.randn(6, 3, 3, 3)), nn.Linear(6, CLASSES)

    def logits(self, x):
        flat = self.weight.flatten(1)
        weight = ((flat - flat.mean(1, keepdim=True)) / flat.std(1, keepdim=True)).view_as(self.weight)
        return self.head(F.relu(F.conv2d(x, weight)).mean((2, 3)))


@case(features, "base.weight")
class Lora(Classifier):
    """Frozen linear layers with trained additions of low rank."""

    class Adapted(nn.Module):
        def __init__(self, inputs, outputs, rank=2):
            super().__init__()
            self.base = nn.Linear(inputs, outputs)
            self.base.requires_grad_(False)
            self.lora_A, self.lora_B = nn.Parameter(torch.randn(rank, inputs) / 3), nn.Parameter(torch.zeros(outputs, rank))

        def forward(self, x):
            return self.base(x) + 2.0 * (x @ self.lora_A.t()) @ self.lora_B.t()

    def __init__(self):
        super().__init__()
        self.logits = nn.Sequential(self.Adapted(WIDTH, 9), nn.ReLU(), self.Adapted(9, CLASSES))


@case(features, "backbone")
class FrozenBackbone(Classifier):
    def __init__(self):
        super().__init__()
        self.backbone, self.head = nn.Linear(WIDTH, 9), nn.Linear(9, CLASSES)
        self.backbone.requires_grad_(False)

    def logits(self, x):
        return self.head(F.relu(self.backbone(x)))


@case(features)
class UnusedParameters(Classifier):
    def __init__(self):
        super().__init__()
        self.net, self.pooler = nn.Linear(WIDTH, CLASSES), nn.Linear(WIDTH, WIDTH)

    def logits(self, x):
        return self.net(x)


@case(features, "mean", "std")
class NormalizedInputs(Classifier):
    """Statistics of the data as buffers, a learned gain as a scalar."""

    def __init__(self):
        super().__init__()
        self.register_buffer("mean", torch.randn(WIDTH))
        self.register_buffer("std", torch.rand(WIDTH) + 0.5)
        self.fc, self.gain = nn.Linear(WIDTH, CLASSES), nn.Parameter(torch.tensor(1.5))

    def logits(self, x):
        return self.fc((x - self.mean) / self.std) * self.gain


@case(features)
class FreshNorms(Classifier):
    """Parameters that begin equal: an optimizer of the exporter merges them."""

    def __init__(self):
        super().__init__()
        self.norm1, self.fc1 = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, WIDTH)
        self.norm2, self.fc2 = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, CLASSES)
        nn.init.zeros_(self.fc1.bias)
        nn.init.zeros_(self.fc2.bias)

    def logits(self, x):
        return self.fc2(self.norm2(F.relu(self.fc1(self.norm1(x)))))


# ---- losses and randomness --------------------------------------------------------------------------------------------------------------

@case(features, "ropout")
class Dropout(Classifier):
    def __init__(self):
        super().__init__()
        self.logits = nn.Sequential(nn.Linear(WIDTH, 12), nn.ReLU(), nn.Dropout(0.4), nn.Linear(12, CLASSES))


@case(images, "drop")
class DropoutOfChannels(Classifier):
    def __init__(self):
        super().__init__()
        self.conv, self.drop, self.head = nn.Conv2d(3, 8, 3), nn.Dropout2d(0.4), nn.Linear(8, CLASSES)

    def logits(self, x):
        return self.head(self.drop(F.relu(self.conv(x))).mean((2, 3)))


@case(features, "label_smoothing")
class LabelSmoothing(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(WIDTH, CLASSES)

    def forward(self, x, labels):
        return F.cross_entropy(self.fc(x), labels, label_smoothing=0.2)


@case(features)
class LabelSmoothingByHand(nn.Module):
    """Written so that every exporter keeps it."""

    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(WIDTH, CLASSES)

    def forward(self, x, labels):
        logits = self.fc(x)
        return 0.75 * F.cross_entropy(logits, labels) - 0.25 * F.log_softmax(logits, 1).mean()  # numbers that every format holds


@case(lambda g: {**tokens(g), "mask": (torch.rand(BATCH, TOKENS, generator=g) < 0.6).float()})
class MaskedTokens(nn.Module):
    """The mean of the tokens' losses over a mask."""

    def __init__(self):
        super().__init__()
        self.embed, self.head = nn.Embedding(VOCABULARY, WIDTH), nn.Linear(WIDTH, VOCABULARY)

    def forward(self, ids, labels, mask):
        losses = F.cross_entropy(self.head(self.embed(ids)).flatten(0, 1), labels.flatten(), reduction="none")
        return (losses * mask.flatten()).sum() / mask.sum()


@case(lambda g: {**tokens(g), "keep": torch.rand(BATCH, TOKENS, generator=g) < 0.6})
class IgnoredTokens(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed, self.head = nn.Embedding(VOCABULARY, WIDTH), nn.Linear(WIDTH, VOCABULARY)

    def forward(self, ids, labels, keep):
        labels = torch.where(keep, labels, torch.full_like(labels, -100))
        return F.cross_entropy(self.head(self.embed(ids)).transpose(1, 2), labels)


@case(lambda g: {**targets(g), "mask": torch.rand(BATCH, CLASSES, generator=g) < 0.7})
class MaskedMse(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(WIDTH, CLASSES)

    def forward(self, x, y, mask):
        errors = (self.fc(x) - y).square()
        return torch.where(mask, errors, torch.zeros_like(errors)).sum() / mask.sum()


@case(features)
class CrossEntropyByHand(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(WIDTH, CLASSES)

    def forward(self, x, labels):
        return -F.log_softmax(self.fc(x), 1).gather(1, labels[:, None]).mean()


@case(features, "weight")
class WeightedClasses(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc, self.loss = nn.Linear(WIDTH, CLASSES), nn.CrossEntropyLoss(weight=torch.tensor([0.5, 1.0, 2.0, 1.0, 3.0]))

    def forward(self, x, labels):
        return self.loss(self.fc(x), labels)


@case(lambda g: {"x": torch.randn(BATCH, WIDTH, generator=g), "y": torch.randn(BATCH, CLASSES, generator=g).softmax(1)})
class SoftTargets(nn.Module):
    """Cross entropy with probabilities as labels."""

    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(WIDTH, CLASSES)

    def forward(self, x, y):
        return F.cross_entropy(self.fc(x), y)


@case(lambda g: {"x": torch.randn(BATCH, WIDTH, generator=g), "y": torch.randint(2, (BATCH, CLASSES), generator=g).float()}, "pos_weight")
class BinaryCrossEntropy(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc, self.loss = nn.Linear(WIDTH, CLASSES), nn.BCEWithLogitsLoss(pos_weight=torch.tensor([1.0, 2.0, 0.5, 1.0, 3.0]))

    def forward(self, x, y):
        return self.loss(self.fc(x), y)


@case(lambda g: {"x": torch.randn(BATCH, WIDTH, generator=g), "y": torch.randint(2, (BATCH, CLASSES), generator=g).float()})
class BinaryCrossEntropyOfProbabilities(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(WIDTH, CLASSES)

    def forward(self, x, y):
        return F.binary_cross_entropy(torch.sigmoid(self.fc(x)), y)


@case(lambda g: {"x": torch.randn(BATCH, WIDTH, generator=g), "teacher": torch.randn(BATCH, CLASSES, generator=g)})
class Distillation(nn.Module):
    """Kullback-Leibler divergence from a teacher at temperature 2."""

    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(WIDTH, CLASSES)

    def forward(self, x, teacher):
        student = F.log_softmax(self.fc(x) / 2, 1)
        return F.kl_div(student, F.softmax(teacher / 2, 1), reduction="batchmean") * 4


@case(targets)
class RobustLosses(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(WIDTH, CLASSES)

    def forward(self, x, y):
        got = self.fc(x)
        return F.smooth_l1_loss(got, y) + F.huber_loss(got, y, delta=0.5) + F.l1_loss(got, y)


@case(lambda g: {"x": torch.randn(BATCH, WIDTH, generator=g), "y": torch.randn(BATCH, WIDTH, generator=g)}, "temperature")
class Contrastive(nn.Module):
    """CLIP's loss: normalized embeddings, a learned temperature."""

    def __init__(self):
        super().__init__()
        self.left, self.right = nn.Linear(WIDTH, 5), nn.Linear(WIDTH, 5)
        self.temperature = nn.Parameter(torch.tensor(math.log(1 / 0.07)))

    def forward(self, x, y):
        scores = F.normalize(self.left(x), dim=1) @ F.normalize(self.right(y), dim=1).t() * self.temperature.exp()
        labels = torch.arange(BATCH)
        return (F.cross_entropy(scores, labels) + F.cross_entropy(scores.t(), labels)) / 2
