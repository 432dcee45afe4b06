#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""kerf profile: a quick one writes a cluster that other commands take, with sensible figures; bad options are refused."""
import json
import os
import time

from support import KerfTest, file_of, kerf, main


class Profile(KerfTest):
    def test_quick(self):
        path = self.path("here.json")
        start = time.monotonic()
        done = self.succeed("profile", "--quick", "-o", path, "--ranks", 3, timeout=60)
        self.assertLess(time.monotonic() - start, 30, "--quick promises 15 s; twice that is left for other work of the machine")
        self.assertIn("GFLOP/s", done.stdout)
        self.assertIn("collectives between 3 ranks", done.stderr)
        self.assertEqual([name for name in os.listdir(self.folder)], ["here.json"], "nothing half-written stays")
        with open(path) as file:
            cluster = json.load(file)
        device, curves = cluster["device"], cluster["device"]["curves"]
        self.assertEqual(device["kind"], "cpu")
        self.assertEqual([level["size"] for level in cluster["levels"]], [3])
        self.assertGreater(device["memory_bytes"], 2**20)
        # Any machine of this century, and no machine of it yet.
        self.assertTrue(1e8 < device["peak_flops"]["f32"] < 1e13, device["peak_flops"])
        self.assertLess(device["peak_flops"]["f64"], 1.5 * device["peak_flops"]["f32"])
        self.assertTrue(1e8 < device["memory_bandwidth"] < 1e12, device)
        self.assertTrue(1 <= curves["host_cores"] <= os.cpu_count() + 1e-9, curves)
        self.assertTrue(all("measured by kerf profile on 20" in text for key, text in cluster["source"].items()
                            if key.startswith("device.curves")), cluster["source"])
        self.assertTrue(any(key.startswith("device.curves") for key in cluster["source"]), cluster["source"])

        plan = self.path("plan.json")
        model = file_of("mlp")
        for ranks in (1, 3):
            self.succeed("plan", model, "--cluster", path, "--ranks", ranks, "--all-ranks", "-o", plan)
            with open(plan) as file:
                predicted = json.load(file)["predicted"]
            self.assertTrue(0 < predicted["lower_bound_seconds"] <= predicted["step_seconds"] < 1, predicted)
        self.refuse(1, ["4", "3"], "plan", model, "--cluster", path, "--ranks", 4)

    def test_bad_options(self):
        path = self.path("here.json")
        done = kerf("profile", "--device", "abacus", "-o", path)
        self.assertEqual(done.returncode, 1)
        self.assertIn("abacus", done.stderr)
        for bad in (["--ranks", 0, "-o", path], ["--ranks", "many", "-o", path], ["--quick"]):
            done = kerf("profile", *bad)
            self.assertEqual(done.returncode, 1, bad)
        self.refuse(1, ["no/such/folder"], "profile", "--quick", "--ranks", 1, "-o", self.path("no/such/folder/here.json"))
        self.assertFalse(os.path.exists(path), "what is refused writes nothing")


if __name__ == "__main__":
    main()
