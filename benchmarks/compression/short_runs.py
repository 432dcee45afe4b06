#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compares codecs in short trainings of a small network, in which the errors of codecs show at once: 64-256-256-10 with ReLU, 4 ranks, 512 samples a step (with fewer, Kerf gathers activations in place of summing gradients).

`short_runs.py [--steps 400] [--seeds 3] [CODEC...]` prints the mean loss of the last quarter of the steps with each codec, over the seeds, beside float32. The samples
are normal numbers, and a random network of the same form labels them; every tenth label is wrong. All codecs train with SGD (rate 0.05, decaying linearly, momentum
0.9); `adam` and `onebit-adam` (warm-up of 20 % of the steps) with rate 0.001. Weights are compressed and biases are not. Needs numpy. KERF names the program.
"""
import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile

import numpy

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(ROOT, "test", "e2e"))
from support import FLOAT, INT64, onnx_model, onnx_node, onnx_tensor, onnx_value  # noqa: E402

KERF = os.path.abspath(os.environ.get("KERF", os.path.join(ROOT, "build", "bin", "kerf")))
SIZES, BATCH, RANKS, SAMPLES = (64, 256, 256, 10), 512, 4, 8192
CODECS = ("none", "bf16", "int8", "int4", "qsgd", "natural", "terngrad", "onebit", "tbq", "topk", "topk-sampled", "graddrop", "dgc", "powersgd", "powersgd-2",
          "adam", "onebit-adam")


def network(random):
    return [random.normal(0, numpy.sqrt(2 / size), (size, width)).astype(numpy.float32) for size, width in zip(SIZES, SIZES[1:])]


def write_files(folder, seed, steps):
    random = numpy.random.default_rng(seed)
    x = random.normal(size=(SAMPLES, SIZES[0])).astype(numpy.float32)
    hidden = x
    for weight in network(random):
        hidden = numpy.maximum(hidden @ weight, 0) if weight.shape[1] != SIZES[-1] else hidden @ weight
    labels = hidden.argmax(1)
    wrong = random.random(SAMPLES) < 0.1
    labels[wrong] = random.integers(0, SIZES[-1], wrong.sum())
    chosen = numpy.concatenate([random.permutation(SAMPLES) for _ in range(steps * BATCH // SAMPLES + 1)])[:steps * BATCH].reshape(steps, BATCH)
    numpy.savez(os.path.join(folder, "data.npz"), x=x[chosen], labels=labels[chosen].astype(numpy.int64))
    nodes, tensors, value = [], [], "x"
    for layer, weight in enumerate(network(random)):
        tensors += [onnx_tensor(f"fc{layer}.weight", weight.shape, weight.ravel().tolist()), onnx_tensor(f"fc{layer}.bias", [weight.shape[1]], [0.0] * weight.shape[1])]
        nodes.append(onnx_node("Gemm", [value, f"fc{layer}.weight", f"fc{layer}.bias"], [f"y{layer}"], f"fc{layer}"))
        value = f"y{layer}"
        if layer < len(SIZES) - 2:
            nodes.append(onnx_node("Relu", [value], [f"h{layer}"], f"relu{layer}"))
            value = f"h{layer}"
    model = onnx_model(nodes, tensors, [onnx_value("x", FLOAT, [BATCH, SIZES[0]]), onnx_value("labels", INT64, [BATCH])], [onnx_value(value, FLOAT, [BATCH, SIZES[-1]])])
    with open(os.path.join(folder, "model.onnx"), "wb") as file:
        file.write(model)
    with open(os.path.join(folder, "plan.json"), "w") as file:
        json.dump({"kerf": 1, "mesh": {"data": RANKS, "model": 1}}, file)
    return value


def train(folder, logits, codec, steps):
    optimizer = ["--optimizer", "sgd", "--lr", "0.05", "--lr-schedule", "linear", "--momentum", "0.9"]
    compress = [] if codec == "none" else ["--compress", f"fc*.weight={codec}"]
    if codec == "adam":
        optimizer, compress = ["--optimizer", "adam", "--lr", "0.001"], []
    if codec == "onebit-adam":
        optimizer, compress = ["--optimizer", codec, "--lr", "0.001", "--freeze-step", str(steps // 5)], ["--compress", "fc*.weight=onebit"]
    done = subprocess.run([KERF, "train", os.path.join(folder, "model.onnx"), "--data", os.path.join(folder, "data.npz"), "--loss", f"cross_entropy({logits}, labels)",
                           "--ranks", str(RANKS), "--all-ranks", "--constraints", os.path.join(folder, "plan.json"), *optimizer, *compress, "--steps", str(steps),
                           "--json"], capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"{codec}: {done.stderr[-2000:]}")
    return statistics.mean(json.loads(done.stdout)["losses"][-steps // 4:])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=400)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("codecs", nargs="*", default=CODECS)
    options = parser.parse_intermixed_args()
    table = {codec: [] for codec in options.codecs}
    for seed in range(options.seeds):
        with tempfile.TemporaryDirectory() as folder:
            logits = write_files(folder, seed, options.steps)
            for codec in options.codecs:
                table[codec].append(train(folder, logits, codec, options.steps))
                print(f"seed {seed}, {codec}: {table[codec][-1]:.4f}", file=sys.stderr, flush=True)
    print(f"{options.steps} steps, {options.seeds} seeds\n\n| codec | loss | relative |\n|---|---|---|")
    for codec, losses in table.items():
        first = table["adam" if "adam" in codec and "adam" in table else options.codecs[0]]
        print(f"| {codec} | {statistics.mean(losses):.4f} | {statistics.mean(losses) / statistics.mean(first):.2f} |")


if __name__ == "__main__":
    main()
