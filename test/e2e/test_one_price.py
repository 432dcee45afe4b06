#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""One plan has one price and one memory figure, whatever command tells them, and runs in that memory.

`test_one_price.py [SEED [CASES]]`: so many random jobs; a failing case prints its seed and what was asked.
"""
import json
import random
import sys
import unittest

from support import KerfTest, file_of, golden_of, kerf, main, optimizer_flags

SEED = int(sys.argv.pop(1)) if len(sys.argv) > 1 and sys.argv[1].isdigit() else 20270
CASES = int(sys.argv.pop(1)) if len(sys.argv) > 1 and sys.argv[1].isdigit() else 6
DIGITS = 1e-9  # relative: what printing a double leaves
CONFIG = {"model_type": "gpt2", "n_layer": 4, "n_embd": 64, "n_head": 4, "n_inner": 256, "vocab_size": 128, "n_positions": 32}


class OnePrice(KerfTest):
    def told(self, model, job, plan_options):
        """What plan, simulate, compile, explain and a run say of the plan that `plan` finds; None where nothing fits."""
        done = kerf("plan", model, *job, *plan_options, "--json", "-o", self.path("plan.json"))
        if done.returncode == 2:
            return None
        self.assertEqual(done.returncode, 0, done.stderr[-2000:])
        plan = json.loads(done.stdout)
        predicted = plan["predicted"]
        asked = [*job, "--plan", self.path("plan.json")]
        simulated = json.loads(self.succeed("simulate", model, *asked, "--json").stdout)
        compiled = json.loads(self.succeed("compile", model, *asked, "-o", self.path("package"), "--json").stdout)
        explained = json.loads(self.succeed("explain", self.path("plan.json"), "--json").stdout)
        for name, seconds in (("simulate", simulated["step_seconds"]), ("compile", compiled["step_seconds"]), ("explain", explained["step_seconds"])):
            self.assertAlmostEqual(seconds, predicted["step_seconds"], delta=DIGITS * seconds, msg=name)
        self.assertEqual([int(b) for b in simulated["peak_bytes"]], predicted["peak_bytes"])
        self.assertEqual(compiled["memory_bytes"]["total"], max(predicted["peak_bytes"]))
        return plan

    def measured(self, data, steps=2):
        done = self.succeed("run", self.path("package"), "--data", data, "--steps", steps, "--json")
        measured = json.loads(done.stdout)["measured"]
        return max(measured.get("stage_peak_bytes") or [measured["peak_bytes"]])

    def job(self, model, optimizer):
        step, _ = optimizer_flags(golden_of(model), optimizer)
        return step

    def check(self, model, optimizer, options):
        plan = self.told(file_of(model), self.job(model, optimizer), options)
        if plan is None:
            return None
        peak = max(plan["predicted"]["peak_bytes"])
        self.assertEqual(self.measured(file_of(model, "batches.npz")), peak)
        return plan, peak

    def test_a_plan_runs_in_the_memory_that_it_was_given(self):
        _, free = self.check("gpt2", "adamw", ["--ranks", 4, "--all-ranks"])
        for search in ("placement", "whole"):
            for share in (0.9, 0.75):
                limit = int(free * share)
                with self.subTest(search=search, limit=limit):
                    found = self.check("gpt2", "adamw", ["--ranks", 4, "--search", search, "--memory", limit])
                    if found:
                        self.assertLessEqual(found[1], limit)

    def test_memory_holds_for_a_plan_that_is_given(self):
        plan = self.write("execution.json", {"kerf": 1, "mesh": {"stage": 2, "data": 2}, "microbatch": 2, "recompute": "full"})
        job = self.job("gpt2", "adamw")
        report = json.loads(self.succeed("compile", file_of("gpt2"), *job, "--plan", plan, "-o", self.path("package"), "--json").stdout)
        needs = report["memory_bytes"]["total"]
        self.assertEqual(self.measured(file_of("gpt2", "batches.npz")), needs)
        simulated = json.loads(self.succeed("simulate", file_of("gpt2"), *job, "--plan", plan, "--json").stdout)
        self.assertEqual(max(simulated["peak_bytes"]), needs)
        self.assertAlmostEqual(simulated["step_seconds"], report["step_seconds"], delta=DIGITS * report["step_seconds"])
        self.succeed("compile", file_of("gpt2"), *job, "--plan", plan, "-o", self.path("package"), "--memory", needs)
        self.refuse(2, [str(needs), str(needs - 1), "--memory"], "compile", file_of("gpt2"), *job, "--plan", plan, "-o", self.path("package"),
                    "--memory", needs - 1)
        self.refuse(2, [str(needs), "--memory"], "train", file_of("gpt2"), *job, "--plan", plan, "--data", file_of("gpt2", "batches.npz"),
                    "--memory", needs - 1)

    def test_both_searches_price_one_program_alike(self):
        """On one rank, without a limit, both searches find the program that does everything once."""
        seconds = {}
        for search in ("placement", "whole"):
            plan, _ = self.check("gpt2", "adamw", ["--ranks", 1, "--search", search])
            seconds[search] = plan["predicted"]["step_seconds"]
        self.assertAlmostEqual(seconds["whole"], seconds["placement"], delta=0.01 * seconds["placement"])

    def test_fewer_ranks_where_they_are_faster(self):
        """Links that cost more than all the work: one rank is best, unless all are asked for."""
        cluster = self.write("slow.json", {
            "name": "slow links", "device": {"kind": "cpu", "name": "core", "memory_bytes": 10 ** 10, "cores": 1,
                                              "peak_flops": {"f32": 1e11, "f64": 5e10}, "memory_bandwidth": 1e10},
            "levels": [{"name": "link", "size": 4, "bandwidth": 1e5, "latency": 0.01}]})
        for search in ("placement", "whole"):
            with self.subTest(search=search):
                done = self.succeed("plan", file_of("gpt2"), "--cluster", cluster, "--search", search, "--json")
                self.assertEqual(self.ranks_of(json.loads(done.stdout)), 1)
                self.assertIn("4 ranks would take", done.stderr)
                self.assertIn("--all-ranks", done.stderr)
                whole = self.succeed("plan", file_of("gpt2"), "--cluster", cluster, "--search", search, "--all-ranks", "--json")
                self.assertEqual(self.ranks_of(json.loads(whole.stdout)), 4)
                pinned = self.succeed("plan", file_of("gpt2"), "--cluster", cluster, "--search", search, "--json", "--constraints",
                                      self.write("mesh.json", {"kerf": 1, "mesh": {"data": 2, "model": 2}}))
                self.assertEqual(self.ranks_of(json.loads(pinned.stdout)), 4)
        trained = self.succeed("train", file_of("gpt2"), "--cluster", cluster, "--data", file_of("gpt2", "batches.npz"), "--steps", 1)
        self.assertIn("planned for 1", trained.stderr)

    def slow_cluster(self, latency):
        return self.write(f"latency-{latency}.json", {
            "name": "slow links", "device": {"kind": "cpu", "name": "core", "memory_bytes": 10 ** 10, "cores": 2,
                                              "peak_flops": {"f32": 1e11, "f64": 5e10}, "memory_bandwidth": 1e10},
            "levels": [{"name": "link", "size": 2, "bandwidth": 1e12, "latency": latency}]})

    def test_a_bucket_has_one_latency(self):
        """What a longer latency adds is what the list of steps waits for: once a bucket, not once a gradient."""
        plan = self.write("plan.json", {"kerf": 1, "mesh": {"data": 2}, "microbatch": 2, "schedule": {"name": "1f1b"}})
        reports = []
        for latency in (0.2, 0.4):
            done = self.succeed("compile", file_of("gpt2"), "--cluster", self.slow_cluster(latency), "--plan", plan, "-o", self.path("package"), "--json")
            reports.append(json.loads(done.stdout))
        steps = json.loads(self.read("package/program.json"))["steps"]["stages"]
        self.assertEqual(len(steps), 1)
        gradients = sum(c["calls"] for c in reports[0]["collectives"] if c["stream"] == "gradients")
        (bucket,) = reports[0]["steps"][0]["buckets"]
        self.assertGreater(gradients, 20)
        self.assertEqual(bucket["collectives"], gradients)
        self.assertEqual(sum(len(entry["start"]) for entry in steps[0] if "start" in entry and entry["stream"] == "gradients"), gradients)
        latencies = (reports[1]["step_seconds"] - reports[0]["step_seconds"]) / 0.2  # an all-reduce is two messages
        others = sum(c["calls"] for c in reports[0]["collectives"] if c["stream"] != "gradients")
        self.assertGreaterEqual(latencies, 2 * 0.99)
        self.assertLessEqual(latencies, 2 * (1 + others) * 1.01)
        self.assertLess(latencies, gradients)

    def test_explain_shows_the_list_of_steps(self):
        plan = {"kerf": 1, "mesh": {"stage": 2, "data": 2}, "microbatch": 2, "optimizer_sharding": 2}
        self.succeed("plan", file_of("gpt2"), "--ranks", 4, "--search", "whole", "--constraints", self.write("pins.json", plan), "-o", self.path("plan.json"))
        explained = json.loads(self.succeed("explain", self.path("plan.json"), "--json").stdout)["steps"]
        compiled = json.loads(self.succeed("compile", file_of("gpt2"), "--plan", self.path("plan.json"), "-o", self.path("package"), "--json").stdout)["steps"]
        self.assertEqual(explained, compiled)
        self.assertEqual([stage["stage"] for stage in compiled], [0, 1])
        lists = json.loads(self.read("package/program.json"))["steps"]["stages"]
        for stage, steps in zip(compiled, lists):
            buckets = [entry for entry in steps if len(entry.get("start", [])) > 1]
            self.assertEqual([bucket["collectives"] for bucket in stage["buckets"]], [len(bucket["start"]) for bucket in buckets])
            changed = {each["name"]: each["changed"] for each in stage["passes"]}
            self.assertEqual(changed["fill-buckets"], sum(len(bucket["start"]) - 1 for bucket in buckets))
            self.assertEqual(changed["await-messages"], sum("received" in entry for entry in steps))
        self.assertIn("fill-buckets", self.succeed("explain", self.path("plan.json")).stdout)

    def ranks_of(self, plan):
        ranks = 1
        for size in plan["mesh"].values():
            ranks *= size
        return ranks

    def test_constraints_may_be_any_partial_plan(self):
        """Stages, schedule and recomputation in the constraints of train and compile, which then search for the rest."""
        pins = self.write("pins.json", {"kerf": 1, "mesh": {"stage": 2}, "schedule": {"name": "gpipe"}, "recompute": "full", "microbatch": 2})
        common = [file_of("gpt2"), "--ranks", 2, "--constraints", pins]
        self.succeed("train", *common, "--data", file_of("gpt2", "batches.npz"), "--steps", 1, "--save-plan", self.path("plan.json"))
        plan = json.loads(self.read("plan.json"))
        self.assertEqual((plan["mesh"]["stage"], plan["schedule"]["name"], plan["recompute"], plan["microbatch"]), (2, "gpipe", "full", 2))
        self.succeed("compile", *common, "-o", self.path("package"))
        self.assertEqual(json.loads(self.succeed("plan", *common, "--json").stdout)["mesh"]["stage"], 2)
        self.refuse(1, ["--search whole"], "train", *common, "--data", file_of("gpt2", "batches.npz"), "--search", "placement")

    def test_the_margin_is_left_free(self):
        a100 = {"name": "small", "device": {"kind": "cuda", "name": "A100", "memory_bytes": 3 * 2 ** 30, "peak_flops": {"bf16": 312e12, "f32": 19e12},
                                            "memory_bandwidth": 2e12},
                "levels": [{"name": "nvlink", "size": 4, "bandwidth": 3e11, "latency": 1e-6}]}
        cluster = self.write("small.json", a100)
        job = [self.write("config.json", CONFIG), "--cluster", cluster, "--global-batch", 8, "--sequence", 32, "--dtype", "bf16"]
        plan = self.write("plan.json", {"kerf": 1, "mesh": {"data": 4}})
        memory = lambda *more: json.loads(self.succeed("simulate", *job, "--plan", plan, "--json", *more).stdout)
        usual, none = memory(), memory("--margin", 0)
        self.assertEqual(none["memory"][0]["limit_bytes"], 3 * 2 ** 30)
        self.assertEqual(usual["memory"][0]["limit_bytes"], int(3 * 2 ** 30 * 0.95))
        tight = 1 - none["memory"][0]["device_bytes"] / (3 * 2 ** 30)
        self.assertTrue(memory("--margin", tight - 0.01)["fits"])
        self.assertFalse(memory("--margin", tight + 0.01)["fits"])
        self.succeed("plan", *job, "--margin", tight - 0.01)
        self.refuse(2, ["fits"], "plan", *job, "--margin", min(0.99, tight + 0.2))

    def test_random_jobs(self):
        rnd = random.Random(SEED)
        for case in range(CASES):
            model, optimizer = rnd.choice(["gpt2", "llama", "mlp"]), rnd.choice(["sgd", "adamw"])
            options = ["--ranks", rnd.randint(1, 4), "--search", rnd.choice(["placement", "whole"]), "--dtype", rnd.choice(["f32", "f64", "bf16"])]
            if rnd.random() < 0.5 and options[1] != 3:  # 3 does not divide every batch
                options.append("--all-ranks")
            pins = {"kerf": 1}
            if options[3] == "whole" and rnd.random() < 0.5 and model != "mlp":
                pins["recompute"] = rnd.choice(["full", "selective", "none", "pointwise", "except-attention"])
            if options[3] == "whole" and rnd.random() < 0.3:
                pins["optimizer_sharding"] = rnd.choice([0, 1, 2])
            if rnd.random() < 0.3 and options[1] % 2 == 0:
                pins["mesh"] = {"model": rnd.choice([1, 2])}
            if len(pins) > 1:
                options += ["--constraints", self.write("pins.json", pins)]
            share = rnd.choice([None, 0.9, 0.7, 0.5])
            with self.subTest(seed=SEED, case=case, model=model, optimizer=optimizer, options=options, pins=pins, share=share):
                self.random_job(model, optimizer, options, share)

    def random_job(self, model, optimizer, options, share):
        dtype = options[options.index("--dtype"):][:2]
        job = [*self.job(model, optimizer), *dtype]
        plan_options = [o for o in options if o not in dtype]
        plan = self.told(file_of(model), job, plan_options)
        if plan is None:
            return
        peak = max(plan["predicted"]["peak_bytes"])
        self.assertEqual(self.measured(file_of(model, "batches.npz")), peak)
        if share:
            limit = int(peak * share)
            tight = self.told(file_of(model), job, [*plan_options, "--memory", limit])
            if tight:
                self.assertLessEqual(max(tight["predicted"]["peak_bytes"]), limit)
                self.assertEqual(self.measured(file_of(model, "batches.npz")), max(tight["predicted"]["peak_bytes"]))


if __name__ == "__main__":
    main()
