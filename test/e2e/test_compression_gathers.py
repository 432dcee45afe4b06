#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Gathers of sharded parameters (optimizer sharding 3) in codes: `--compress-gathers`."""
import json
import math
import unittest

from support import KerfTest, file_of, main


class Gathers(KerfTest):
    def plan(self, mesh, **more):
        return self.write("plan.json", {"kerf": 1, "mesh": mesh, "optimizer_sharding": 3, **more})

    def losses(self, mesh, *options, **more):
        done = self.succeed("train", file_of("gpt2"), "--data", file_of("gpt2", "batches.npz"), "--ranks", math.prod(mesh.values()), "--all-ranks", "--constraints",
                            self.plan(mesh, **more), "--steps", 3, "--lr", 0.1, "--json", *options)
        return json.loads(done.stdout)["losses"]

    def sent(self, *options):
        """The bytes that a rank of 4 sends in the collectives of one step, by the kind of collective."""
        self.succeed("compile", file_of("gpt2"), "--ranks", 4, "--all-ranks", "--constraints", self.plan({"data": 4, "model": 1}), "--optimizer", "sgd", "--no-native",
                     "-o", self.path("package"), *options)
        program = json.loads(self.read("package/program.json"))
        functions = {function["name"]: function for function in program["functions"]}
        total = {}

        def add(function):
            for instruction in function["body"]:
                if instruction["op"] == "call":
                    add(functions[instruction["attrs"]["callee"]])
                elif instruction["op"] in ("all_gather", "reduce_scatter", "all_to_all", "all_reduce"):
                    dtype, shape = self.tensor(function["values"][instruction["in"][0]])
                    parts = {"all_gather": 3, "reduce_scatter": 0.75, "all_to_all": 0.75, "all_reduce": 1.5}[instruction["op"]]
                    total[instruction["op"]] = total.get(instruction["op"], 0) + parts * math.prod(shape) * {"f32": 4, "f16": 2, "bf16": 2, "i8": 1}[dtype]

        add(functions[program["entry"]])
        return total

    def tensor(self, value):
        """The element type and the shape of a value of a function."""
        dtype, _, sizes = value.rstrip("]").partition("[")
        return dtype, [int(size) for size in sizes.split(",") if size.strip()]

    def test_the_identity_codec_has_the_losses_of_plain_gathers(self):
        for mesh, more in (({"data": 4, "model": 1}, {}), ({"data": 2, "model": 2}, {}), ({"stage": 2, "data": 2, "model": 1}, {"microbatch": 2})):
            self.assertEqual(self.losses(mesh, "--compress-gathers", "identity", **more), self.losses(mesh, **more), f"{mesh}")

    def test_parameters_in_8_bits_train_almost_as_well(self):
        plain, coded = self.losses({"data": 4, "model": 1}), self.losses({"data": 4, "model": 1}, "--compress-gathers", "int8")
        self.assertNotEqual(plain, coded)
        for a, b in zip(plain, coded):
            self.assertAlmostEqual(a, b, delta=2e-3 * a)

    def test_fewer_bytes_are_gathered(self):
        plain, coded = self.sent(), self.sent("--compress-gathers", "int8")
        self.assertLess(coded["all_gather"], 0.55 * plain["all_gather"])  # vectors and small matrices stay float32
        self.assertEqual({**plain, "all_gather": 0}, {**coded, "all_gather": 0})

    def test_codecs_that_change_parameters_much_are_refused(self):
        for codec in ("topk", "powersgd", "onebit", "randomk", "nothing"):
            self.refuse(1, ["compress-gathers"], "train", file_of("gpt2"), "--data", file_of("gpt2", "batches.npz"), "--ranks", 2, "--steps", 1,
                        "--compress-gathers", codec)


if __name__ == "__main__":
    main()
