#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compares codecs in short trainings of a small network, in which the errors of codecs show at once: 64-256-256-10 with ReLU, 4 ranks, 32 samples on each.

`short_runs.py [--steps 400] [--seeds 3] [--loss 0.05] [CODEC...]` prints, for each codec, the mean loss of the last 100 steps over the seeds beside float32, and the
number of steps after which the mean loss of 50 steps is at most --loss. The samples are 3,584 vectors of normal numbers, and a random network of the same form labels
them. All codecs train with SGD (rate 0.05, a tenth of it in the last fifth of the steps, momentum 0.9); `adam`, `onebit-adam` (warm-up of 20 % of the steps) and
`zero-one-adam` (the same, and then sums that are 1, 2 and 4 steps apart for 20, 20 and 40 % of the steps) with rate 0.001. Weights are compressed and biases are not;
the names `onebit-adam:CODEC` and `zero-one-adam:CODEC` choose the codec, by itself `onebit`.
`dgc-1%` is dgc that keeps 1 % of the elements, as topk does, and `dgc-1%-warm` begins with 25, 6.3 and 1.6 % for 4 % of the steps each: four runs, each of which
resumes the one before. Needs numpy. KERF names the program.
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
SIZES, BATCH, RANKS, SAMPLES = (64, 256, 256, 10), 128, 4, 3584
CODECS = ("none", "bf16", "int8", "int4", "qsgd", "natural", "terngrad", "onebit", "tbq", "topk", "topk-sampled", "graddrop", "dgc", "dgc-1%", "dgc-1%-warm", "powersgd", "powersgd-2",
          "adam", "onebit-adam", "zero-one-adam")


def network(random):
    return [random.normal(0, numpy.sqrt(2 / size), (size, width)).astype(numpy.float32) for size, width in zip(SIZES, SIZES[1:])]


def write_files(folder, seed, steps):
    random = numpy.random.default_rng(seed)
    x = random.normal(size=(SAMPLES, SIZES[0])).astype(numpy.float32)
    hidden = x
    for weight in network(random):
        hidden = numpy.maximum(hidden @ weight, 0) if weight.shape[1] != SIZES[-1] else hidden @ weight
    labels = hidden.argmax(1)
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
    return value


def write_plan(folder):
    # The products whose results are gradients of weights add up over samples, so that gradients are summed; by itself, Kerf gathers the few activations.
    products = {f"dot_general@backward#{number}": {"strategy": {"k": ["data"]}} for number in (1, 3, 4)}
    with open(os.path.join(folder, "plan.json"), "w") as file:
        json.dump({"kerf": 1, "mesh": {"data": RANKS, "model": 1}, "arguments": {"x": [["data"], []], "labels": [["data"]]}, "ops": products}, file)


def compress(folder, codec, kept):
    """The options that compress weights. `kept`: elements of 4,096 that a form of dgc keeps."""
    code = codec.rpartition(":")[2]
    if code in ("none", "adam"):
        return []
    if not code.startswith("dgc-"):
        return ["--compress", f"fc*.weight={'onebit' if code.endswith('-adam') else code}"]
    with open(os.path.join(ROOT, "lib", "Codec", "codecs", "dgc.mlir")) as file:
        text = file.read()
    path = os.path.join(folder, f"dgc-{kept}.mlir")
    with open(path, "w") as file:
        file.write(text.replace("module @dgc ", f"module @dgc{kept} ").replace("tensor<4x", f"tensor<{kept}x"))
    return ["--codec", path, "--compress", f"fc*.weight=dgc{kept}"]


def parts(codec, steps):
    """The parts of a training: the step at which each ends, its rate, and the elements of 4,096 that a form of dgc keeps."""
    if "adam" in codec:
        return [(steps, "0.001", 0)]
    warm = [(steps * 4 * (number + 1) // 100, "0.05", kept) for number, kept in enumerate((1024, 256, 64))] if codec == "dgc-1%-warm" else []
    return [*warm, (steps * 4 // 5, "0.05", 40), (steps, "0.005", 40)]


def train(folder, logits, codec, steps):
    """The loss of each step."""
    name = codec.partition(":")[0]
    held = ["--optimizer", name, "--freeze-step", str(steps // 5)]
    optimizer = {"adam": ["--optimizer", "adam"], "onebit-adam": held,
                 "zero-one-adam": [*held, "--local-step-scaler", str(steps // 5), "--local-step-clipper", "4"]}.get(name, ["--momentum", "0.9"])
    saved, losses = os.path.join(folder, f"checkpoint-{codec}"), []
    for end, rate, kept in parts(codec, steps):
        resume = ["--resume", saved] if losses else []
        done = subprocess.run([KERF, "train", os.path.join(folder, "model.onnx"), "--data", os.path.join(folder, "data.npz"), "--loss", f"cross_entropy({logits}, labels)",
                               "--ranks", str(RANKS), "--all-ranks", "--constraints", os.path.join(folder, "plan.json"), *optimizer, "--lr", rate,
                               *compress(folder, codec, kept), *resume, "--checkpoint", saved, "--every", str(steps), "--steps", str(end), "--json"],
                              capture_output=True, text=True)
        if done.returncode:
            raise SystemExit(f"{codec}: {done.stderr[-2000:]}")
        losses += json.loads(done.stdout)["losses"]
    return losses


def steps_to(losses, loss):
    """The number of steps after which the mean of 50 steps is at most `loss`; infinite if it never is."""
    return next((end for end in range(50, len(losses) + 1) if statistics.mean(losses[end - 50:end]) <= loss), float("inf"))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=400)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--loss", type=float, default=0.05, help="the loss to which steps are counted (default 0.05)")
    parser.add_argument("codecs", nargs="*", default=CODECS)
    options = parser.parse_intermixed_args()
    table = {codec: [] for codec in options.codecs}
    for seed in range(options.seeds):
        with tempfile.TemporaryDirectory() as folder:
            logits = write_files(folder, seed, options.steps)
            write_plan(folder)
            for codec in options.codecs:
                losses = train(folder, logits, codec, options.steps)
                table[codec].append((statistics.mean(losses[-100:]), steps_to(losses, options.loss)))
                print("seed {}, {}: {:.5f}, {} steps".format(seed, codec, *table[codec][-1]), file=sys.stderr, flush=True)
    print(f"{options.steps} steps, {options.seeds} seeds\n\n| codec | loss | relative | steps to {options.loss} | relative |\n|---|---|---|---|---|")
    means = {codec: [statistics.mean(column) for column in zip(*runs)] for codec, runs in table.items()}
    for codec, (loss, steps) in means.items():
        first = means["adam" if "adam" in codec and "adam" in means else options.codecs[0]]
        relative = "" if steps == float("inf") else f"{steps / first[1]:.2f}"
        print(f"| {codec} | {loss:.5f} | {loss / first[0]:.2f} | {'not reached' if not relative else round(steps)} | {relative} |")


if __name__ == "__main__":
    main()
