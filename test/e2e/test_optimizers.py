#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Every optimizer against its reference: 20 steps in f64, on one rank and several, with its states whole and cut.

The references are recorded (test/models/make_optimizers.py)."""
import json
import os
import struct
import unittest

from support import ROOT, KerfTest, main, read_safetensors

FOLDER = os.path.join(ROOT, "test", "models", "optimizers")
AGREE = 1e-10
with open(os.path.join(FOLDER, "golden.json")) as file:
    GOLDEN = json.load(file)
# name -> what the plan is held to
PLANS = {"1 rank": {"data": 1}, "data 2": {"data": 2}, "data 4": {"data": 4}, "model 2": {"model": 2}, "data 2, model 2": {"data": 2, "model": 2}}


class Optimizers(KerfTest):
    def train(self, run, mesh, *more, sharding=None, ranks=None):
        """The losses and the last weights."""
        sizes = {axis: mesh.get(axis, 1) for axis in ("data", "model")}
        ranks = ranks or sizes["data"] * sizes["model"]
        plan = {"kerf": 1, "mesh": sizes, **({"optimizer_sharding": sharding} if sharding is not None else {})}
        name = run.split(",")[0]
        done = self.succeed("train", os.path.join(FOLDER, "model.onnx"), "--data", os.path.join(FOLDER, "batches.npz"), "--dtype", "f64", "--optimizer",
                            name, "--lr", GOLDEN["lr"], *GOLDEN["runs"][run]["options"], "--ranks", ranks, "--all-ranks", "--constraints",
                            self.write("plan.json", plan), "--save", self.path("w.safetensors"), "--json", *more)
        weights = {key: [x for (x,) in struct.iter_unpack("<d", data)] for key, (_, _, data) in read_safetensors(self.path("w.safetensors")).items()}
        return json.loads(done.stdout)["losses"], weights

    def check(self, run, where, losses, weights):
        golden = GOLDEN["runs"][run]
        self.assertEqual(len(losses), len(golden["losses"]))
        for step, (got, wanted) in enumerate(zip(losses, golden["losses"])):
            self.assertLessEqual(abs(got - wanted), AGREE * max(1, abs(wanted)), f"{run}, {where}: loss {step} is {got}, not {wanted}")
        self.assertEqual(set(weights), set(golden["weights"]))
        for name, values in weights.items():
            for i, (got, wanted) in enumerate(zip(values, golden["weights"][name], strict=True)):
                self.assertLessEqual(abs(got - wanted), AGREE * max(1, abs(wanted)), f"{run}, {where}: {name}[{i}] is {got}, not {wanted}")

    def test_every_optimizer_on_every_mesh(self):
        for run in GOLDEN["runs"]:
            for where, mesh in PLANS.items():
                self.check(run, where, *self.train(run, mesh))

    def test_states_gradients_and_parameters_may_be_cut(self):
        for run in GOLDEN["runs"]:
            for sharding in (1, 2, 3):
                for where in ("data 2", "data 4"):
                    self.check(run, f"{where}, sharding {sharding}", *self.train(run, PLANS[where], sharding=sharding))

    def test_op_by_op(self):
        for run in GOLDEN["runs"]:
            self.check(run, "without machine code", *self.train(run, PLANS["data 2"], "--no-native", sharding=1))

    def test_the_search_plans_them(self):
        for run in ("muon", "adafactor"):
            self.check(run, "4 ranks, searched", *self.train(run, {}, "--mode", "auto", ranks=1))


if __name__ == "__main__":
    main()
