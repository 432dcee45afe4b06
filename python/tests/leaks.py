#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Plans, asks, fails and trains a number of times, for scripts/sanitize-python.sh, which compares what stays in memory: leaks.py ROUNDS."""
import os
import sys

import numpy as np

import kerf

EXAMPLE = os.path.join(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))), "examples", "gpt2")


def one_round(model, data):
    plan = kerf.plan(model, ranks=2, optimizer="adamw", progress=False, search="whole")
    kerf.simulate(plan=plan)
    kerf.explain(plan)
    for wrong in ({"ranks": 0}, {"ranks": 2, "optimizer": "none such"}, {"ranks": 2, "memory": 1000}):
        try:
            kerf.plan(model, **wrong)
        except kerf.Error:
            continue
        raise AssertionError(f"kerf.plan takes {wrong}")
    trainer = kerf.Trainer(model, ranks=2, optimizer="adamw", lr=1e-3)
    trainer.step(input_ids=data["input_ids"][0], labels=data["labels"][0])
    trainer.parameters(states=True)


for _ in range(int(sys.argv[1])):
    one_round(os.path.join(EXAMPLE, "model.onnx"), np.load(os.path.join(EXAMPLE, "batches.npz")))
