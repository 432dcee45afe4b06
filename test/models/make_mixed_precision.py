#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes mixed_precision.json: PyTorch's own mixed precision (torch.autocast, torch.amp.GradScaler) on the GPT-2 of examples/gpt2, from the
weights and batches of that folder: how far losses in bf16 and f16 are from those in float64, which steps are skipped, which loss scales follow.

Needs PyTorch 2.13 and Transformers 5.23 (pip install torch transformers numpy).
"""
import importlib.util
import json
import os
import sys
import types

import numpy as np
import torch

HERE = os.path.dirname(os.path.abspath(__file__))
GPT2 = os.path.join(os.path.dirname(os.path.dirname(HERE)), "examples", "gpt2")
SCALER = {"initial": 2.0**30, "growth_interval": 3}  # overflows at first, then grows again and again


def exporter():
    """export.py as a module. What it exports with is not needed here."""
    for name in ("onnx", "onnxscript"):
        sys.modules.setdefault(name, types.ModuleType(name))
    spec = importlib.util.spec_from_file_location("export", os.path.join(GPT2, "export.py"))
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def train(export, batches, optimizer, dtype, scaler):
    model = export.make_model()
    update = getattr(export, optimizer)(model.parameters())
    losses, scales, skipped = [], [], []
    for step in range(export.STEPS):
        scales.append(scaler.get_scale())
        update.zero_grad()
        with torch.autocast("cpu", dtype=dtype):
            loss, _ = model(**{name: torch.from_numpy(array[step]) for name, array in batches.items()})
        scaler.scale(loss).backward()
        scaler.step(update)
        scaler.update()
        losses.append(loss.item())
        if scaler.is_enabled() and scaler.get_scale() < scales[-1]:
            skipped.append(step)
    return losses, scales, skipped


def main():
    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(True)
    export = exporter()
    batches = dict(np.load(os.path.join(GPT2, "batches.npz")))
    result = {"made_with": {"torch": torch.__version__}, "scaler": SCALER, "bf16": {}, "f16": {}}
    for optimizer in ("sgd", "adamw"):
        result["bf16"][optimizer], _, _ = train(export, batches, optimizer, torch.bfloat16, torch.amp.GradScaler("cpu", enabled=False))
        scaler = torch.amp.GradScaler("cpu", init_scale=SCALER["initial"], growth_interval=SCALER["growth_interval"])
        losses, scales, skipped = train(export, batches, optimizer, torch.float16, scaler)
        result["f16"][optimizer] = {"losses": losses, "scales": scales, "skipped": skipped}
    with open(os.path.join(HERE, "mixed_precision.json"), "w") as file:
        json.dump(result, file, indent=1)
        file.write("\n")


if __name__ == "__main__":
    main()
