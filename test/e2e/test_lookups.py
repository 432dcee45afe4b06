# SPDX-License-Identifier: Apache-2.0
"""Losses that are written by hand, lookups by index and inner 16-bit casts train as PyTorch trains them, on 1, 2 and 4 ranks, with the batch,
the vocabulary or both cut and in microbatches. A cross entropy that is written out becomes the same op as the library's, and takes its memory.

The models, and PyTorch's losses, come from test/models/lookups/make.py. `test_lookups.py [--all]`: without --all not every plan of every model.
"""
import itertools
import json
import os
import sys
import unittest

from support import ROOT, KerfTest, losses_of, main

ALL = "--all" in sys.argv and bool(sys.argv.remove("--all") or True)
FOLDER = os.path.join(ROOT, "test", "models", "lookups")
TOLERANCE = 2e-4        # relative, to PyTorch's float32 losses
HALF_SAME = 1e-4        # the same with 16-bit casts, where a rounding may fall to the other side
SAME = 1e-9             # relative, in f64: between plans, and between forms of one loss
MEANS = ("gather", "arange", "one_hot", "difference", "likelihood")  # other forms of the model "library"
CROSS_ENTROPIES = (*MEANS, "library", "masked", "masked_where", "policy", "shifted", "weighted")

# name -> (ranks, partial plan)
PLANS = {
    "1": (1, {}),
    "data 2": (2, {"mesh": {"data": 2, "model": 1}}),
    "model 2": (2, {"mesh": {"data": 1, "model": 2}}),
    "data 4": (4, {"mesh": {"data": 4, "model": 1}}),
    "model 4": (4, {"mesh": {"data": 1, "model": 4}}),
    "data 2, model 2": (4, {"mesh": {"data": 2, "model": 2}}),
    "microbatches": (1, {"mesh": {"stage": 1, "data": 1, "model": 1}, "microbatch": 2}),
    "data 2, microbatches": (2, {"mesh": {"stage": 1, "data": 2, "model": 1}, "microbatch": 2}),
    "data 2, model 2, microbatches": (4, {"mesh": {"stage": 1, "data": 2, "model": 2}, "microbatch": 1}),
}
# Slow ranks and links that cost nothing: each op is cut as far as its rule and the plan let it.
CLUSTER = {"name": "free links",
           "device": {"kind": "cpu", "name": "slow", "memory_bytes": 10 ** 9, "cores": 1, "peak_flops": {"f32": 10 ** 6, "f64": 10 ** 6},
                      "memory_bandwidth": 10 ** 6},
           "levels": [{"name": "free", "size": 4, "bandwidth": 10 ** 15, "latency": 1e-12}]}
FEW = ["1", "data 2", "data 2, model 2", "data 2, microbatches"]
with open(os.path.join(FOLDER, "golden.json")) as file:
    GOLDEN = json.load(file)


def file_of(model, kind="new"):
    return os.path.join(FOLDER, f"{model}.{kind}.onnx")


class Lookups(KerfTest):
    def train(self, model, plan="1", kind="new", dtype="f64", *more):
        ranks, partial = PLANS[plan]
        args = ["train", file_of(model, kind), "--data", os.path.join(FOLDER, f"{model}.npz"), "--ranks", ranks, "--steps", GOLDEN["steps"],
                "--lr", GOLDEN["learning_rate"], "--dtype", dtype, "--log", self.path("log"), *more]
        if partial:
            # What is executed in parts is laid out by the axes' meanings, the rest by the search.
            option = "--plan" if "microbatch" in partial else "--constraints"
            args += [option, self.write("partial.json", dict(partial, kerf=1)), "--cluster", self.write("cluster.json", CLUSTER)]
        self.succeed(*args)
        return losses_of(self.path("log"))

    def ops(self, model, kind="new"):
        return json.loads(self.succeed("import", file_of(model, kind), "--json").stdout)["ops"]

    def test_losses_are_those_of_pytorch(self):
        for model, kind in itertools.product(GOLDEN["losses"], ("new", "old")):
            self.close(self.train(model, "1", kind, "f32"), GOLDEN["losses"][model], TOLERANCE, f"{model}, {kind} exporter")

    def test_every_plan_gives_the_same(self):
        for model in GOLDEN["losses"]:
            same = HALF_SAME if model in ("bfloat16", "float16") else SAME
            reference = self.train(model)
            for plan in list(PLANS if ALL else FEW)[1:]:
                self.close(self.train(model, plan), reference, same, f"{model}, {plan}")

    def test_classes_may_be_cut(self):
        for model, op in (("gather", "cross_entropy"), ("value", "take_along"), ("disentangled", "take_along#0")):
            reference = self.train(model)
            for ranks in (2, 4):  # 13, 6 and 8 classes: some ranks hold fewer, or none
                pin = {"kerf": 1, "mesh": {"data": 1, "model": ranks}, "ops": {op: {"strategy": {"v": ["model"]}}}}
                self.succeed("train", file_of(model), "--data", os.path.join(FOLDER, f"{model}.npz"), "--ranks", ranks, "--steps", GOLDEN["steps"],
                             "--lr", GOLDEN["learning_rate"], "--dtype", "f64", "--log", self.path("log"),
                             "--constraints", self.write("pin.json", pin), "--save-plan", self.path("plan.json"))
                self.assertEqual(json.loads(self.read("plan.json"))["ops"][op]["strategy"], {"v": ["model"]}, model)
                self.close(losses_of(self.path("log")), reference, SAME, f"{model}, classes on {ranks} ranks")

    def test_forms_of_one_loss_are_the_same(self):
        reference = self.train("library")
        for model, kind in itertools.product(MEANS, ("new", "old")):
            self.close(self.train(model, "1", kind), reference, SAME, f"{model}, {kind} exporter")

    def test_a_cross_entropy_is_recognized(self):
        for model, kind in itertools.product(CROSS_ENTROPIES, ("new", "old")):
            self.succeed("compile", file_of(model, kind), "-o", self.path("package"))
            with open(os.path.join(self.path("package"), "program.json")) as file:
                program = file.read()
            self.assertTrue('"op":"cross_entropy"' in program, f"{model}, {kind} exporter: no cross_entropy")
            self.assertFalse('"op":"take_along"' in program, f"{model}, {kind} exporter: a lookup in the logits")

    def test_a_recognized_loss_takes_the_memory_of_the_library_s(self):
        def peak(model):
            return json.loads(self.succeed("train", file_of(model), "--data", os.path.join(FOLDER, f"{model}.npz"), "--steps", 1,
                                           "--json").stdout)["measured"]["peak_bytes"]
        library, rows = peak("library"), 8 * 4
        for model in MEANS:
            # A few numbers for each row more, never one for each class of it.
            self.assertLess(peak(model), library + rows * 13 * 4, model)

    def test_inner_16_bit_casts_are_kept(self):
        for model in ("bfloat16", "float16"):
            self.assertIn("reduce_precision", json.dumps(self.ops(model)), model)


if __name__ == "__main__":
    main()
