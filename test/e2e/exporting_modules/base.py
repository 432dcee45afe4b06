# SPDX-License-Identifier: Apache-2.0
"""Code that the modules share: the sizes, the inputs of a step, the decorator `case` that lists a module, and two losses."""
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
