# SPDX-License-Identifier: Apache-2.0
"""Mixtures, tables, and weights that are tied, derived, frozen or added."""
import torch
import torch.nn as nn
import torch.nn.functional as F

from .base import BATCH, CLASSES, TOKENS, VOCABULARY, WIDTH, Classifier, LanguageModel, case, features, images, tokens


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
