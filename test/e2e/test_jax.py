#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Programs of JAX train with JAX's losses, whatever the plan: loss functions, scans, and whole train steps.

By default a choice of the cases; `--all` runs every one.
"""
import itertools
import json
import os
import sys
import unittest

from support import PLANS, ROOT, SHARED, KerfTest, kerf, losses_of, main, optimizer_flags

ALL = "--all" in sys.argv
if ALL:
    sys.argv.remove("--all")

TOLERANCE = {"f32": 2e-4, "f64": 1e-6}  # relative, to JAX's losses in float64
PLANS_AGREE = 1e-10                     # relative, between any two plans in f64
PROGRAMS = os.path.join(ROOT, "test", "models", "jax")


class JaxTest(KerfTest):
    def train(self, folder, file, golden, optimizer, dtype, plan, *more):
        ranks, mesh = PLANS[plan]
        flags = []
        if optimizer != "step":
            step, run = optimizer_flags(golden, optimizer)
            flags = step + run
        if mesh:
            flags += ["--constraints", self.write("mesh.json", {"kerf": 1, "mesh": mesh})]
        done = self.succeed("train", os.path.join(folder, file), "--data", os.path.join(folder, "batches.npz"), "--ranks", ranks, "--all-ranks",
                            "--steps", golden["steps"], "--dtype", dtype, "--log", self.path("log"), *flags, *more)
        return losses_of(self.path("log")), done

    def plans(self, folder, file, golden, optimizer, expected, dtype, plans):
        reached = {}
        for plan in plans:
            reached[plan], _ = self.train(folder, file, golden, optimizer, dtype, plan)
            self.close(reached[plan], expected, TOLERANCE[dtype], f"{folder} {file} {optimizer} {dtype} {plan}")
        if dtype == "f64":
            for (a, first), (b, second) in itertools.combinations(reached.items(), 2):
                self.close(second, first, PLANS_AGREE, f"{folder} {file} {optimizer}: plans {a} and {b}")


class Programs(JaxTest):
    """The small programs of test/models/jax/make_programs.py."""

    def program(self, name):
        folder = os.path.join(PROGRAMS, name)
        with open(os.path.join(folder, "golden.json")) as file:
            golden = json.load(file)
        for optimizer, losses in golden["losses"].items():
            file = "step.mlir" if optimizer == "step" else "loss.mlir"
            self.plans(folder, file, golden, optimizer, losses["float64"], "f64", PLANS if ALL else ["1", "2 searched", "3 tensor"])
            self.plans(folder, file, golden, optimizer, losses["float64"], "f32", PLANS if ALL else ["2 searched"])

    def test_generic_form(self):
        """What MLIR prints of the same module without any op's own syntax is the same model."""
        for name in ("experts", "images"):
            folder = os.path.join(PROGRAMS, name)
            pretty, generic = (json.loads(self.succeed("import", os.path.join(folder, file), "--json").stdout)
                               for file in ("loss.mlir", "generic.mlir"))
            self.assertEqual(pretty, generic)

    def test_composites_are_found(self):
        folder = os.path.join(PROGRAMS, "encoder")
        self.succeed("compile", os.path.join(folder, "loss.mlir"), "-o", self.path("package"))
        program = json.loads(self.read("package/program.json"))
        ops = [instruction["op"] for function in program["functions"] for instruction in function["body"]]
        for op in ("attention", "gelu", "embedding", "call"):
            self.assertIn(op, ops)
        self.assertNotIn("erf", ops)

    def test_kerf_ir_of_a_step_is_the_step(self):
        folder = os.path.join(PROGRAMS, "scan")
        with open(os.path.join(folder, "golden.json")) as file:
            golden = json.load(file)
        self.succeed("import", os.path.join(folder, "step.mlir"), "-o", self.path("step.mlir"))
        self.succeed("train", self.path("step.mlir"), "--data", os.path.join(folder, "batches.npz"), "--ranks", 2, "--all-ranks", "--dtype", "f64",
                     "--steps", golden["steps"], "--log", self.path("log"))
        self.close(losses_of(self.path("log")), golden["losses"]["step"]["float64"], TOLERANCE["f64"], "step as kerf IR")


for name in sorted(os.listdir(PROGRAMS)):
    if os.path.exists(os.path.join(PROGRAMS, name, "golden.json")):
        setattr(Programs, f"test_program_{name}", lambda self, name=name: self.program(name))


class Refused(JaxTest):
    def test_options_of_the_optimizer_are_the_steps_own(self):
        folder = os.path.join(PROGRAMS, "scan")
        step = os.path.join(folder, "step.mlir")
        self.refuse(1, ["whole train step", "--gradient-norms"], "compile", step, "--gradient-norms", "-o", self.path("package"))
        self.refuse(1, ["whole train step", "--trainable"], "import", step, "--frozen", "*")
        self.refuse(1, ["whole train step"], "simulate", step)
        done = self.succeed("compile", step, "--optimizer", "adamw", "-o", self.path("package"))
        self.assertIn("--optimizer", done.stderr)

    def test_a_text_that_ends(self):
        with open(os.path.join(PROGRAMS, "narrow", "loss.mlir")) as file:
            text = file.read()
        self.refuse(1, ["cut.mlir", "line "], "import", self.write("cut.mlir", text[:len(text) // 2]))
        self.refuse(1, ["whole.mlir", "none of the arguments is a parameter", "arg0"], "import", self.write("whole.mlir", text))
        self.refuse(1, ["bytecode", "as_text"], "import", self.write("bytes.mlir", b"ML\xefR\x01\x02"))
        self.write("signature.json", {"other.mlir": {"arguments": []}})
        self.refuse(1, ["signature.json", "other.mlir"], "import", self.path("whole.mlir"))
        self.write("signature.json", {"whole.mlir": {"arguments": [{"name": "x"}]}})
        self.refuse(1, ["names 1"], "import", self.path("whole.mlir"))


@unittest.skipUnless(os.path.isdir(os.path.join(SHARED, "models", "jax-transformer")), f"no models in {SHARED}")
class Transformer(JaxTest):
    model = os.path.join(SHARED, "models", "jax-transformer")

    def golden(self):
        with open(os.path.join(self.model, "golden.json")) as file:
            return json.load(file)

    def check(self, file, optimizers, f64, f32):
        golden = self.golden()
        for optimizer in optimizers:
            expected = golden["losses"]["adamw" if optimizer == "step" else optimizer]["float64"]
            self.plans(self.model, file, golden, optimizer, expected, "f64", PLANS if ALL else f64)
            self.plans(self.model, file, golden, optimizer, expected, "f32", PLANS if ALL else f32)

    def test_loss(self):
        self.check("loss.mlir", ["sgd", "adamw"], ["1", "3 tensor", "4 mixed"], ["2 data", "4 searched"])

    def test_scan(self):
        self.check("loss_scan.mlir", ["sgd", "adamw"], ["1", "3 tensor", "4 mixed"], ["3 searched"])

    def test_step(self):
        self.check("step.mlir", ["step"], ["1", "3 tensor", "4 mixed"], ["2 data", "4 searched"])

    def test_layers_and_attention_are_found(self):
        for file in ("loss.mlir", "loss_scan.mlir"):
            self.succeed("compile", os.path.join(self.model, file), "-o", self.path("package"))
            program = json.loads(self.read("package/program.json"))
            ops = [instruction["op"] for function in program["functions"] for instruction in function["body"]]
            for op in ("attention", "gelu", "rms_norm", "call"):
                self.assertIn(op, ops, file)

    def test_gradients(self):
        golden = self.golden()
        self.train(self.model, "loss.mlir", golden, "sgd", "f64", "2 searched", "--gradient-norms", self.path("norms"))
        norms = json.loads(self.read("norms"))
        self.assertEqual(sorted(norms), sorted(golden["gradient_l2_step0_float64"]))
        for name, norm in golden["gradient_l2_step0_float64"].items():
            self.assertLessEqual(abs(norms[name] - norm), 1e-4 * norm, name)


if __name__ == "__main__":
    main()
