#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Measures what codecs send, and how long the sum of one gradient takes, on links of a given rate (scripts/shaped-network.sh; needs root).

`network.py [--rate 1gbit] [--mebibytes 32] [--ranks 4] [--steps 4] [--optimizer "sgd"] [CODEC...]` trains a model whose only work is to sum the gradient of one matrix over the ranks.
The table has, for each codec, the bytes that a rank's link sends in a step (counted by the link, so TCP and Ethernet headers are included), the seconds of the
fastest step of rank 0, and both relative to float32. KERF names the program; the default is build/bin/kerf.
"""
import argparse
import json
import os
import random
import struct
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(ROOT, "test", "e2e"))
from support import write_npz  # noqa: E402

KERF = os.path.abspath(os.environ.get("KERF", os.path.join(ROOT, "build", "bin", "kerf")))
CODECS = ("none", "bf16", "int8", "int4", "onebit", "tbq", "topk", "topk-sampled", "powersgd")
COLUMNS = 1024
MODEL = """
func.func @main(%x: tensor<{ranks}x{rows}x{columns}xf32> {{kerf.kind = "input", kerf.name = "x"}},
                %w: tensor<{rows}x{columns}xf32> {{kerf.kind = "parameter", kerf.name = "w", kerf.trainable}}) -> (tensor<f32> {{kerf.name = "loss"}}) {{
  %wide = kerf.broadcast_in_dim %w {{broadcast_dimensions = array<i64: 1, 2>}} : (tensor<{rows}x{columns}xf32>) -> tensor<{ranks}x{rows}x{columns}xf32>
  %products = kerf.multiply %wide, %x : (tensor<{ranks}x{rows}x{columns}xf32>, tensor<{ranks}x{rows}x{columns}xf32>) -> tensor<{ranks}x{rows}x{columns}xf32>
  %loss = kerf.reduce %products {{kind = #kerf<reduce_kind sum>, dimensions = array<i64: 0, 1, 2>}} : (tensor<{ranks}x{rows}x{columns}xf32>) -> tensor<f32>
  return %loss : tensor<f32>
}}
"""


def run(folder, codec, options, steps):
    """The bytes that each rank's link sent in a run of `steps` steps, and the seconds of each step. `options` may have more `links` for the network and a `cluster`."""
    compress = [] if codec == "none" else ["--compress", f"w*={codec}"]
    package, log, sent = (os.path.join(folder, name) for name in ("package", "log.jsonl", "bytes"))
    subprocess.run([KERF, "compile", os.path.join(folder, "model.mlir"), "--optimizer", *getattr(options, "optimizer", "sgd").split(), "--ranks", str(options.ranks), "--all-ranks", *getattr(options, "cluster", []),
                    "--constraints", os.path.join(folder, "plan.json"), *compress, "-o", package], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    links_of_ranks = [*(["--rate", options.rate] if options.rate else []), *getattr(options, "links", [])]
    done = subprocess.run([os.path.join(ROOT, "scripts", "shaped-network.sh"), "--ranks", str(options.ranks), *links_of_ranks, "--bytes", sent, "--",
                           KERF, "run", package, "--data", os.path.join(folder, "x.npz"), "--steps", str(steps), "--log", log], capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"{codec}: {done.stderr[-2000:]}")
    with open(sent) as file:
        links = [int(line) for line in file]
    with open(log) as file:
        return links, [json.loads(line)["seconds"] for line in file]


def write_job(folder, options):
    """Writes the model, its plan and its data."""
    rows = options.mebibytes * 2 ** 20 // 4 // COLUMNS
    with open(os.path.join(folder, "model.mlir"), "w") as file:
        file.write(MODEL.format(ranks=options.ranks, rows=rows, columns=COLUMNS))
    with open(os.path.join(folder, "plan.json"), "w") as file:
        json.dump({"kerf": 1, "mesh": {"data": options.ranks, "model": 1}, "arguments": {"x": [["data"], [], []]}}, file)
    rnd = random.Random(1)
    some = struct.pack("<65536f", *(rnd.gauss(0, 1) for _ in range(65536)))
    data = some * (options.ranks * rows * COLUMNS // 65536)
    write_npz(os.path.join(folder, "x.npz"), {"x": ("<f4", [1, options.ranks, rows, COLUMNS], data)})


def measure(options):
    lines = {}
    with tempfile.TemporaryDirectory() as folder:
        write_job(folder, options)
        for codec in options.codecs:
            few, _ = run(folder, codec, options, 1)
            many, seconds = run(folder, codec, options, 1 + options.steps)
            lines[codec] = (max(b - a for a, b in zip(few, many)) / options.steps, min(seconds[1:]))
    return lines


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rate", default="", help="rate of each link, as tc writes it: 1gbit; default: not limited")
    parser.add_argument("--mebibytes", type=int, default=32, help="size of the gradient in float32, a multiple of 1 (default 32)")
    parser.add_argument("--ranks", type=int, default=4)
    parser.add_argument("--steps", type=int, default=4, help="steps that are measured, after one more")
    parser.add_argument("--optimizer", default="sgd", help="an optimizer and its settings, as one word (default sgd)")
    parser.add_argument("codecs", nargs="*", default=CODECS)
    options = parser.parse_intermixed_args()
    lines = measure(options)
    print(f"{options.mebibytes} MiB of float32, {options.ranks} ranks, links of {options.rate or 'no limited rate'}\n")
    print("| codec | bytes of a rank and step | fewer | seconds | faster |\n|---|---|---|---|---|")
    first = next(iter(lines.values()))
    for codec, (sent, seconds) in lines.items():
        print(f"| {codec} | {sent:,.0f} | {first[0] / sent:.1f} | {seconds:.3f} | {first[1] / seconds:.1f} |")


if __name__ == "__main__":
    main()
