# SPDX-License-Identifier: Apache-2.0
"""Random graphs of up to 40 operators (graphs.py) train the same on one rank and on 2 to 6 ranks, under plans that a search finds on random
clusters and random meshes, and in pipelines that are cut anywhere: losses of three steps in float64, so that gradients and updates count.

`test_random_graphs.py [SEED [CASES]]`; case i is the graph of seed SEED + i. A failing case prints its seed, plan and cluster, and its graph is
kept in the folder that KERF_KEEP names.
"""
import os
import random
import re
import sys
import unittest

from graph_layers import LAYERS
from graph_parts import PARTS
from graphs import random_graph
from support import KerfTest, kerf, losses_of, random_cluster, write_npz

SEED = int(sys.argv.pop(1)) if len(sys.argv) > 1 and sys.argv[1].isdigit() else 1
CASES = int(sys.argv.pop(1)) if len(sys.argv) > 1 and sys.argv[1].isdigit() else 12
FOUND = [40005, 50092, 50621]  # were wrong once, with PARTS alone
STEPS = 3
PLANS = 2         # of each graph
TOLERANCE = 1e-8  # relative, of losses near 1; roundings grow through up to 40 operators


class RandomGraphs(KerfTest):
    def losses(self, *options):
        self.succeed("train", self.path("model.onnx"), "--data", self.path("data.npz"), "--steps", STEPS, "--dtype", "f64", "--lr", 0.1,
                     "--log", self.path("log"), *options)
        return losses_of(self.path("log"))

    def test_losses(self):
        for seed in [*range(SEED, SEED + CASES), *FOUND]:
            rnd = random.Random(seed)
            model, data, _ = random_graph(rnd, PARTS if seed in FOUND else PARTS + LAYERS, steps=STEPS)
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
                    got = self.losses("--ranks", ranks, "--all-ranks", *optimizer, "--cluster", self.write("cluster.json", cluster),
                                      "--constraints", self.write("plan.json", plan))
                    for a, b in zip(got, expected, strict=True):
                        self.assertTrue(abs(a - b) <= TOLERANCE * max(abs(b), 1), f"seed {seed}: {got} on {ranks} ranks, {expected} on one")
            with self.subTest(seed=seed, optimizer=optimizer[1]):
                plan = self.pipeline(rnd, model, next((shape[1] for _, shape, _ in data.values() if len(shape) > 1), 1))
            with self.subTest(seed=seed, optimizer=optimizer[1], plan=plan):
                got = self.losses(*optimizer, "--plan", self.write("plan.json", plan))
                for a, b in zip(got, expected, strict=True):
                    self.assertTrue(abs(a - b) <= TOLERANCE * max(abs(b), 1), f"seed {seed}: {got} in a pipeline, {expected} on one rank")

    def pipeline(self, rnd, model, batch):
        """Stages that end with nodes of the graph, as many as have something to do; one microbatch, as nodes mix samples."""
        nodes = re.findall(rb"node_t\d+", model)
        for stages in (3, 2, 1):
            for _ in range(4):
                cuts = sorted(rnd.sample(range(len(nodes)), min(stages - 1, len(nodes))))
                ways = rnd.choice([ways for ways in (1, 2) if batch % ways == 0])
                plan = {"kerf": 1, "mesh": {"stage": stages, "data": ways, "model": rnd.choice([1, 2])}, "microbatch": batch // ways,
                        "recompute": rnd.choice(["none", "full"]),
                        "schedule": {"name": "1f1b"}}
                if cuts:
                    plan["stages"] = [{"until": nodes[cut].decode()} for cut in cuts] + [{}]
                done = kerf("compile", self.path("model.onnx"), "--dtype", "f64", "--plan", self.write("plan.json", plan), "-o", self.path("package"))
                if done.returncode == 0:
                    return plan
                self.assertRegex(done.stderr, "leaves nothing|no operator", f"{plan}")
        self.fail("one stage of everything is refused")


if __name__ == "__main__":
    unittest.main()
