#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""kerf plan over everything a plan can say: the plan is what kerf simulate says of it, pins hold, what cannot fit says how much would do."""
import json
import os

from support import CLUSTERS, KerfTest, file_of, kerf, main

GPT = {"model_type": "gpt2", "n_layer": 8, "n_embd": 1024, "n_head": 16, "n_inner": 4096, "vocab_size": 8192, "n_positions": 256}
CLUSTER = os.path.join(CLUSTERS, "dgx-a100.json")
JOB = ("--dtype", "bf16", "--optimizer", "adamw", "--sequence", 256)


class WholePlan(KerfTest):
    def plan(self, *more, config=GPT, cluster=CLUSTER, batch=32):
        done = self.succeed("plan", self.write("config.json", config), "--cluster", cluster, *JOB, "--global-batch", batch, "--json", *more)
        return json.loads(done.stdout)

    def simulate(self, plan, cluster=CLUSTER):
        done = self.succeed("simulate", self.write("config.json", GPT), "--cluster", cluster, *JOB, "--plan", self.write("plan.json", plan),
                            "--json")
        return json.loads(done.stdout)

    def test_the_prediction_is_the_simulators(self):
        for ranks, batch in ((1, 4), (6, 12), (16, 32)):
            plan = self.plan("--ranks", ranks, batch=batch)
            simulated = self.simulate(plan)
            predicted = plan["predicted"]
            self.assertEqual(predicted["step_seconds"], simulated["step_seconds"])
            self.assertEqual(predicted["peak_bytes"], simulated["peak_bytes"])
            self.assertTrue(simulated["fits"])
            self.assertEqual(predicted["lower_bound_seconds"], predicted["step_seconds"])
            self.assertLessEqual(simulated["ranks"], ranks)

    def test_no_plan_by_hand_is_faster(self):
        best = self.plan("--ranks", 8)["predicted"]["step_seconds"]
        for stage, data, model in ((1, 8, 1), (2, 2, 2), (1, 1, 8), (8, 1, 1), (2, 4, 1)):
            for micro in (1, 2, 4):
                by_hand = {"kerf": 1, "mesh": {"stage": stage, "data": data, "model": model}, "global_batch": 32, "microbatch": micro,
                           "optimizer_sharding": 1}
                self.assertGreaterEqual(self.simulate(by_hand)["step_seconds"], best)

    def test_pins_hold(self):
        free = self.plan("--ranks", 8)["predicted"]["step_seconds"]
        pins = {"kerf": 1, "mesh": {"model": 4, "stage": 2}, "recompute": "full", "optimizer_sharding": 2, "microbatch": 2,
                "schedule": {"name": "gpipe"}}
        plan = self.plan("--ranks", 8, "--constraints", self.write("pins.json", pins))
        self.assertEqual((plan["mesh"]["model"], plan["mesh"]["stage"]), (4, 2))
        self.assertEqual((plan["recompute"], plan["optimizer_sharding"], plan["microbatch"], plan["schedule"]["name"]), ("full", 2, 2, "gpipe"))
        self.assertGreaterEqual(plan["predicted"]["step_seconds"], free)

    def test_less_memory_is_never_faster_and_too_little_says_what_would_do(self):
        plan = self.plan("--ranks", 4)
        best = plan["predicted"]["step_seconds"]
        tight = self.plan("--ranks", 4, "--memory", 3_000_000_000)
        self.assertGreaterEqual(tight["predicted"]["step_seconds"], best)
        done = kerf("plan", self.path("config.json"), "--cluster", CLUSTER, *JOB, "--global-batch", 32, "--ranks", 4, "--memory", 1_000_000_000)
        self.assertEqual(done.returncode, 2, done.stderr)
        enough = int(done.stderr.split("the smallest found needs ")[1].split()[0])
        self.assertGreater(enough, 1_000_000_000)
        self.plan("--ranks", 4, "--memory", enough)

    def test_the_report(self):
        done = self.succeed("plan", self.write("config.json", GPT), "--cluster", CLUSTER, *JOB, "--global-batch", 32, "--ranks", 8, "--top", 2)
        for words in ("mesh", "microbatches of", "step", "proven the best", "other plans"):
            self.assertIn(words, done.stdout)

    def test_refusals(self):
        config = self.write("config.json", GPT)
        self.refuse(1, ["--global-batch"], "plan", config, "--cluster", CLUSTER, "--ranks", 8)
        pins = self.write("pins.json", {"kerf": 1, "mesh": {"data": 5}})
        self.refuse(1, ["32", "data"], "plan", config, "--cluster", CLUSTER, "--ranks", 8, "--global-batch", 32, "--constraints", pins)
        pins = self.write("pins.json", {"kerf": 1, "optimizer_sharding_ranks": 3, "optimizer_sharding": 1})
        self.refuse(1, ["optimizer_sharding_ranks", "3"], "plan", config, "--cluster", CLUSTER, "--ranks", 8, "--global-batch", 32, "--constraints",
                    pins)
        pins = self.write("pins.json", {"kerf": 1, "mesh": {"other": 2}})
        self.refuse(1, ["mesh.other", "2"], "plan", config, "--cluster", CLUSTER, "--ranks", 8, "--global-batch", 32, "--constraints", pins)
        self.refuse(1, ["groups"], "plan", config, "--cluster", os.path.join(CLUSTERS, "a100-v100.json"), "--global-batch", 32)
        self.refuse(1, ["bf16", "--search all"], "plan", file_of("mlp"), "--ranks", 2, "--dtype", "bf16")

    def test_an_export_when_asked(self):
        done = self.succeed("plan", file_of("mlp"), "--cluster", CLUSTER, "--ranks", 2, "--search", "all", "--json")
        self.assertGreater(json.loads(done.stdout)["predicted"]["step_seconds"], 0)


if __name__ == "__main__":
    main()
