#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes model.onnx, batches.npz and golden.json: a classifier that returns its loss, its accuracy and how many it got right, and PyTorch's
float64 means of them over all batches after each of six steps of SGD.

Needs torch, onnx, onnxscript:  python make.py
"""
import json
import os

import numpy
import torch
from torch import nn
from torch.nn import functional as F

FOLDER = os.path.dirname(os.path.abspath(__file__))
BATCH, TOKENS, WIDTH, CLASSES, BATCHES, STEPS, RATE = 8, 4, 12, 5, 3, 6, 0.5


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.up, self.head = nn.Linear(WIDTH, 24), nn.Linear(24, CLASSES)

    def forward(self, x, labels):
        logits = self.head(torch.tanh(self.up(x)))
        right = logits.argmax(-1) == labels
        return F.cross_entropy(logits.flatten(0, 1), labels.flatten()), right.double().mean().to(x.dtype), right.sum()


torch.manual_seed(5)
model = Model()
x = torch.randn(BATCHES, BATCH, TOKENS, WIDTH)
labels = torch.randint(CLASSES, (BATCHES, BATCH, TOKENS))
torch.onnx.export(model, (x[0], labels[0]), os.path.join(FOLDER, "model.onnx"), input_names=["x", "labels"],
                  output_names=["loss", "accuracy", "right"], dynamo=True, optimize=False, external_data=False)
numpy.savez(os.path.join(FOLDER, "batches.npz"), x=x.numpy(), labels=labels.numpy())
model, x = model.double(), x.double()
optimizer = torch.optim.SGD(model.parameters(), RATE)
evaluations = []
for step in range(STEPS):
    optimizer.zero_grad()
    model(x[step % BATCHES], labels[step % BATCHES])[0].backward()
    optimizer.step()
    with torch.no_grad():
        means = [sum(float(value) for value in values) / BATCHES for values in zip(*(model(x[b], labels[b]) for b in range(BATCHES)))]
    evaluations.append(dict(zip(("loss", "accuracy", "right"), means)))
with open(os.path.join(FOLDER, "golden.json"), "w") as file:
    json.dump({"learning_rate": RATE, "steps": STEPS, "evaluations": evaluations}, file, indent=1)
    file.write("\n")
