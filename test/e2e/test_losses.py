#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Training gives PyTorch's losses, whatever the plan.

Every model is trained for 20 steps with SGD and with AdamW on 1 to 4 ranks, with the plan that the search finds and with forced ones,
in f32 and in f64. By default a choice of the cases that takes seconds; `--all` runs every one.
"""
import itertools
import json
import math
import os
import sys
import unittest

from support import FOLDERS, PLANS, ROOT, SHARED, SHARED_EXPORTS, KerfTest, file_of, golden_of, kerf, losses_of, main, optimizer_flags

ALL = "--all" in sys.argv
if ALL:
    sys.argv.remove("--all")

TOLERANCE = {"f32": 2e-4, "f64": 1e-6}  # relative, to PyTorch's float64 losses
PLANS_AGREE = 1e-10                     # relative, between any two plans in f64
COMPOSITES_AGREE = 1e-8                 # relative, in f64: exports hold GELU's constants in float32, the composite exactly
NORM_TOLERANCE = 1e-4                   # relative, of a gradient's norm
NOISE = 1e-6                            # of the largest norm: below, a gradient is zero but for rounding

FEW = {"f64": ["1", "2 searched", "3 data", "3 tensor", "4 mixed"], "f32": ["3 searched", "4 searched"]}
# (model, optimizer) -> steps after which float32 has taken a rectifier to the other side of zero than float64: later ones differ with it.
KINKS = {("resnet", "adamw"): 14}
FEW_OF_SHARED = {"f64": ["1", "3 tensor", "4 mixed"], "f32": ["3 data"]}


class Losses(KerfTest):
    def train(self, model, optimizer, dtype, plan, *more):
        golden = golden_of(model)
        ranks, mesh = PLANS[plan]
        step, run = optimizer_flags(golden, optimizer)
        args = ["train", file_of(model), "--data", file_of(model, "batches.npz"), "--ranks", ranks, "--all-ranks", "--steps", golden["steps"],
                "--dtype", dtype, "--log", self.path("log"), "--gradient-norms", self.path("norms"), *step, *run, *more]
        if mesh:
            args += ["--constraints", self.write("mesh.json", {"kerf": 1, "mesh": mesh})]
        self.succeed(*args)
        losses = losses_of(self.path("log"))
        compared = KINKS.get((model, optimizer)) if dtype == "f32" else None
        self.close(losses[:compared], golden["losses"][optimizer]["float64"][:compared], TOLERANCE[dtype],
                   f"{model} {optimizer} {dtype} {plan}")
        self.check_norms(golden["gradient_l2_step0_float64"], f"{model} {optimizer} {dtype} {plan}")
        return losses

    def check_norms(self, expected, what):
        norms = json.loads(self.read("norms"))
        self.assertEqual(sorted(norms), sorted(expected), what)
        largest = max(expected.values())
        for name, norm in expected.items():
            allowed = NOISE * largest if norm < NOISE * largest else NORM_TOLERANCE * norm
            self.assertLessEqual(abs(norms[name] - norm), allowed, f"{what}: gradient of {name}")

    def all_plans(self, model, optimizer, dtype):
        few = FEW_OF_SHARED if model in SHARED_EXPORTS else FEW
        reached = {plan: self.train(model, optimizer, dtype, plan) for plan in (PLANS if ALL else few[dtype])}
        if dtype == "f64":
            for (a, first), (b, second) in itertools.combinations(reached.items(), 2):
                self.close(second, first, PLANS_AGREE, f"{model} {optimizer}: plans {a} and {b}")

    def test_simple_ops_instead_of_composites(self):
        for model in FOLDERS if ALL else ["gpt2"]:
            whole = self.train(model, "adamw", "f64", "1")
            simple = self.train(model, "adamw", "f64", "2 searched", "--no-recognition")
            self.close(simple, whole, COMPOSITES_AGREE, f"{model} without recognition")


def add_case(model, optimizer, dtype):
    def test(self):
        self.all_plans(model, optimizer, dtype)
    setattr(Losses, f"test_{model}_{optimizer}_{dtype}", test)


for model, optimizer, dtype in itertools.product([*FOLDERS, *SHARED_EXPORTS], ("sgd", "adamw"), TOLERANCE):
    if ALL or (dtype == "f64") == (optimizer == "sgd") or (dtype == "f64" and model in FOLDERS):
        add_case(model, optimizer, dtype)


class OtherExports(KerfTest):
    """The shared models as other exporter settings write them."""

    def losses(self, model, file, *more):
        golden = golden_of(model)
        step, run = optimizer_flags(golden, "adamw")
        self.succeed("train", file_of(model, file), "--data", file_of(model, "batches.npz"), "--ranks", 3, "--all-ranks", "--steps", golden["steps"],
                     "--dtype", "f64", "--log", self.path("log"), *step, *run, *more)
        return losses_of(self.path("log")), golden["losses"]["adamw"]["float64"]

    def test_raw(self):
        for model in {"bert", "mixtral"} & set(SHARED_EXPORTS):
            self.close(*self.losses(model, "raw.onnx"), TOLERANCE["f64"], f"{model} raw")

    def test_logits_with_a_loss_built_on_them(self):
        for model in {"vit"} & set(SHARED_EXPORTS):
            self.close(*self.losses(model, "logits.onnx", "--loss", "cross_entropy(logits, labels)"), TOLERANCE["f64"], f"{model} logits")

    def test_default_settings_lose_parameters(self):
        """The exporter folded parameters away: refused, with exactly their names. What is left begins with PyTorch's loss."""
        for model in {"bert", "resnet", "vit"} & set(SHARED_EXPORTS):
            gone = golden_of(model)["files"]["default.onnx"]["parameters"]["gone"]
            told = self.succeed("import", file_of(model, "default.onnx"), "--json")
            self.assertEqual({text.split(" ")[0] for text in json.loads(told.stdout)["folded"]}, set(gone), model)
            self.assertIn("training this graph is not training the model", told.stderr, model)
            self.refuse(1, gone[:12] + ["--accept-folded"], "train", file_of(model, "default.onnx"), "--data", file_of(model, "batches.npz"))
            got, expected = self.losses(model, "default.onnx", "--accept-folded")
            self.close(got[:1], expected[:1], TOLERANCE["f64"], f"{model} default")


@unittest.skipUnless(os.path.isdir(os.path.join(SHARED, "models", "gpt2")), f"no models in {SHARED}")
class OtherExportsOfLanguageModels(KerfTest):
    """The same model as other exporter settings write it: raw (nothing folded), without a loss, with weights transposed."""

    def check(self, file, data, *more, model="gpt2"):
        folder = os.path.join(SHARED, "models", model)
        with open(os.path.join(folder, "golden.json")) as golden_file:
            golden = json.load(golden_file)
        for optimizer, ranks in (("sgd", 2), ("adamw", 4)) if ALL else (("adamw", 3),):
            step, run = optimizer_flags(golden, optimizer)
            self.succeed("train", os.path.join(folder, file), "--data", os.path.join(folder, data), "--ranks", ranks, "--all-ranks", "--steps", 20,
                         "--dtype", "f64", "--log", self.path("log"), *step, *run, *more)
            self.close(losses_of(self.path("log")), golden["losses"][optimizer]["float64"], TOLERANCE["f64"], f"{file} {optimizer}")

    def test_optimized(self):
        self.check("model.onnx", "batches.npz")

    def test_default_settings_transpose_the_weights_of_llama(self):
        """All its linear layers stand transposed under names of the exporter's: the training is the model's."""
        self.check("default.onnx", "batches.npz", model="llama")

    def test_raw(self):
        self.check("raw.onnx", "batches.npz")

    def test_logits_with_a_loss_built_on_them(self):
        self.check("logits.onnx", "batches_logits.npz", "--loss", "cross_entropy(logits, labels)")


class Configurations(KerfTest):
    """Models from their Hugging Face config.json, with the weights beside it."""

    def check(self, folder, golden, step_size, losses, plans, *more):
        done = self.succeed("import", os.path.join(folder, "config.json"), *step_size, "--json")
        trained = [argument["shape"] for argument in json.loads(done.stdout)["arguments"] if argument["trainable"]]
        expected = golden["parameters"]["count"] if isinstance(golden["parameters"], dict) else golden["parameters"]
        self.assertEqual(sum(math.prod(shape) for shape in trained), expected, folder)
        for (optimizer, dtype), ranks in plans.items():
            step, run = optimizer_flags(golden, optimizer)
            self.succeed("train", os.path.join(folder, "config.json"), "--data", os.path.join(folder, "batches.npz"), *step_size, "--ranks",
                         ranks, "--all-ranks", "--steps", golden["steps"], "--dtype", dtype, "--log", self.path("log"), "--gradient-norms",
                         self.path("norms"), *step, *run, *more)
            self.close(losses_of(self.path("log")), losses(optimizer), TOLERANCE[dtype], f"{folder} {optimizer} {dtype}")

    def family(self, folder):
        """Tiny models of every family and form, made by test/models/families/make_families.py."""
        with open(os.path.join(folder, "golden.json")) as golden_file:
            golden = json.load(golden_file)
        size = ["--global-batch", golden["batch"]] + (["--sequence", golden["sequence"]] if golden["sequence"] else [])
        plans = {("sgd", "f64"): 1, ("adamw", "f64"): 2, ("adamw", "f32"): 3}
        self.check(folder, golden, size, lambda optimizer: golden["losses"][optimizer], plans)
        squares = sum(norm * norm for norm in json.loads(self.read("norms")).values())
        self.close([squares], [golden["gradient_norm_squared_step0"]], TOLERANCE["f32"], f"{folder} gradients")

    def test_experts_by_all_to_all(self):
        """Tokens stay with their rank, experts with theirs: 3 samples and 4, 5 or 8 experts over 2 and 3 ranks, so that pieces are padded."""
        def cut(kinds):
            return {f"*experts/{kind}": {"strategy": {"b": ["x"]}} for kind in kinds}  # dot_general: b is the experts, else the samples
        ops = {**cut(["dispatch#*", "dispatch@backward", "combine", "combine@backward", "combine_backward@backward"]),
               **cut(["dot_general#*", "dot_general@backward#*"])}
        for name, ranks in (("mixtral", 3), ("qwen2-moe", 2), ("deepseek-v3", 2)):
            folder = os.path.join(FAMILIES, name)
            with open(os.path.join(folder, "golden.json")) as golden_file:
                golden = json.load(golden_file)
            step, run = optimizer_flags(golden, "sgd")
            self.succeed("train", os.path.join(folder, "config.json"), "--data", os.path.join(folder, "batches.npz"), "--global-batch",
                         golden["batch"], "--sequence", golden["sequence"], "--ranks", ranks, "--all-ranks", "--dtype", "f64", "--steps", golden["steps"],
                         "--plan", self.write("plan.json", {"kerf": 1, "mesh": {"x": ranks}, "ops": ops}), "--log", self.path("log"),
                         "--report", self.path("report.json"), *step, *run)
            self.close(losses_of(self.path("log")), golden["losses"]["sgd"], TOLERANCE["f64"], f"{name} {ranks} ranks")
            self.assertIn(b"all_to_all", self.read("report.json"))

    def test_experts_drop_what_finds_no_slot(self):
        """A capacity below every need changes the loss; one above it does not."""
        folder = os.path.join(FAMILIES, "mixtral")
        losses = {}
        for capacity in ("exact", "2", "0.5"):
            done = self.succeed("train", os.path.join(folder, "config.json"), "--data", os.path.join(folder, "batches.npz"),
                                "--global-batch", 3, "--sequence", 12, "--steps", 1, "--expert-capacity", capacity, "--json")
            losses[capacity] = json.loads(done.stdout)["losses"][0]
        self.assertEqual(losses["exact"], losses["2"])  # 2 choices of 4 experts: twice the share is a slot a token
        self.assertNotEqual(losses["exact"], losses["0.5"])
        refused = kerf("import", os.path.join(folder, "config.json"), "--expert-capacity", "-1")
        self.assertEqual((refused.returncode, refused.stdout), (1, ""))
        self.assertIn("--expert-capacity: '-1'", refused.stderr)

    def shared(self, model, has_sequence):
        folder = os.path.join(SHARED, "models", model)
        if not os.path.isdir(folder):
            self.skipTest(f"{folder} is not there: PyTorch's losses of {model} are not compared (set KERF_SHARED)")
        with open(os.path.join(folder, "golden.json")) as golden_file:
            golden = json.load(golden_file)
        shape = next(iter(golden["inputs"].values()))["shape"]
        size = ["--global-batch", shape[0]] + (["--sequence", shape[1]] if has_sequence else [])
        plans = {(optimizer, dtype): ranks for optimizer in ("sgd", "adamw") for dtype, ranks in (("f64", 1), ("f32", 3))}
        self.check(folder, golden, size, lambda optimizer: golden["losses"][optimizer]["float64"], plans)
        # Tied tensors have one name in the checkpoint, another in the export.
        exported = golden.get("checkpoint_names_that_differ") or {}
        expected = golden["gradient_l2_step0_float64"]
        norms = json.loads(self.read("norms"))
        self.assertEqual(sorted(exported.get(name, name) for name in norms), sorted(expected), model)
        largest = max(expected.values())
        for name, norm in norms.items():
            self.assertLessEqual(abs(norm - expected[exported.get(name, name)]), NORM_TOLERANCE * expected[exported.get(name, name)] +
                                 NOISE * largest, f"{model}: gradient of {name}")


FAMILIES = os.path.join(ROOT, "test", "models", "families")
for name in sorted(os.listdir(FAMILIES)):
    if os.path.isdir(os.path.join(FAMILIES, name)):
        setattr(Configurations, f"test_family_{name.replace('-', '_')}", lambda self, name=name: self.family(os.path.join(FAMILIES, name)))
for name in ("gpt2", "llama", "bert", "vit"):
    setattr(Configurations, f"test_shared_{name}", lambda self, name=name: self.shared(name, name != "vit"))


if __name__ == "__main__":
    main()
