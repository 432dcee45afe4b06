#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""kerf profile --device cuda, on the stand-ins: their speed means nothing, but the file must be a cluster that other commands take."""
import json
import math
import os

from support import KERF, KerfTest, file_of, main


class CudaProfile(KerfTest):
    def test_quick(self):
        os.environ.update(KERF_STANDIN_DEVICES="2", KERF_CUDA_LIBRARIES=os.path.join(os.path.dirname(os.path.dirname(KERF)), "standins"))
        path = self.path("here.json")
        self.refuse(2, ["is 3", "has 2 GPUs"], "profile", "--device", "cuda", "--quick", "--ranks", 3, "-o", path)
        self.succeed("profile", "--device", "cuda", "--quick", "--ranks", 2, "-o", path, timeout=600)
        with open(path) as file:
            cluster = json.load(file)
        device, level = cluster["device"], cluster["levels"][0]
        self.assertEqual((device["kind"], level["size"]), ("cuda", 2))
        numbers = [*device["peak_flops"].values(), *device["curves"].values(), device["memory_bytes"], device["memory_bandwidth"],
                   device["host_bandwidth"], level["bandwidth"], level["latency"]]
        self.assertTrue(all(math.isfinite(number) and number > 0 for number in numbers), cluster)
        self.assertEqual(set(device["peak_flops"]), {"f32", "bf16"})
        self.assertIn("collectives of NCCL", cluster["source"]["levels.gpus"])
        self.succeed("plan", file_of("mlp"), "--cluster", path, "--ranks", 2, "-o", self.path("plan.json"))

    def test_kernels(self):
        os.environ.update(KERF_CUDA_LIBRARIES=os.path.join(os.path.dirname(os.path.dirname(KERF)), "standins"))
        for size in ("64", "64y768", "0x768", "64x768x2", "99999999x99999999"):
            self.refuse(1, [size, "65536x768"], "profile", "--device", "cuda", "--kernels", size)
        self.refuse(1, ["--device cuda"], "profile", "--kernels", "64x768")
        self.refuse(1, ["-o is missing"], "profile", "--device", "cuda")
        rows = self.succeed("profile", "--device", "cuda", "--kernels", "16x256", "--kernels", "8x64").stdout.splitlines()
        speeds = [row.rsplit(None, 4) for row in rows if "bf16 tensors" not in row and not row.startswith("kernel ")]
        self.assertEqual(len(speeds) % 2, 0)
        by_name = {row[0].strip(): [float(number) for number in row[1:]] for row in speeds[:len(speeds) // 2]}
        self.assertEqual(by_name["layer_norm_backward of 4096 elements"][1], round((3 * 16 * 256 * 2 + 3 * 256 * 4 + 2 * 16 * 4) / 1e6, 1))
        self.assertTrue(all(numbers[0] > 0 for numbers in by_name.values()), rows)


if __name__ == "__main__":
    main()
