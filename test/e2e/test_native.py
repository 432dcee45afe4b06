#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Machine code for pointwise ops and reductions changes no bit of what is trained, and a package whose code does not fit says so or runs without it."""
import os
import platform
import random
import unittest

from graph_layers import LAYERS
from graph_parts import PARTS
from graphs import random_graph
from images import small_batches, small_net
from support import KerfTest, file_of, kerf, main, write_npz

GRAPHS = 8


def has(isa_flag):
    try:
        with open("/proc/cpuinfo") as file:
            return isa_flag in file.read()
    except OSError:
        return False


RUNS_CODE = platform.machine() == "x86_64" and has("avx2")


class Native(KerfTest):
    def trained(self, *arguments):
        """The trained weights, with code and without."""
        for name, more in (("with", []), ("without", ["--no-native"])):
            self.succeed("train", *arguments, *more, "--save", self.path(name))
        return self.read("with"), self.read("without")

    def test_the_trained_weights_are_the_same(self):
        for model, ranks, more in (("gpt2", 1, []), ("gpt2", 3, ["--threads", 2]), ("llama", 2, ["--dtype", "bf16"]), ("llama", 1, ["--dtype", "f16"]),
                                   ("mlp", 2, ["--dtype", "f64"]), ("gpt2", 1, ["--no-recognition"]), ("gpt2", 1, ["--clip-norm", 0.5, "--threads", 3])):
            with self.subTest(model=model, ranks=ranks, more=more):
                a, b = self.trained(file_of(model), "--data", file_of(model, "batches.npz"), "--steps", 3, "--optimizer", "adamw", "--ranks", ranks, "--all-ranks", *more)
                self.assertEqual(a, b)

    def test_of_pipelines_too(self):
        plan = self.write("plan.json", {"kerf": 1, "mesh": {"stage": 2, "data": 1, "model": 1}, "microbatch": 1, "recompute": "full"})
        a, b = self.trained(file_of("gpt2"), "--data", file_of("gpt2", "batches.npz"), "--steps", 3, "--optimizer", "adamw", "--plan", plan)
        self.assertEqual(a, b)

    def test_of_batch_statistics_too(self):
        self.write("model.onnx", small_net(training=True))
        small_batches(self.path("data.npz"))
        for more in ([], ["--threads", 3], ["--ranks", 2, "--all-ranks", "--dtype", "bf16"]):
            with self.subTest(more=more):
                a, b = self.trained(self.path("model.onnx"), "--data", self.path("data.npz"), "--steps", 2, "--lr", 0.1, *more)
                self.assertEqual(a, b)

    def test_of_random_graphs_too(self):
        for seed in range(1, 1 + GRAPHS):
            model, data, _ = random_graph(random.Random(seed), PARTS + LAYERS, steps=2)
            self.write("model.onnx", model)
            write_npz(self.path("data.npz"), data)
            with self.subTest(seed=seed):
                a, b = self.trained(self.path("model.onnx"), "--data", self.path("data.npz"), "--steps", 2, "--lr", 0.1)
                self.assertEqual(a, b)

    def compiled(self, *more):
        self.succeed("compile", file_of("gpt2"), "-o", self.path("package"), *more)
        return self.path("package")

    def run_package(self, folder):
        return kerf("run", folder, "--data", file_of("gpt2", "batches.npz"), "--steps", 2, "--save", self.path("weights"))

    def test_a_package_has_code_unless_asked_not_to(self):
        folder = self.compiled()
        code = [name for name in sorted(os.listdir(folder)) if name.startswith("kernels-")]
        self.assertEqual(code, ["kernels-sm_80.ptx", "kernels-x86-64-v3.bin", "kernels-x86-64-v4.bin"])
        text = self.read("package/program.json").decode()
        self.assertIn('"kernel": true', text)
        self.assertIn('"fused_add_reduce"', text)
        run = self.run_package(folder)
        self.assertEqual(run.returncode, 0, run.stderr)
        self.assertEqual("not used" in run.stderr, not RUNS_CODE, run.stderr)
        expected = self.read("weights")
        for name in code:  # without the files the same ops run one by one
            os.remove(os.path.join(folder, name))
        run = self.run_package(folder)
        self.assertEqual(run.returncode, 0, run.stderr)
        self.assertIn("note: the machine code of the package is not used, and pointwise operators run one by one", run.stderr)
        self.assertEqual(self.read("weights"), expected)
        folder = self.path("plain")
        self.succeed("compile", file_of("gpt2"), "-o", folder, "--no-native")
        self.assertEqual(sorted(os.listdir(folder)), ["program.json", "weights.safetensors"])
        self.assertEqual(self.run_package(folder).returncode, 0)
        self.assertEqual(self.read("weights"), expected)

    def test_damage_is_a_message(self):
        folder = self.compiled()
        name = os.path.join(folder, "kernels-x86-64-v3.bin")
        with open(name, "rb") as file:
            code = file.read()
        for damaged in (code[:-1], code[:7] + bytes([code[7] ^ 1]) + code[8:]):
            with open(name, "wb") as file:
                file.write(damaged)
            run = self.run_package(folder)
            self.assertEqual(run.returncode, 1)
            self.assertIn("'kernels-x86-64-v3.bin' has the checksum", run.stderr)
        open(name, "wb").close()
        self.assertIn("'kernels-x86-64-v3.bin': it is empty", self.run_package(folder).stderr.replace(folder + "/", ""))
        with open(name, "wb") as file:
            file.write(code)
        program = os.path.join(folder, "program.json")
        with open(program) as file:
            text = file.read()
        self.assertIn('"op":"subtract"', text)
        with open(program, "w") as file:
            file.write(text.replace('"op":"subtract"', '"op":"add"'))
        run = self.run_package(folder)
        self.assertEqual(run.returncode, 1)
        self.assertIn("its code was compiled for", run.stderr)


if __name__ == "__main__":
    main()
