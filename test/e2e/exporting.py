#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Exports each module of exporting_modules/ in the ways that people type, trains it with Kerf, and compares the losses with PyTorch's.

Needs torch, onnx and onnxscript. `exporting.py [NAME ...]` prints a table; status 1 where an export trains another model without a
warning before its first step. `exporting.py --fixtures` writes the exports of test/models/exports, with PyTorch's losses.
"""
import contextlib
import copy
import json
import os
import subprocess
import sys
import tempfile
import warnings

import torch

from exporting_modules import MODULES
from support import KERF, ROOT, losses_of, write_npz

torch.set_num_threads(1)

STEPS, RATE = 4, 0.1
TOLERANCE = {"f32": 2e-4, "f64": 1e-9}  # relative
WAYS = {"default": {}, "raw": {"dynamo": True, "optimize": False}, "old": {"dynamo": False}}
EXACT = {"dynamo": False, "training": torch.onnx.TrainingMode.TRAINING, "do_constant_folding": False}  # docs/exporting.md
# Exports that are tested where there is no PyTorch: module, mode, way -> what Kerf does, and words that it says before the first step.
FIXTURES = [
    ("FreshNorms", "train", "default", "refused", ["norm2.weight", "fc1.bias", "4 parameters"]),
    ("SlicedPositions", "train", "default", "refused", ["pos (now in the constant slice_1 [1, 6, 8])"]),
    ("WeightNorm", "train", "default", "refused", ["net.0.parametrizations.weight.original0"]),
    ("ConvBatchNorm", "train", "default", "refused", ["conv1.weight", "bn1.weight", "bn2.bias"]),
    ("ConvBatchNorm", "train", "old", "refused", ["onnx::Conv_"]),
    ("ConvBatchNorm", "train", "raw", "warned", ["batch normalization with batch statistics", "bn1, bn2"]),
    ("ConvBatchNorm", "train", "exact", "equal", ["; running statistics: ", "bn1.running_mean"]),
    ("Lstm", "train", "old", "refused", ["onnx::LSTM_"]),
    ("LabelSmoothing", "train", "raw", "warned", ["label_smoothing=0.2"]),
    ("AttentionDropout", "train", "raw", "warned", ["attention (scaled_dot_product_attention)"]),
    ("Dropout", "train", "old", "warned", ["this graph has no dropout", "; no dropout"]),
    ("SinusoidalPositions", "train", "old", "warned", ["buffer constant): pe"]),
    ("SinusoidalPositions", "train", "raw", "equal", ["constant: pe"]),
    ("PaddedEmbedding", "train", "old", "warned", ["embed.weight row 0"]),
    ("Lora", "train", "raw", "warned", ["logits.0.lora_A", "logits.0.base.weight"]),
    ("Detached", "train", "raw", "equal", []),
    ("Detached", "train", "default", "warned", ["removed detach()", "optimize=False"]),
    ("DetachedParameter", "train", "raw", "equal", []),
    ("MovingAverage", "train", "raw", "warned", ["forward() writes", "center"]),
    ("CellsFromZeros", "train", "default", "refused", ["a use of cell.", "now in the constant"]),
    ("UnusedParameters", "train", "raw", "equal", ["pooler.weight, pooler.bias", "training 2 tensors, 45 parameters: net.weight, net.bias"]),
]
RANDOM = "dropout"  # what a graph has that trains with random numbers, of which Kerf draws others than PyTorch
NUMPY = {torch.float32: "<f4", torch.float64: "<f8", torch.int64: "<i8", torch.bool: "|b1"}


def make(name, dtype, mode):
    """The module with its first weights, and the inputs of each step."""
    torch.manual_seed(7)
    case = MODULES[name]
    module = case.module()
    with torch.no_grad():
        for buffer in (b for n, b in module.named_buffers() if n.endswith(("running_mean", "running_var"))):
            buffer.add_(torch.rand_like(buffer) * 0.3)  # as after some training
    generator = torch.Generator().manual_seed(11)
    steps = [case.inputs(generator) for _ in range(STEPS)]
    if dtype == "f64":
        module = module.double()
        steps = [{n: t.double() if t.is_floating_point() else t for n, t in step.items()} for step in steps]
    return module.train(mode == "train"), steps


def torch_losses(module, steps):
    module = copy.deepcopy(module)
    optimizer = torch.optim.SGD([p for p in module.parameters() if p.requires_grad], lr=RATE)
    losses = []
    for step in steps:
        optimizer.zero_grad()
        loss = module(**step)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


@contextlib.contextmanager
def quiet():
    """Exporters print progress from Python and from C++."""
    sys.stdout.flush()
    sys.stderr.flush()
    kept = [os.dup(1), os.dup(2)]
    with open(os.devnull, "w") as nowhere, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        os.dup2(nowhere.fileno(), 1)
        os.dup2(nowhere.fileno(), 2)
        try:
            yield
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            for number, copy_of in enumerate(kept, 1):
                os.dup2(copy_of, number)
                os.close(copy_of)


def export(module, step, path, **how):
    """As people call it; what the exporter refuses is given as text, else "". """
    how = dict(how)
    if how.get("dynamo") is False:
        how["input_names"] = list(step)
    try:
        with quiet():
            torch.onnx.export(module, tuple(step.values()), path, **how)
    except Exception as error:
        return f"{type(error).__name__}: {str(error).splitlines()[0]}"
    return ""


def write_batches(path, steps):
    arrays = {}
    for name in steps[0]:
        stack = torch.stack([step[name] for step in steps]).contiguous()
        arrays[name] = (NUMPY[stack.dtype], list(stack.shape), stack.numpy().tobytes())
    return write_npz(path, arrays)


def is_random(module, steps):
    return torch_losses(module, steps) != torch_losses(module, steps)


def judge(name, mode, way, dtype, folder, **more):
    """(verdict, detail): equal, random, refused, warned, not exported, or SILENT."""
    module, steps = make(name, dtype, mode)
    model, log = os.path.join(folder, "model.onnx"), os.path.join(folder, "log")
    failed = export(copy.deepcopy(module), steps[0], model, **WAYS[way], **more)
    if failed:
        return "not exported", failed
    data = write_batches(os.path.join(folder, "batches.npz"), steps)
    done = subprocess.run([KERF, "train", model, "--data", data, "--steps", str(STEPS), "--lr", str(RATE), "--dtype", dtype, "--log", log],
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    before = done.stderr.split("step     0")[0]
    if done.returncode == 1:
        return "refused", before.strip()
    if done.returncode:
        return "SILENT", f"kerf ended with {done.returncode}: {done.stderr[-300:]}"
    said = [line for line in before.splitlines() if line.startswith(("warning: ", "training "))]
    if is_random(module, steps):
        ops = json.loads(subprocess.run([KERF, "import", model, "--json"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL).stdout)["ops"]
        if any(RANDOM in op for op in ops):
            return "random", "\n".join(said)
    else:
        expected, got = torch_losses(module, steps), losses_of(log)
        error = max(abs(a - b) / abs(b) for a, b in zip(got, expected))
        if error <= TOLERANCE[dtype]:
            return "equal", f"{error:.1e}"
        said.insert(0, f"{error:.1e}")
    if any(word in line for line in said for word in MODULES[name].differs):
        return "warned", "\n".join(said)
    return "SILENT", "\n".join(said)


def write_fixtures():
    """Small files: weights inside, and of the nodes' metadata what Kerf reads (stack traces also name the files of a machine)."""
    import onnx
    golden = []
    folder = os.path.join(ROOT, "test", "models", "exports")
    os.makedirs(folder, exist_ok=True)
    for name, mode, way, verdict, words in FIXTURES:
        module, steps = make(name, "f32", mode)
        file = f"{name}-{way}.onnx"
        failed = export(copy.deepcopy(module), steps[0], os.path.join(folder, file), **(EXACT if way == "exact" else WAYS[way]))
        if failed:
            sys.exit(f"{file}: {failed}")
        graph = onnx.load(os.path.join(folder, file))
        for node in graph.graph.node:
            for pair in [pair for pair in node.metadata_props if pair.key in ("pkg.torch.onnx.stack_trace", "namespace")]:
                node.metadata_props.remove(pair)
        onnx.save(graph, os.path.join(folder, file))
        with contextlib.suppress(FileNotFoundError):
            os.remove(os.path.join(folder, file + ".data"))  # the weights are in the file now
        write_batches(os.path.join(folder, f"{name}.npz"), steps)
        golden.append({"file": file, "data": f"{name}.npz", "verdict": verdict, "words": words})
        if verdict == "equal":
            golden[-1]["losses"] = torch_losses(*make(name, "f64", mode))
    with open(os.path.join(folder, "golden.json"), "w") as file:
        json.dump({"lr": RATE, "exports": golden}, file, indent=1)
        file.write("\n")


def main(names):
    if names == ["--fixtures"]:
        return write_fixtures()
    wrong = 0
    print(f"{'module':24}" + "".join(f"{mode + ' ' + way:>20}" for mode in ("train", "eval") for way in WAYS))
    details = []
    with tempfile.TemporaryDirectory(prefix="kerf-exporting-") as folder:
        for name in names or MODULES:
            row = f"{name:24}"
            for mode in ("train", "eval"):
                for way in WAYS:
                    for dtype in TOLERANCE:  # f64 where f32 is equal: the same graph is refused or warned of
                        verdict, detail = judge(name, mode, way, dtype, tempfile.mkdtemp(dir=folder))
                        details.append(f"--- {name} {mode} {way} {dtype}: {verdict}\n{detail}")
                        if verdict != "equal":
                            break
                    wrong += verdict == "SILENT"
                    row += f"{verdict if verdict != 'SILENT' else verdict + ' ' + dtype:>20}"
            print(row, flush=True)
    with open(os.environ.get("KERF_EXPORTING_DETAILS", os.devnull), "w") as file:
        file.write("\n".join(details) + "\n")
    print(f"{len(names or MODULES)} modules, {wrong} trained as another model without a warning")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
