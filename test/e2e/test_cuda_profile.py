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


if __name__ == "__main__":
    main()
