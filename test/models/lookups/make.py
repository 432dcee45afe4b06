#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes the models of this folder: losses written by hand, lookups by index, and inner 16-bit casts, each exported by PyTorch's newer and older
exporter, with the losses of PyTorch itself. Needs torch and onnx (made with torch 2.13.0 and onnx 1.23.2):

    python3 test/models/lookups/make.py

NAME.new.onnx and NAME.old.onnx are the exports, NAME.npz the data, golden.json has the losses of SGD.
"""
import contextlib
import copy
import io
import json
import logging
import os
import warnings

import numpy
import onnx
import torch
import torch.nn.functional as F
from torch import nn

FOLDER = os.path.dirname(os.path.abspath(__file__))
STEPS, LEARNING_RATE = 5, 0.5
VOCABULARY, BATCH, SEQUENCE, WIDTH, CLASSES = 13, 8, 4, 8, 6  # 13: no number of ranks divides it
IGNORED = -100


class LanguageModel(nn.Module):
    def __init__(self, loss):
        super().__init__()
        self.table, self.inner, self.head = nn.Embedding(VOCABULARY, WIDTH), nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, VOCABULARY)
        self.loss = loss

    def forward(self, ids, labels):
        return self.loss(self.head(torch.tanh(self.inner(self.table(ids)))), labels)


class Lookup(nn.Module):
    """A linear layer under what `function` does with its result."""

    def __init__(self, function, classes=CLASSES):
        super().__init__()
        self.linear, self.function = nn.Linear(WIDTH, classes), function

    def forward(self, x, *indices):
        return self.function(self.linear(x), *indices)


class Bag(nn.Module):
    def __init__(self, mode):
        super().__init__()
        self.bag, self.head = nn.EmbeddingBag(VOCABULARY, WIDTH, mode=mode), nn.Linear(WIDTH, CLASSES)

    def forward(self, ids):
        return self.head(self.bag(ids)).pow(2).mean()


class Disentangled(nn.Module):
    """DeBERTa's attention scores from relative positions."""

    def __init__(self):
        super().__init__()
        self.query, self.key, self.relative = nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, WIDTH), nn.Embedding(2 * SEQUENCE, WIDTH)

    def forward(self, x):
        heads = lambda y: y.view(y.shape[0], SEQUENCE, 2, WIDTH // 2).transpose(1, 2)
        query, key = heads(self.query(x)), heads(self.key(x))
        position = self.relative.weight.view(2 * SEQUENCE, 2, WIDTH // 2).transpose(0, 1)
        at = (torch.arange(SEQUENCE)[:, None] - torch.arange(SEQUENCE)[None] + SEQUENCE).expand(x.shape[0], 2, SEQUENCE, SEQUENCE)
        scores = query @ key.transpose(-1, -2)
        scores = scores + torch.gather(query @ position.transpose(-1, -2), -1, at)
        scores = scores + torch.gather(key @ position.transpose(-1, -2), -1, at).transpose(-1, -2)
        return ((scores.softmax(-1) @ key) - heads(x)).pow(2).mean()


class Half(nn.Module):
    """Two layers, and between them what `dtype` makes of numbers near 16, where bfloat16 has steps of 1/8."""

    def __init__(self, dtype):
        super().__init__()
        self.first, self.second, self.dtype = nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, CLASSES), dtype

    def forward(self, x):
        h = (self.first(x) + 16).to(self.dtype)
        h = h * 0.375 + h.abs().sqrt()  # 0.375 is a number of both formats: an exporter rounds constants, PyTorch does not
        return self.second(h.float() - 8).pow(2).mean() / 1000  # so that training is stable: inputs are large


def log_probabilities(logits):
    return F.log_softmax(logits, -1)


def masked(logits, labels):
    counts = (labels != IGNORED).float()
    each = -log_probabilities(logits).gather(-1, labels.clamp(min=0).unsqueeze(-1)).squeeze(-1)
    return (each * counts).sum() / counts.sum()


def masked_where(logits, labels):
    counts = labels != IGNORED
    each = -torch.gather(log_probabilities(logits), 2, torch.where(counts, labels, 0)[..., None])[..., 0]
    return torch.where(counts, each, torch.zeros_like(each)).sum() / counts.sum()


def arange(logits, labels):
    flat = log_probabilities(logits.view(-1, VOCABULARY))
    return -flat[torch.arange(flat.shape[0]), labels.view(-1)].mean()


def policy(logits, actions):
    advantage = torch.linspace(-1, 1, BATCH * SEQUENCE).view(BATCH, SEQUENCE)
    chosen = torch.distributions.Categorical(logits=logits, validate_args=False)
    return -(chosen.log_prob(actions) * advantage).mean() - 0.01 * chosen.entropy().mean()


# name -> the loss; all but "policy" and "shifted" are the mean cross entropy.
LOSSES = {
    "library": lambda x, y: F.cross_entropy(x.view(-1, VOCABULARY), y.view(-1)),
    "gather": lambda x, y: -log_probabilities(x).gather(-1, y.unsqueeze(-1)).squeeze(-1).mean(),
    "arange": arange,
    "one_hot": lambda x, y: -(F.one_hot(y, VOCABULARY) * log_probabilities(x)).sum(-1).mean(),
    "difference": lambda x, y: (torch.logsumexp(x, -1) - x.gather(-1, y[..., None])[..., 0]).mean(),
    "likelihood": lambda x, y: F.nll_loss(log_probabilities(x).view(-1, VOCABULARY), y.view(-1)),
    "masked": masked,
    "masked_where": masked_where,
    "policy": policy,
    "shifted": lambda x, y: -log_probabilities(x)[:, :-1].gather(2, y[:, 1:].unsqueeze(2)).mean(),
    "weighted": lambda x, y: F.nll_loss(log_probabilities(x).view(-1, VOCABULARY), y.view(-1), weight=torch.linspace(0.5, 2, VOCABULARY)),
}


def models():
    """name -> (module, inputs, their names)."""
    torch.manual_seed(0)
    ids, labels = torch.randint(0, VOCABULARY, (BATCH, SEQUENCE)), torch.randint(0, VOCABULARY, (BATCH, SEQUENCE))
    some = labels.clone()
    some[torch.rand(BATCH, SEQUENCE) < 0.4] = IGNORED
    x, kept = torch.randn(BATCH, SEQUENCE, WIDTH), torch.tensor([True, False, True, True])
    for name, loss in LOSSES.items():
        torch.manual_seed(1)
        yield name, LanguageModel(loss), (ids, some if name.startswith("masked") else labels), ["ids", "labels"]
    torch.manual_seed(2)
    yield "bag_sum", Bag("sum"), (ids,), ["ids"]
    yield "bag_mean", Bag("mean"), (ids,), ["ids"]
    yield "disentangled", Disentangled(), (x,), ["x"]
    yield "last_token", Lookup(lambda h, n: h[torch.arange(BATCH), n].pow(2).mean()), (x, torch.randint(0, SEQUENCE, (BATCH,))), ["x", "n"]
    yield "value", Lookup(lambda h, a: (h.gather(-1, a[..., None]).squeeze(-1) - 1).pow(2).mean()), (x, torch.randint(0, CLASSES, (BATCH, SEQUENCE))), ["x", "a"]
    yield "static_mask", Lookup(lambda h: h[:, kept].pow(2).mean()), (x,), ["x"]
    yield "bfloat16", Half(torch.bfloat16), (x,), ["x"]
    yield "float16", Half(torch.float16), (x,), ["x"]


def strip(graph):
    """Removes what only people and PyTorch read, so that the files stay small."""
    for node in graph.node:
        del node.metadata_props[:]
        node.doc_string = ""
        for attribute in node.attribute:
            if attribute.HasField("g"):
                strip(attribute.g)
    if graph.name != "main_graph":
        del graph.value_info[:]


def export(module, inputs, names, kind):
    path = os.path.join(FOLDER, "made.onnx")
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        if kind == "new":
            torch.onnx.export(module, inputs, path, dynamo=True, optimize=False, external_data=False, input_names=names, output_names=["loss"])
        else:
            torch.onnx.export(module, inputs, path, dynamo=False, do_constant_folding=False, training=torch.onnx.TrainingMode.TRAINING,
                              opset_version=18, input_names=names, output_names=["loss"])
    model = onnx.load(path)
    os.remove(path)
    strip(model.graph)
    return model


def main():
    warnings.filterwarnings("ignore")
    logging.disable(logging.WARNING)
    golden = {"steps": STEPS, "learning_rate": LEARNING_RATE, "losses": {}}
    for name, module, inputs, names in models():
        module.train()
        for kind in ("new", "old"):
            onnx.save(export(module, inputs, names, kind), os.path.join(FOLDER, f"{name}.{kind}.onnx"))
        numpy.savez(os.path.join(FOLDER, f"{name}.npz"), **{name: value.numpy()[None] for name, value in zip(names, inputs)})
        trained, losses = copy.deepcopy(module), []
        optimizer = torch.optim.SGD(trained.parameters(), lr=LEARNING_RATE)
        for _ in range(STEPS):
            optimizer.zero_grad()
            loss = trained(*inputs)
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
        golden["losses"][name] = losses
    with open(os.path.join(FOLDER, "golden.json"), "w") as file:
        json.dump(golden, file, indent=1)
        file.write("\n")


if __name__ == "__main__":
    main()
