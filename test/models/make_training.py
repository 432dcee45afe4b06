#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes mlp/training.json: PyTorch's float64 losses of the mlp with accumulated gradients, parameter groups and evaluations.

Needs torch, onnx, transformers:  python make_training.py

Labels of batches.npz are left out of the loss (-100) where (7 * step + sample) % 9 < step % 6, so that batches have different denominators;
test/e2e/test_training.py makes the same.
"""
import json
import os

import numpy
import onnx
import torch
from onnx import numpy_helper
from torch.nn.functional import cross_entropy, gelu, layer_norm, linear
from transformers import get_linear_schedule_with_warmup

FOLDER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "mlp")
DATA = numpy.load(os.path.join(FOLDER, "batches.npz"))
INITIAL = {tensor.name: numpy_helper.to_array(tensor) for tensor in onnx.load(os.path.join(FOLDER, "model.onnx")).graph.initializer}


def batches():
    x, labels = DATA["x"].astype("float64"), DATA["labels"].copy()
    for step in range(labels.shape[0]):
        for sample in range(labels.shape[1]):
            if (7 * step + sample) % 9 < step % 6:
                labels[step, sample] = -100
    return [(torch.tensor(x[i]), torch.tensor(labels[i])) for i in range(len(x))]


def parameters():
    return {name: torch.nn.Parameter(torch.tensor(array.astype("float64"))) for name, array in INITIAL.items()}


def loss_of(p, batch):
    x, labels = batch
    hidden = gelu(linear(x, p["up.weight"], p["up.bias"]))
    normed = layer_norm(hidden, [53], p["norm.weight"], p["norm.bias"], 9.999999747378752e-06)
    hidden = hidden + torch.tanh(linear(normed, p["mid.weight"], p["mid.bias"])) * p["gate"]
    logits = linear(torch.relu(linear(hidden, p["down.weight"], p["down.bias"])), p["head.weight"])
    return cross_entropy(logits, labels)


def train(p, optimizer, steps, accumulate=1, clip=0.0, schedule=None, every=0):
    data, losses, evaluations = batches(), [], []
    for step in range(steps):
        optimizer.zero_grad()
        total = 0.0
        for i in range(accumulate):
            loss = loss_of(p, data[(step * accumulate + i) % len(data)]) / accumulate
            loss.backward()
            total += loss.item()
        if clip:
            torch.nn.utils.clip_grad_norm_(p.values(), clip)
        optimizer.step()
        if schedule:
            schedule.step()
        losses.append(total)
        if every and ((step + 1) % every == 0 or step + 1 == steps):
            with torch.no_grad():
                evaluations.append([step, sum(loss_of(p, batch).item() for batch in data[:7]) / 7])
    return {"losses": losses, **({"evaluations": evaluations} if every else {})}


def adamw(p, **more):
    return torch.optim.AdamW(p.values(), **more)


runs = {}
p = parameters()
runs["adamw, accumulate 3"] = train(p, adamw(p, lr=1e-2, weight_decay=0.01), 8, accumulate=3)
p = parameters()
runs["sgd, accumulate 4, clip"] = train(p, torch.optim.SGD(p.values(), lr=0.1, momentum=0.9), 8, accumulate=4, clip=0.3)
p = parameters()
runs["adamw, evaluated"] = train(p, adamw(p, lr=1e-2, weight_decay=0.01), 8, every=3)
p = parameters()
groups = [{"params": [p[n] for n in p if n.endswith(".bias")], "lr": 0.03, "weight_decay": 0.0},
          {"params": [p[n] for n in p if n.startswith("norm") and not n.endswith(".bias")], "weight_decay": 0.5},
          {"params": [p["head.weight"]], "lr": 0.002},
          {"params": [p[n] for n in p if not n.endswith(".bias") and not n.startswith("norm") and n != "head.weight"]}]
optimizer = torch.optim.AdamW(groups, lr=1e-2, weight_decay=0.01)
runs["adamw, groups"] = train(p, optimizer, 8, schedule=get_linear_schedule_with_warmup(optimizer, 2, 10))

with open(os.path.join(FOLDER, "training.json"), "w", encoding="utf-8") as file:
    json.dump({"made_with": {"torch": torch.__version__}, "runs": runs}, file, indent=1)
    file.write("\n")
