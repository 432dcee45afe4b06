# SPDX-License-Identifier: Apache-2.0
"""Any plan gives the single-device losses: plans that a search finds on random clusters (compute and links from free to dear, so that
every op is cut somewhere and partial sums travel far) over random meshes of 2 to 8 ranks, against the float64 reference.

`test_random_plans.py [SEED [CASES]]`; a failing case prints its seed, mesh and cluster.
"""
import random
import sys
import unittest

from support import KerfTest, file_of, golden_of, losses_of, optimizer_flags, random_cluster

SEED = int(sys.argv.pop(1)) if len(sys.argv) > 1 and sys.argv[1].isdigit() else 20260
CASES = int(sys.argv.pop(1)) if len(sys.argv) > 1 and sys.argv[1].isdigit() else 16
STEPS = 4
TOLERANCE = 1e-9  # of float64 losses after 4 steps: the reference's own tables are rounded to float32


class RandomPlans(KerfTest):
    def test_losses(self):
        rnd = random.Random(SEED)
        for case in range(CASES):
            model, optimizer = rnd.choice(["gpt2", "llama", "mlp"]), rnd.choice(["sgd", "adamw"])
            ranks = rnd.randint(2, 8)
            model_ways = rnd.choice([d for d in range(1, ranks + 1) if ranks % d == 0])
            cluster = random_cluster(rnd)
            plan = {"kerf": 1, "mesh": {"data": ranks // model_ways, "model": model_ways},
                    "order": rnd.choice([["data", "model"], ["model", "data"]])}
            golden = golden_of(model)
            step, run = optimizer_flags(golden, optimizer)
            with self.subTest(seed=SEED, case=case, model=model, optimizer=optimizer, plan=plan, cluster=cluster):
                self.succeed("train", file_of(model), "--data", file_of(model, "batches.npz"), "--ranks", ranks, "--steps", STEPS,
                             "--dtype", "f64", *step, *run, "--cluster", self.write("cluster.json", cluster),
                             "--constraints", self.write("plan.json", plan), "--log", self.path("log"))
                losses = losses_of(self.path("log"))
                self.assertEqual(len(losses), STEPS)
                for got, expected in zip(losses, golden["losses"][optimizer]["float64"]):
                    self.assertLess(abs(got - expected), TOLERANCE * abs(expected))


if __name__ == "__main__":
    unittest.main()
