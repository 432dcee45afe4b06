#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Random graphs of the dialect's elementwise operators. The list is read from their definitions, so that an operator that is added is in
them: fused and one by one (the same bits), on one rank and on four, with a reshape to split, in f32 and in bf16.

    python3 test/e2e/test_elementwise.py [SEED [GRAPHS]]"""
import os
import random
import re
import struct
import sys
import unittest

from support import ROOT, KerfTest, losses_of

SEED, GRAPHS = 4100, 6
BATCH, WIDTH = 8, 32
PLAIN, SPLIT = f"tensor<{BATCH}x{WIDTH}xf32>", f"tensor<{BATCH}x4x{WIDTH // 4}xf32>"


def operators():
    """Names of the operators that map floating elements, by their number of operands."""
    with open(os.path.join(ROOT, "include", "kerf", "Dialect", "Kerf", "ElementwiseOps.td")) as file:
        text = file.read()
    found = re.findall(r"^def Kerf_\w+Op : Kerf_(Unary|Step|Binary)Op<\"(\w+)\", Kerf_(?:Float)?Tensor,", text, re.M)
    return [(name, 2 if kind == "Binary" else 1) for kind, name in found]


class Graph:
    """A model in kerf IR. Each value lies between 0.5 and 1.5, where every operator is defined."""

    def __init__(self, rnd, first):
        self.lines, self.count, self.rnd = [], 0, rnd
        self.type = PLAIN
        first_value = self.tame(self.emit("add", "%x", "%w"))
        self.values = [first_value]
        names = operators()
        for op, operands in [first] + rnd.choices(names, k=8):
            if rnd.random() < 0.25:
                self.reshape()
            self.values.append(self.tame(self.emit(op, *rnd.choices(self.values[-3:], k=operands))))
        if self.type == SPLIT:
            self.reshape()
        last = self.emit("add", self.values[-1], first_value)  # a way back to the parameter past operators without a slope
        self.lines.append(f"%loss = kerf.reduce {last} {{kind = #kerf<reduce_kind sum>, dimensions = array<i64: 0, 1>}} : ({self.type}) -> tensor<f32>")

    def fresh(self):
        self.count += 1
        return f"%v{self.count}"

    def emit(self, op, *operands):
        name = self.fresh()
        self.lines.append(f"{name} = kerf.{op} {', '.join(operands)} : ({', '.join([self.type] * len(operands))}) -> {self.type}")
        return name

    def tame(self, value):
        half = self.fresh()
        self.lines.append(f"{half} = kerf.constant dense<0.5> : {self.type}")
        return self.emit("add", self.emit("logistic", value), half)

    def reshape(self):
        other = SPLIT if self.type == PLAIN else PLAIN
        names = []
        for value in self.values[-3:]:
            names.append(self.fresh())
            self.lines.append(f"{names[-1]} = kerf.reshape {value} : ({self.type}) -> {other}")
        self.values, self.type = names, other

    def text(self):
        body = "\n  ".join(self.lines)
        return f"""func.func @main(%x: {PLAIN} {{kerf.kind = "input", kerf.name = "x"}},
                %w: {PLAIN} {{kerf.kind = "parameter", kerf.name = "w", kerf.trainable}}) -> (tensor<f32> {{kerf.name = "loss"}}) {{
  {body}
  return %loss : tensor<f32>
}}
"""


class Elementwise(KerfTest):
    def train(self, *options):
        log = self.path("log.jsonl")
        self.succeed("train", self.path("model.mlir"), "--data", self.path("data"), "--steps", 3, "--lr", 0.01,
                     "--log", log, *options)
        return losses_of(log)

    def array(self, name, shape, numbers):
        os.makedirs(os.path.dirname(self.path(name)), exist_ok=True)
        header = str({"descr": "<f4", "fortran_order": False, "shape": tuple(shape)}) + "\n"
        with open(self.path(name), "wb") as file:
            file.write(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header.encode() + struct.pack(f"<{len(numbers)}f", *numbers))

    def test_random_chains(self):
        names = operators()
        self.assertIn(("tanh", 1), names)
        self.assertIn(("power", 2), names)
        for seed in range(SEED, SEED + GRAPHS):
            rnd = random.Random(seed)
            with self.subTest(seed=seed):
                self.write("model.mlir", Graph(rnd, names[seed % len(names)]).text())
                self.array("data/x.npy", [3, BATCH, WIDTH], [rnd.gauss(0, 1) for _ in range(3 * BATCH * WIDTH)])
                self.write("plan.json", {"kerf": 1, "mesh": {"data": 2, "model": 2}})
                fused = self.train()
                self.assertEqual(fused, self.train("--no-native"))
                for other in (self.train("--ranks", 4, "--constraints", self.path("plan.json")), self.train("--ranks", 2, "--all-ranks")):
                    self.assertLess(max(abs(a - b) / abs(a) for a, b in zip(fused, other)), 2e-6)
                half = self.train("--dtype", "bf16")
                self.assertLess(max(abs(a - b) / abs(a) for a, b in zip(fused, half)), 0.1)


if __name__ == "__main__":
    if len(sys.argv) > 1:
        SEED = int(sys.argv[1])
        GRAPHS = int(sys.argv[2]) if len(sys.argv) > 2 else GRAPHS
    unittest.main(argv=sys.argv[:1])
