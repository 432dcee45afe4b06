#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Dropout in training mode: the masks are those that the documentation promises, the same under every plan, other ones at each step and in
each layer, and the same again after a checkpoint."""
import json
import math
import os
import random
import shutil
import struct
import subprocess
import unittest

from graphs import BOOL, Graph, scalar
from mpi import mpirun
from support import FLOAT, KerfTest, losses_of, main, onnx_model, onnx_node, onnx_tensor, onnx_value, read_safetensors, write_npz

STEPS = 4
AGREE = 1e-10  # relative, of float64 losses under two plans
BATCH, SEQUENCE, HEADS, WIDTH, LAYERS = 4, 6, 2, 8, 4


def philox(counter, key):
    """Philox4x32-10, as its authors describe it."""
    c, k = list(counter), list(key)
    for _ in range(10):
        high0, low0 = divmod(0xD2511F53 * c[0], 1 << 32)
        high1, low1 = divmod(0xCD9E8D57 * c[2], 1 << 32)
        c = [high1 ^ c[1] ^ k[0], low1, high0 ^ c[3] ^ k[1], low0]
        k = [(k[0] + 0x9E3779B9) % (1 << 32), (k[1] + 0xBB67AE85) % (1 << 32)]
    return c


def keeps(place, rate, seed, step, stream):
    """docs/operators.md, kerf.dropout."""
    key = ~seed % (1 << 64)
    word = philox([place // 4 % (1 << 32), place // 4 >> 32, step, stream], [key % (1 << 32), key >> 32])[place % 4]
    return word >= rate * 2**32


class Model(Graph):
    """A graph whose loss is the mean of one of its tensors."""

    def write(self, test, loss, opset=20):
        self.nodes.append(onnx_node("ReduceMean", [loss], ["loss"], "loss", keepdims=0))
        test.write("model.onnx", onnx_model(self.nodes, self.initializers, self.inputs, [onnx_value("loss", FLOAT, [])], opset=opset))
        write_npz(test.path("data.npz"), self.data)


def transformer(rate=0.25):
    """A stack of equal layers, with dropout where GPT-2 has it: on what comes in, on attention's probabilities, behind both blocks."""
    g = Model(random.Random(3))
    shape, heads = [BATCH, SEQUENCE, WIDTH], [BATCH, SEQUENCE, HEADS, WIDTH // HEADS]
    x = g.dropout(g.add("Add", [g.input(shape, STEPS), g.parameter([SEQUENCE, WIDTH], 0.5)], shape), rate)

    def product(x, width, out):
        y = g.add("MatMul", [x, g.parameter([width, out], width ** -0.5)], [BATCH, SEQUENCE, out])
        return g.add("Add", [y, g.parameter([out], 0.1)], [BATCH, SEQUENCE, out])

    def norm(x):
        return g.add("LayerNormalization", [x, g.parameter([WIDTH], 0.1, 1), g.parameter([WIDTH], 0.1)], shape, axis=-1, epsilon=1e-5)

    def split(x, order):
        y = g.add("Reshape", [product(x, WIDTH, WIDTH), g.integers(heads)], heads)
        return g.add("Transpose", [y], [heads[d] for d in order], perm=order)

    for _ in range(LAYERS):
        h = norm(x)
        q, k, v = split(h, [0, 2, 1, 3]), split(h, [0, 2, 3, 1]), split(h, [0, 2, 1, 3])
        scores = g.add("MatMul", [q, k], [BATCH, HEADS, SEQUENCE, SEQUENCE])
        scores = g.add("Mul", [scores, g.floats([(WIDTH // HEADS) ** -0.5])], g.shapes[scores])
        shares = g.dropout(g.add("Softmax", [scores], g.shapes[scores], axis=-1), rate)
        context = g.add("MatMul", [shares, v], [BATCH, HEADS, SEQUENCE, WIDTH // HEADS])
        context = g.add("Reshape", [g.add("Transpose", [context], heads, perm=[0, 2, 1, 3]), g.integers(shape)], shape)
        x = g.add("Add", [x, g.dropout(product(context, WIDTH, WIDTH), rate)], shape)
        inner = g.add("Gelu", [product(norm(x), WIDTH, 2 * WIDTH)], [BATCH, SEQUENCE, 2 * WIDTH])
        x = g.add("Add", [x, g.dropout(product(inner, 2 * WIDTH, WIDTH), rate)], shape)
    return g, g.add("Tanh", [product(norm(x), WIDTH, 5)], [BATCH, SEQUENCE, 5])


class Dropout(KerfTest):
    def train(self, *args, plan=None):
        if plan:
            args = [*args, "--plan" if "microbatch" in plan else "--constraints", self.write("plan.json", {"kerf": 1, **plan})]
            if "microbatch" not in plan:
                args += ["--ranks", math.prod(plan["mesh"].values())]
        self.succeed("train", self.path("model.onnx"), "--data", self.path("data.npz"), "--log", self.path("log"), "--optimizer", "adamw",
                     "--lr", 0.01, *args)
        return losses_of(self.path("log"))

    def test_every_plan_drops_the_same(self):
        g, loss = transformer()
        g.write(self, loss)
        expected = self.train("--dtype", "f64", "--seed", 5)
        self.assertEqual(len(expected), STEPS)
        plans = [{"mesh": {"data": 2, "model": 1}}, {"mesh": {"data": 3, "model": 1}}, {"mesh": {"data": 1, "model": 2}},
                 {"mesh": {"data": 1, "model": 3}}, {"mesh": {"data": 2, "model": 2}}]
        for stage, data, model, rest in ((2, 1, 1, {"recompute": "full"}), (2, 1, 1, {"recompute": "selective", "schedule": {"name": "gpipe"}}),
                                         (2, 2, 1, {"recompute": "offload"}), (1, 1, 2, {"sequence_parallel": True, "recompute": "full"}),
                                         (2, 1, 2, {"schedule": {"name": "zero-bubble"}}), (1, 2, 1, {"optimizer_sharding": 3}),
                                         (2, 1, 1, {"schedule": {"name": "interleaved", "chunks": 2}})):
            plans.append({"mesh": {"stage": stage, "data": data, "model": model}, "microbatch": 1, **rest})
        plans.append({"mesh": {"stage": 2}, "microbatch": 2, "stages": [{"layers": [0, 1], "mesh": {"data": 2, "model": 1}},
                                                                        {"layers": [2, 3], "mesh": {"data": 1, "model": 2}}]})
        for plan in plans:
            with self.subTest(plan=plan):
                self.close(self.train("--dtype", "f64", "--seed", 5, plan=plan), expected, AGREE, f"{plan}")
        self.assertEqual(self.train("--dtype", "f64", "--seed", 5, "--threads", 3), expected)
        self.assertNotEqual(self.train("--dtype", "f64", "--seed", 6), expected)
        self.assertEqual(self.train("--dtype", "f64"), self.train("--dtype", "f64", "--seed", 0))

    def test_other_types_drop_the_same(self):
        """Masks do not depend on the element type, so losses differ by roundings alone."""
        g, loss = transformer()
        g.write(self, loss)
        expected = self.train("--dtype", "f64")
        for dtype, tolerance in (("f32", 1e-5), ("bf16", 3e-2)):
            for got, wanted in zip(self.train("--dtype", dtype, "--ranks", 2, "--all-ranks"), expected, strict=True):
                self.assertLess(abs(got - wanted), tolerance)

    @unittest.skipUnless(shutil.which("mpirun"), "no mpirun")
    def test_processes_drop_what_threads_drop(self):
        g, loss = transformer()
        g.write(self, loss)
        plan = {"mesh": {"data": 2, "model": 1}}
        expected = self.train("--seed", 5, plan=plan)
        self.succeed("compile", self.path("model.onnx"), "--optimizer", "adamw", "--ranks", 2, "--constraints", self.path("plan.json"), "-o",
                     self.path("package"))
        subprocess.run(mpirun(2, "run", self.path("package"), "--data", self.path("data.npz"), "--lr", 0.01, "--seed", 5, "--log",
                              self.path("log")), check=True, capture_output=True, timeout=120)
        self.assertEqual(losses_of(self.path("log")), expected)

    def test_going_on_drops_what_would_have_been_dropped(self):
        g, loss = transformer()
        g.write(self, loss)
        for plan in (None, {"mesh": {"data": 2, "model": 2}}, {"mesh": {"stage": 2, "data": 1, "model": 1}, "microbatch": 1}):
            whole = self.train("--dtype", "f64", "--seed", 9, plan=plan)
            self.train("--dtype", "f64", "--seed", 9, "--steps", 2, "--checkpoint", self.path("saved"), plan=plan)
            self.assertEqual(self.train("--dtype", "f64", "--resume", self.path("saved"), plan=plan), whole, f"{plan}")
            shutil.rmtree(self.path("saved"))

    def test_masks_are_the_promised_ones(self):
        """The gradient of what a layer adds is its mask: b[l] of h = h + dropout(b[l]), by one step with learning rate 1."""
        rate, seed, size = struct.unpack("<f", struct.pack("<f", 0.3))[0], 1 << 63, 60  # the sign bit of the seed counts
        g = Model(random.Random(1))
        h = g.input([size], STEPS)
        for layer in range(LAYERS):
            name = f"b.{layer}"
            g.initializers.append(onnx_tensor(name, [size], [1.0] * size))
            doubled = g.add("Add", [name, name], [size])
            h = g.add("Add", [h, g.dropout(g.add("Mul", [doubled, g.floats([0.5])], [size]), rate)], [size])
        g.nodes.append(onnx_node("ReduceSum", [h], ["loss"], "loss", keepdims=0))
        self.write("model.onnx", onnx_model(g.nodes, g.initializers, g.inputs, [onnx_value("loss", FLOAT, [])]))
        write_npz(self.path("data.npz"), g.data)
        self.succeed("compile", self.path("model.onnx"), "-o", self.path("package"))
        with open(os.path.join(self.path("package"), "program.json")) as file:
            self.assertIn("layer", [function["name"] for function in json.load(file)["functions"]])  # one function for all
        before = {}
        for steps in range(1, STEPS + 1):
            self.succeed("train", self.path("model.onnx"), "--data", self.path("data.npz"), "--steps", steps, "--dtype", "f64", "--lr", 1,
                         "--seed", seed, "--ranks", 2, "--all-ranks", "--save", self.path("out.safetensors"))
            for layer in range(LAYERS):
                values = struct.unpack(f"<{size}d", read_safetensors(self.path("out.safetensors"))[f"b.{layer}"][2])
                for place, (old, new) in enumerate(zip(before.get(layer, [1.0] * size), values)):
                    kept = 1 / (1 - rate) if keeps(place, rate, seed, steps - 1, layer) else 0
                    self.assertAlmostEqual(old - new, kept, places=9, msg=f"step {steps - 1}, layer {layer}, place {place}")
                before[layer] = values

    def test_what_is_not_trained_drops_nothing(self):
        def losses(opset, make):
            g = Model(random.Random(1))
            x = g.add("Mul", [g.input([6, 5], STEPS), g.parameter([5])], [6, 5])
            g.write(self, make(g, x), opset)
            return self.train("--dtype", "f64", plan={"mesh": {"data": 2, "model": 1}})
        expected = losses(20, lambda g, x: x)
        self.assertEqual(losses(20, lambda g, x: g.dropout(x, 0.5, training=False)), expected)
        self.assertEqual(losses(20, lambda g, x: g.add("Dropout", [x], [6, 5])), expected)
        self.assertEqual(losses(10, lambda g, x: g.add("Dropout", [x], [6, 5], ratio=0.5)), expected)
        self.assertEqual(losses(20, lambda g, x: g.dropout(x, 0.0)), expected)
        self.assertNotEqual(losses(20, lambda g, x: g.dropout(x, 0.5)), expected)

    def test_the_mask_is_a_result(self):
        """x * mask is dropout without its scale."""
        def losses(with_mask):
            g = Model(random.Random(1))
            x = g.add("Mul", [g.input([6, 5], STEPS), g.parameter([5])], [6, 5])
            ratio, mode = g.name("onnx::"), g.name("onnx::")
            g.initializers += [scalar(ratio, 0.5), scalar(mode, True)]
            y, mask = g.add("Dropout", [x, ratio, mode], [6, 5], outputs=2)
            zero = g.floats([0.0])
            kept = g.add("Where", [mask, x, zero], [6, 5]) if with_mask else g.add("Mul", [y, g.floats([0.5])], [6, 5])
            g.write(self, kept)
            return self.train("--dtype", "f64", plan={"mesh": {"data": 2, "model": 1}})
        self.close(losses(True), losses(False), AGREE, "by the mask and by the result")

    def test_what_is_refused(self):
        for ratio, computed, words in ((1.0, False, ["'node_", "ratio is 1", "[0, 1)"]), (0.5, True, ["training_mode is computed"])):
            g = Model(random.Random(1))
            x = g.add("Mul", [g.input([6, 5], STEPS), g.parameter([5])], [6, 5])
            if computed:
                g.inputs.append(onnx_value("mode", BOOL, []))
                g.initializers.append(scalar("ratio", ratio))
                y = g.add("Dropout", [x, "ratio", "mode"], [6, 5])
            else:
                y = g.dropout(x, ratio)
            g.write(self, y)
            self.refuse(1, words, "train", self.path("model.onnx"), "--data", self.path("data.npz"))


if __name__ == "__main__":
    main()
