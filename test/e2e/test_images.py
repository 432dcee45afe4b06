#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Convolutional nets: any plan gives the single-rank losses, batch normalization takes its statistics of the whole batch and keeps the
running ones, and ResNet-50 has a whole plan."""
import json
import os
import re
import struct
import unittest

from images import Net, resnet50, small_batches, small_net
from support import CLUSTERS, FLOAT, KerfTest, losses_of, main, onnx_model, onnx_value, read_safetensors, write_npz

PLANS_AGREE = 1e-10  # relative, in f64
MESHES = {"searched": None, "data": lambda n: {"data": n, "model": 1}, "tensor": lambda n: {"data": 1, "model": n}}


class Images(KerfTest):
    def train(self, model, ranks, mesh, dtype="f64", *more):
        args = ["train", model, "--data", small_batches(self.path("data.npz")), "--ranks", ranks, "--all-ranks", "--steps", 3, "--dtype", dtype,
                "--lr", "0.1", "--log", self.path("log"), *more]
        if mesh:
            args += ["--constraints", self.write("mesh.json", {"kerf": 1, "mesh": mesh})]
        self.succeed(*args)
        return losses_of(self.path("log"))

    def test_any_plan(self):
        for training in (False, True):
            model = self.write("model.onnx", small_net(training=training))
            one = self.train(model, 1, None)
            self.assertNotEqual(one[0], one[2])
            for ranks in (2, 3, 4):
                for name, mesh in MESHES.items():
                    got = self.train(model, ranks, mesh and mesh(ranks))
                    self.close(got, one, PLANS_AGREE, f"training {training}, {ranks} ranks, {name}")
            self.close(self.train(model, 4, {"data": 2, "model": 2}), one, PLANS_AGREE, f"training {training}, mixed")
            self.close(self.train(model, 2, None, "f32"), one, 1e-4, f"training {training}, f32")

    def test_running_statistics_are_of_the_whole_batch(self):
        """One normalization of one channel: its running statistics after a step, by hand, on one rank and on three that do not divide the batch."""
        net = Net()
        x = net.norm("images", "norm", 1, True)
        net.op("ReduceMean", net.op("Mul", x, x), name="loss", keepdims=0)
        values = [0.5, -1.25, 3.0, 2.0, -0.75, 1.5, 0.25, -2.0]
        model = self.write("norm.onnx", onnx_model(net.nodes, net.initializers, [onnx_value("images", FLOAT, [4, 1, 2])],
                                                   [onnx_value("loss", FLOAT, [])]))
        data = write_npz(self.path("norm.npz"), {"images": ("<f4", [1, 4, 1, 2], struct.pack("<8f", *values))})
        mean = sum(values) / 8
        variance = sum((value - mean) ** 2 for value in values) / 8
        for ranks in (1, 3):
            self.succeed("train", model, "--data", data, "--ranks", ranks, "--all-ranks", "--steps", 1, "--dtype", "f64", "--lr", "0", "--save",
                         self.path("after.safetensors"))
            saved = {name: struct.unpack("<d", content)[0] for name, (_, _, content) in read_safetensors(self.path("after.safetensors")).items()}
            before = self.before(net)
            self.close([saved["norm.running_mean"], saved["norm.running_var"]],
                       [0.75 * before["norm.running_mean"] + 0.25 * mean, 0.75 * before["norm.running_var"] + 0.25 * variance], 1e-12,
                       f"{ranks} ranks")

    @staticmethod
    def before(net):
        """Name and only value of the net's initializers of one element."""
        return {re.search(rb"norm\.[a-z_]+", tensor).group().decode(): struct.unpack("<f", tensor[-4:])[0] for tensor in net.initializers}


class Planning(KerfTest):
    def plan(self, model, ranks, *more):
        done = self.succeed("plan", model, "--search", "whole", "--cluster", os.path.join(CLUSTERS, "dgx-a100.json"), "--ranks", ranks, "--dtype", "bf16",
                            "--optimizer", "adamw", "--json", *more)
        return json.loads(done.stdout)

    def test_resnet_50_on_64_ranks(self):
        plan = self.plan(self.write("resnet.onnx", resnet50(1024)), 64)
        predicted = plan["predicted"]
        self.assertLessEqual(predicted["step_seconds"], 1.05 * predicted["lower_bound_seconds"])
        self.assertGreaterEqual(plan["mesh"]["data"], 32)  # its parameters are few: samples are what is shared out
        # 4.1 billion multiplications an image forward, twice that backward.
        self.assertGreater(predicted["step_seconds"], 3 * 2 * 4.1e9 * 1024 / 64 / 312e12)

    def test_a_batch_of_a_few_large_images_is_cut_by_channels(self):
        plan = self.plan(self.write("resnet.onnx", resnet50(8, size=448)), 16)
        self.assertLessEqual(plan["mesh"]["data"], 8)


if __name__ == "__main__":
    main()
