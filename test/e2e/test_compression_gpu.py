#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Codecs of gradients on GPUs, on stand-ins of NVIDIA's libraries: the weights are those of the CPU."""
import math
import os
import struct
import unittest

from support import KERF, main, read_safetensors
from test_compression import CompressionTest, normal

STANDINS = os.environ.get("KERF_CUDA_LIBRARIES", os.path.join(os.path.dirname(os.path.dirname(KERF)), "standins"))


class OnAGpu(CompressionTest):
    def setUp(self):
        super().setUp()
        os.environ.update(KERF_CUDA_LIBRARIES=STANDINS, KERF_STANDIN_DEVICES="2")

    def test_weights_are_those_of_the_cpu(self):
        rows = [[normal(2048, 10 * step + rank) for rank in range(2)] for step in range(2)]
        for codec in ("int8", "int4", "onebit"):
            on_cpu = self.train(codec, rows, dtype="f32")
            on_gpu = self.train(codec, rows, "--device", "cuda", dtype="f32")
            if codec in ("int8", "int4"):  # scales are largest elements, which do not depend on an order of additions
                self.same(on_gpu, on_cpu, codec)
            else:
                self.assertLess(math.dist(on_gpu, on_cpu), 1e-4 * math.hypot(*on_cpu), codec)

    def test_local_steps_are_those_of_the_cpu(self):
        rows = [[normal(2048, 10 * step + rank) for rank in range(2)] for step in range(12)]
        optimizer = ("--optimizer", "zero-one-adam", "--lr", 0.01, "--freeze-step", 4, "--var-update-scaler", 1, "--local-step-scaler", 2, "--local-step-clipper", 3)
        on_cpu = self.train("int4", rows, dtype="f32", optimizer=optimizer)
        on_gpu = self.train("int4", rows, "--device", "cuda", dtype="f32", optimizer=optimizer)
        self.assertLess(math.dist(on_gpu, on_cpu), 1e-4 * math.hypot(*on_cpu))
        self.differ(on_cpu, self.train("int4", rows, dtype="f32", optimizer=(*optimizer[:-1], 1)))

    def test_a_package_for_cpus_runs_on_a_gpu(self):
        rows = [[normal(2048, rank) for rank in range(2)]]
        on_cpu = self.train("int8", rows, dtype="f32")
        options = ["--optimizer", "sgd", "--lr", 1, "--dtype", "f32", "--ranks", 2, "--all-ranks", "--constraints", self.path("data.json"), "--compress", "w*=int8"]
        self.succeed("compile", self.path("model.mlir"), "--weights", self.path("w.npz"), *options, "-o", self.path("package"))
        self.succeed("run", self.path("package"), "--data", self.path("x.npz"), "--weights", self.path("w.npz"), "--steps", 1, "--lr", 1, "--device", "cuda",
                     "--save", self.path("gpu.safetensors"))
        self.same(struct.unpack("<2048f", read_safetensors(self.path("gpu.safetensors"))["w"][2]), on_cpu)


if __name__ == "__main__":
    main()
