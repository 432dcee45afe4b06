# SPDX-License-Identifier: Apache-2.0
"""Random graphs of up to 40 operators (graphs.py) train the same on one rank and on 2 to 6 ranks, under plans that a search finds on random
clusters and random meshes: losses of three steps in float64, so that gradients and updates count.

`test_random_graphs.py [SEED [CASES]]`; case i is the graph of seed SEED + i. A failing case prints its seed, plan and cluster, and its graph is
kept in the folder that KERF_KEEP names.
"""
import os
import random
import sys
import unittest

from graphs import random_graph
from support import KerfTest, losses_of, random_cluster, write_npz

SEED = int(sys.argv.pop(1)) if len(sys.argv) > 1 and sys.argv[1].isdigit() else 1
CASES = int(sys.argv.pop(1)) if len(sys.argv) > 1 and sys.argv[1].isdigit() else 12
STEPS = 3
PLANS = 2         # of each graph
TOLERANCE = 1e-8  # relative, of losses near 1; roundings grow through up to 40 operators


class RandomGraphs(KerfTest):
    def losses(self, *options):
        self.succeed("train", self.path("model.onnx"), "--data", self.path("data.npz"), "--steps", STEPS, "--dtype", "f64", "--lr", 0.1,
                     "--log", self.path("log"), *options)
        return losses_of(self.path("log"))

    def test_losses(self):
        for seed in range(SEED, SEED + CASES):
            rnd = random.Random(seed)
            model, data, _ = random_graph(rnd, steps=STEPS)
            self.write("model.onnx", model)
            write_npz(self.path("data.npz"), data)
            if "KERF_KEEP" in os.environ:
                with open(os.path.join(os.environ["KERF_KEEP"], f"graph-{seed}.onnx"), "wb") as file:
                    file.write(model)
            optimizer = ["--optimizer", rnd.choice(["sgd", "adamw"])]
            with self.subTest(seed=seed, optimizer=optimizer[1]):
                expected = self.losses("--ranks", 1, *optimizer)
            for _ in range(PLANS):
                ranks, cluster = rnd.randint(2, 6), random_cluster(rnd)
                model_ways = rnd.choice([d for d in range(1, ranks + 1) if ranks % d == 0])
                plan = {"kerf": 1, "mesh": {"data": ranks // model_ways, "model": model_ways}}
                with self.subTest(seed=seed, optimizer=optimizer[1], plan=plan, cluster=cluster):
                    got = self.losses("--ranks", ranks, *optimizer, "--cluster", self.write("cluster.json", cluster),
                                      "--constraints", self.write("plan.json", plan))
                    for a, b in zip(got, expected, strict=True):
                        self.assertTrue(abs(a - b) <= TOLERANCE * max(abs(b), 1), f"seed {seed}: {got} on {ranks} ranks, {expected} on one")


if __name__ == "__main__":
    unittest.main()
