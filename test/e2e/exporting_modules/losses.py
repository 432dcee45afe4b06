# SPDX-License-Identifier: Apache-2.0
"""Losses, and layers that draw random numbers."""
import math

import torch
import torch.nn as nn
import torch.nn.functional as F

from .base import BATCH, CLASSES, TOKENS, VOCABULARY, WIDTH, Classifier, case, features, images, series, targets, tokens


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


@case(features, "detach()")
class Detached(nn.Module):
    """The target branch of a siamese loss gets no gradient (SimSiam)."""

    def __init__(self):
        super().__init__()
        self.encoder, self.predictor = nn.Linear(WIDTH, CLASSES), nn.Linear(CLASSES, CLASSES)

    def forward(self, x, labels):
        z, y = self.encoder(x), self.encoder(x.flip(0))
        return F.cross_entropy(z, labels) - F.cosine_similarity(self.predictor(z), y.detach()).mean()


@case(features, "detach()")
class DetachedParameter(Classifier):
    """A parameter of which one use gets no gradient."""

    def __init__(self):
        super().__init__()
        self.fc, self.gate = nn.Linear(WIDTH, CLASSES), nn.Parameter(torch.full((CLASSES,), 0.5))

    def logits(self, x):
        return self.fc(x) * self.gate + self.gate.detach() ** 2


@case(features, "detach()")
class StraightThrough(Classifier):
    """Rounded forward, the identity backward."""

    def __init__(self):
        super().__init__()
        self.up, self.head = nn.Linear(WIDTH, 6), nn.Linear(6, CLASSES)

    def logits(self, x):
        h = torch.tanh(self.up(x))
        return self.head(h + (torch.sign(h) - h).detach())


@case(features, "forward() writes", "leave no trace")
class MovingAverage(Classifier):
    """A buffer that forward() writes."""

    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(WIDTH, CLASSES)
        self.register_buffer("center", torch.zeros(CLASSES))

    def logits(self, x):
        y = self.fc(x)
        if self.training:
            self.center.mul_(0.9).add_(0.1 * y.detach().mean(0))
        return y - self.center


@case(series, "now in the constant")
class CellsFromZeros(Classifier):
    """Recurrent cells that begin with zeros: the first step's product with them may be folded, the others not."""

    def __init__(self):
        super().__init__()
        self.cell, self.head = nn.GRUCell(WIDTH, 6), nn.Linear(6, CLASSES)

    def logits(self, x):
        h = torch.zeros(x.shape[0], 6, dtype=x.dtype)
        for t in range(x.shape[1]):
            h = self.cell(x[:, t], h)
        return self.head(h)


@case(features, "now in the constant")
class WeightPenalty(nn.Module):
    """A penalty of the weights themselves."""

    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(WIDTH, CLASSES)

    def forward(self, x, labels):
        return F.cross_entropy(self.fc(x), labels) + 0.01 * self.fc.weight.abs().sum()
