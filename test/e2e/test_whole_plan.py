#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""kerf plan over everything a plan can say: the plan is what kerf simulate says of it, pins hold, what cannot fit says how much would do."""
import json
import os
import signal
import subprocess

from support import CLUSTERS, KERF, ROOT, KerfTest, file_of, kerf, main

GPT = {"model_type": "gpt2", "n_layer": 8, "n_embd": 1024, "n_head": 16, "n_inner": 4096, "vocab_size": 8192, "n_positions": 256}
CLUSTER = os.path.join(CLUSTERS, "dgx-a100.json")
MIXED = os.path.join(CLUSTERS, "a100-v100.json")
JOB = ("--dtype", "bf16", "--optimizer", "adamw", "--sequence", 256)
F16 = ("--dtype", "f16", *JOB[2:])


class WholePlan(KerfTest):
    def plan(self, *more, config=GPT, cluster=CLUSTER, job=JOB, batch=32):
        done = self.succeed("plan", self.write("config.json", config), "--cluster", cluster, *job, "--global-batch", batch, "--json", *more)
        return json.loads(done.stdout)

    def simulate(self, plan, cluster=CLUSTER, config=GPT, job=JOB):
        done = self.succeed("simulate", self.write("config.json", config), "--cluster", cluster, *job, "--plan", self.write("plan.json", plan),
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

    def test_sizes_that_do_not_divide_the_heads(self):
        """Four ranks of "model" share 10 heads where Kerf runs the plan; Megatron-LM refuses such plans."""
        config = {"model_type": "gpt_neox", "num_hidden_layers": 8, "hidden_size": 1280, "num_attention_heads": 10, "vocab_size": 32000,
                  "intermediate_size": 5120}
        job = (*JOB[:4], "--sequence", 262144)
        found = {trainer: self.plan("--ranks", 64, "--for", trainer, config=config, job=job, batch=1) for trainer in ("kerf", "megatron")}
        self.assertEqual([found[trainer]["mesh"]["model"] for trainer in ("kerf", "megatron")], [4, 2])
        slower = self.simulate(dict(found["kerf"], mesh=found["megatron"]["mesh"]), config=config, job=job)
        self.assertLess(found["kerf"]["predicted"]["step_seconds"], slower["step_seconds"])

    def test_few_positions_on_each_rank(self):
        config = {"model_type": "qwen2", "num_hidden_layers": 36, "hidden_size": 1024, "num_attention_heads": 8, "num_key_value_heads": 8,
                  "vocab_size": 50304, "intermediate_size": 3584}
        pins = self.write("pins.json", {"kerf": 1, "recompute": "full", "overlap": ["gradients", "parameters", "stage"]})
        plan = self.plan("--ranks", 8, "--constraints", pins, config=config, cluster=os.path.join(CLUSTERS, "eos.json"), batch=4,
                         job=("--dtype", "bf16", "--optimizer", "lion", "--sequence", 1024))
        self.assertEqual(plan["mesh"]["context"], 2)  # 512 positions

    def test_threads_that_compute_layouts_change_nothing(self):
        config = {"model_type": "mixtral", "num_hidden_layers": 8, "hidden_size": 1024, "num_attention_heads": 16, "num_key_value_heads": 4,
                  "intermediate_size": 3584, "vocab_size": 32000, "num_local_experts": 8, "num_experts_per_tok": 2}
        command = [KERF, "plan", self.write("config.json", config), "--cluster", CLUSTER, "--ranks", "64", "--dtype", "bf16", "--optimizer", "adamw",
                   "--sequence", "8192", "--global-batch", "16", "--json"]
        answers = []
        for cores in [sorted(os.sched_getaffinity(0)), sorted(os.sched_getaffinity(0))[:1]]:  # with one core, there are no such threads
            done = subprocess.run(command, capture_output=True, text=True, check=True, preexec_fn=lambda: os.sched_setaffinity(0, cores))
            answers.append(done.stdout)
        self.assertEqual(answers[0], answers[1])

    def test_pins_hold(self):
        free = self.plan("--ranks", 8)["predicted"]["step_seconds"]
        pins = {"kerf": 1, "mesh": {"model": 4, "stage": 2}, "recompute": "full", "optimizer_sharding": 2, "microbatch": 2,
                "schedule": {"name": "gpipe"}}
        plan = self.plan("--ranks", 8, "--constraints", self.write("pins.json", pins))
        self.assertEqual((plan["mesh"]["model"], plan["mesh"]["stage"]), (4, 2))
        self.assertEqual((plan["recompute"], plan["optimizer_sharding"], plan["microbatch"], plan["schedule"]["name"]), ("full", 2, 2, "gpipe"))
        self.assertGreaterEqual(plan["predicted"]["step_seconds"], free)

    def test_layouts(self):
        config = dict(GPT, n_embd=4096, n_head=32, n_inner=16384, n_positions=1024)
        job = ("--dtype", "bf16", "--optimizer", "adamw", "--sequence", 1024)

        def plan(**pins):
            given = {"kerf": 1, "mesh": {"model": 8}, "overlap": ["gradients", "parameters", "stage"], **pins}
            return self.plan("--ranks", 8, "--constraints", self.write("pins.json", given), config=config, job=job)

        free = plan()
        self.assertEqual((free["layout"], free["sequence_parallel"]), ("solved", False))
        self.assertEqual(self.simulate(free, CLUSTER, config, job)["step_seconds"], free["predicted"]["step_seconds"])
        self.assertEqual(plan(layout="solved")["predicted"], free["predicted"])
        megatron = plan(layout="megatron")
        self.assertLess(free["predicted"]["step_seconds"], megatron["predicted"]["step_seconds"])
        for sequence in (False, True):
            pinned = plan(sequence_parallel=sequence)
            self.assertEqual((pinned["layout"], pinned["sequence_parallel"]), ("megatron", sequence))
            self.assertGreaterEqual(pinned["predicted"]["step_seconds"], megatron["predicted"]["step_seconds"])
        saved = self.write("saved.json", free)
        self.assertRegex(self.succeed("explain", saved).stdout, r"layout +solved")

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
        for words in ("mesh", "microbatches of", "step", "proven optimal", "other plans"):
            self.assertIn(words, done.stdout)

    def written(self, name, *more, batch=32):
        path = self.path(name)
        self.succeed("plan", self.write("config.json", GPT), "--cluster", CLUSTER, *JOB, "--global-batch", batch, "-o", path, *more)
        return path

    def test_what_if_is_what_planning_there_gives(self):
        path = self.written("plan.json", "--ranks", 16)
        for question, cluster in (("infiniband.bandwidth/16", lambda c: self.scaled(c, "infiniband", 1 / 16)),
                                  ("level.nvlink.bandwidth/64", lambda c: self.scaled(c, "nvlink", 1 / 64))):
            answer = json.loads(self.succeed("explain", path, "--what-if", question, "--json").stdout)
            with open(CLUSTER) as file:
                there = self.write("cluster.json", cluster(json.load(file)))
            again = self.plan("--ranks", 16, cluster=there)["predicted"]["step_seconds"]
            self.assertAlmostEqual(answer["step_seconds"], again, delta=1e-9 * again)
            self.assertLessEqual(answer["step_seconds"], answer["this_plan_seconds"])
        twice = json.loads(self.succeed("explain", path, "--what-if", "global_batch*2", "--json").stdout)
        self.assertEqual(twice["plan"]["global_batch"], 64)
        half = json.loads(self.succeed("explain", path, "--what-if", "ranks/2", "--json").stdout)
        self.assertEqual(half["step_seconds"], self.plan("--ranks", 8)["predicted"]["step_seconds"])
        self.refuse(1, ["foo", "infiniband.bandwidth"], "explain", path, "--what-if", "foo*2")
        self.refuse(1, ["infiniband.bandwidth"], "explain", path, "--what-if", "infiniband.bandwidth")
        self.refuse(1, ["32", "whole"], "explain", path, "--what-if", "global_batch/5")

    def scaled(self, cluster, level, factor):
        for one in cluster["levels"]:
            if one["name"] == level:
                for key in ("bandwidth", "node_bandwidth", "switch_bandwidth"):
                    if key in one:
                        one[key] *= factor
        return cluster

    def test_explain_says_what_each_decision_would_cost(self):
        path = self.written("plan.json", "--ranks", 8)
        answer = json.loads(self.succeed("explain", path, "--json").stdout)
        with open(path) as file:
            best = json.load(file)["predicted"]["step_seconds"]
        self.assertEqual(answer["step_seconds"], best)
        decisions = {one["decision"]: one for one in answer["alternatives"]}
        for key in ("microbatch", "recompute", "optimizer_sharding", "mesh.data"):
            self.assertIn(key, decisions)
        # Each alternative is what planning with its constraints gives.
        for one in decisions.values():
            if not one["alternative"]:
                continue
            seconds = one["alternative"]["step_seconds"]
            self.assertGreaterEqual(seconds, best)
            self.assertNotEqual(one["value"], one["other_value"])
            self.assertTrue(one["proven"])
            pinned = self.plan("--ranks", 8, "--constraints", self.write("pins.json", one["constraints"]))
            self.assertAlmostEqual(pinned["predicted"]["step_seconds"], seconds, delta=1e-9 * seconds, msg=one["decision"])
        less = answer["memory"]["with_10_percent_less"]
        pinned = self.plan("--ranks", 8, "--memory", less["memory_bytes"])
        self.assertAlmostEqual(pinned["predicted"]["step_seconds"], less["step_seconds"], delta=1e-9 * less["step_seconds"])
        text = self.succeed("explain", path).stdout
        for words in ("memory", "10 % more", "for 1 % more of", "device.flops", "another value of each decision", "                 value", "as constraints: {"):
            self.assertIn(words, text)

    def test_two_plans_differ_in(self):
        one, other = self.written("one.json", "--ranks", 8), self.written("other.json", "--ranks", 4)
        difference = json.loads(self.succeed("explain", one, other, "--json").stdout)
        self.assertLess(difference["step_seconds"][0], difference["step_seconds"][1])
        self.assertTrue(difference["decisions"])
        self.assertIn("->", self.succeed("explain", one, other).stdout)

    def test_a_plan_to_begin_with(self):
        path = self.written("plan.json", "--ranks", 8)
        done = self.succeed("plan", self.path("config.json"), "--cluster", CLUSTER, *JOB, "--global-batch", 64, "--ranks", 8, "--from", path)
        self.assertIn("changed from", done.stdout)
        self.assertIn("global_batch", done.stdout)
        self.assertIn("64", done.stdout)
        again = self.plan("--ranks", 8, "--from", path)
        self.assertEqual(again["predicted"]["step_seconds"], self.plan("--ranks", 8)["predicted"]["step_seconds"])

    def test_pareto_trades_time_for_ranks_and_memory(self):
        config = self.write("config.json", GPT)
        arguments = ("plan", config, "--cluster", CLUSTER, *JOB, "--global-batch", 32, "--ranks", 8, "--pareto")
        points = json.loads(self.succeed(*arguments, "--json").stdout)
        self.assertGreater(len(points), 2)
        for i, point in enumerate(points):
            for faster in points[:i]:
                self.assertLessEqual(faster["step_seconds"], point["step_seconds"])
                self.assertTrue(point["ranks"] < faster["ranks"] or point["device_bytes"] < faster["device_bytes"])
        self.assertIn("no other plan beats in step time, ranks and memory", self.succeed(*arguments).stdout)
        report = self.path("report.json")
        self.succeed(*arguments, "--report", report)
        with open(report) as file:
            self.assertEqual(len(json.load(file)["pareto"]), len(points))

    def test_ctrl_c_gives_the_best_so_far(self):
        config = self.write("config.json", dict(GPT, n_layer=96, n_embd=12288, n_head=96, n_inner=49152))
        path = self.path("plan.json")
        with subprocess.Popen([KERF, "plan", config, "--cluster", os.path.join(CLUSTERS, "selene.json"), "--ranks", "1024", *map(str, JOB),
                               "--global-batch", "1536", "-o", path], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as search:
            for line in search.stderr:
                if line.startswith("best ") and not line.startswith("best 0 s"):
                    break
            search.send_signal(signal.SIGINT)
            out, err = search.communicate(timeout=60)
        self.assertEqual(search.returncode, 0, err)
        self.assertIn("interrupted", err)
        with open(path) as file:
            predicted = json.load(file)["predicted"]
        self.assertTrue(predicted["fits"])
        self.assertLess(predicted["lower_bound_seconds"], predicted["step_seconds"])

    def test_pins_that_conflict_are_named(self):
        config = self.write("config.json", GPT)
        pins = self.write("pins.json", {"kerf": 1, "mesh": {"data": 8}, "microbatch": 8, "gradient_dtype": "f32"})
        done = kerf("plan", config, "--cluster", CLUSTER, *JOB, "--global-batch", 32, "--ranks", 8, "--constraints", pins)
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("mesh.data = 8, microbatch = 8", done.stderr)
        self.assertNotIn("gradient_dtype", done.stderr)

    def test_pins_of_ops_hold(self):
        ops = {"transformer.h.*.mlp*/*": {"strategy": {}}}
        pins = self.write("pins.json", {"kerf": 1, "mesh": {"model": 4}, "ops": ops})
        plan = self.plan("--ranks", 8, "--constraints", pins)
        self.assertEqual((plan["mesh"]["model"], plan["ops"]), (4, ops))
        self.assertEqual(self.simulate(plan)["step_seconds"], plan["predicted"]["step_seconds"])
        without = self.plan("--ranks", 8, "--constraints", self.write("pins.json", {"kerf": 1, "mesh": {"model": 4}}))
        self.assertGreater(plan["predicted"]["step_seconds"], without["predicted"]["step_seconds"])
        # An axis that a mesh does not have cuts nothing there.
        cut = {"kerf": 1, "ops": {"transformer.h.*.mlp.c_fc/dot_general": {"strategy": {"n": ["model"]}}}}
        self.assertEqual(self.plan("--ranks", 8, "--constraints", self.write("pins.json", cut))["ops"], cut["ops"])
        pins = self.write("pins.json", {"kerf": 1, "ops": {"foo": {"strategy": {}}}})
        self.refuse(1, ["foo", "no op"], "plan", self.path("config.json"), "--cluster", CLUSTER, *JOB, "--global-batch", 32, "--ranks", 8,
                    "--constraints", pins)

    def test_equal_sizes_of_batch_and_sequence(self):
        folder = os.path.join(ROOT, "test", "models", "families")
        for family in ("t5", "bert"):
            self.succeed("plan", os.path.join(folder, family, "config.json"), "--cluster", CLUSTER, "--ranks", 2, "--sequence", 8, "--global-batch", 8)

    def test_what_if_ranks_is_of_the_whole_cluster(self):
        path = self.written("plan.json", "--ranks", 2)
        twice = json.loads(self.succeed("explain", path, "--what-if", "ranks*2", "--json").stdout)
        self.assertEqual(twice["step_seconds"], self.plan("--ranks", 4)["predicted"]["step_seconds"])

    def test_from_takes_decisions_only(self):
        pins = self.write("pins.json", {"kerf": 1, "gradient_dtype": "bf16", "mesh": {"data": 4}})
        path = self.written("plan.json", "--ranks", 4, "--constraints", pins)
        again = self.plan("--ranks", 4, "--from", path)
        self.assertEqual(again["gradient_dtype"], "f32")
        self.assertEqual(again["predicted"]["step_seconds"], self.plan("--ranks", 4)["predicted"]["step_seconds"])

    def test_modes(self):
        plan = self.plan("--ranks", 4, "--mode", "data")
        self.assertEqual([plan["mesh"][axis] for axis in ("stage", "context", "expert", "model")], [1, 1, 1, 1])
        pins = self.write("pins.json", {"kerf": 1, "mesh": {"stage": 2}})
        self.refuse(1, ["mesh.stage", "2"], "plan", self.write("config.json", GPT), "--cluster", CLUSTER, *JOB, "--global-batch", 32, "--ranks", 4,
                    "--mode", "data", "--constraints", pins)

    def test_mixed_clusters(self):
        config = dict(GPT, n_layer=12, n_embd=2048, n_inner=8192)
        with open(MIXED) as file:
            cluster = json.load(file)
        for group in cluster["groups"]:
            group["levels"][1]["size"] = 1  # one node of A100, one of V100
        small = self.write("cluster.json", cluster)
        plan = self.plan(config=config, cluster=small, job=F16, batch=512)
        sizes, layers = plan["mesh"], [0, 0]
        self.assertGreater(sizes["stage"], 1)
        self.assertEqual(plan["order"][0], "stage")
        ranks = 1
        for size in sizes.values():
            ranks *= size
        each = ranks // sizes["stage"]
        for part, stage in enumerate(plan["stages"]):
            number = part % sizes["stage"]
            self.assertEqual(number * each // 8, ((number + 1) * each - 1) // 8)  # lies in one group
            layers[number * each // 8] += stage["layers"][1] - stage["layers"][0] + 1 if stage["layers"] else 0
        self.assertGreater(layers[0], layers[1])
        simulated = self.simulate(plan, small, config, F16)
        self.assertEqual(simulated["step_seconds"], plan["predicted"]["step_seconds"])
        for alone in ("8", "16"):  # the fast node alone; stages by FLOP/s, cut evenly
            by_hand = {"kerf": 1, "mesh": {"stage": 4 if alone == "16" else 1, "data": 4 if alone == "16" else 8}, "global_batch": 512, "microbatch": 1}
            self.assertLessEqual(plan["predicted"]["step_seconds"], self.simulate(by_hand, small, config, F16)["step_seconds"])
        fewer = self.plan("--pareto", config=config, cluster=small, job=F16, batch=512)
        self.assertEqual(fewer[0]["ranks"], 16)
        self.assertIn(8, [plan["ranks"] for plan in fewer])
        saved = self.write("saved.json", plan)
        for question in ("between.bandwidth*2", "device.memory*2"):
            better = json.loads(self.succeed("explain", saved, "--what-if", question, "--json").stdout)
            self.assertIn(question, json.dumps(better))
        self.assertIn("between.bandwidth", self.succeed("explain", saved).stdout)
        done = kerf("plan", self.path("config.json"), "--cluster", small, *F16, "--global-batch", 512, "--memory", 1_000_000)
        self.assertEqual(done.returncode, 2, done.stderr)
        self.assertRegex(done.stderr, r"smallest found needs \d+ bytes")

    def test_refusals(self):
        config = self.write("config.json", GPT)
        self.refuse(1, ["--global-batch"], "plan", config, "--cluster", CLUSTER, "--ranks", 8)
        pins = self.write("pins.json", {"kerf": 1, "mesh": {"data": 5}})
        self.refuse(1, ["32", "data"], "plan", config, "--cluster", CLUSTER, "--ranks", 8, "--global-batch", 32, "--constraints", pins)
        pins = self.write("pins.json", {"kerf": 1, "optimizer_sharding_ranks": 3, "optimizer_sharding": 1})
        self.refuse(2, ["these pins conflict", "optimizer_sharding_ranks = 3"], "plan", config, "--cluster", CLUSTER, "--ranks", 8, "--global-batch", 32, "--constraints",
                    pins)
        pins = self.write("pins.json", {"kerf": 1, "mesh": {"other": 2}})
        self.refuse(1, ["mesh.other", "2"], "plan", config, "--cluster", CLUSTER, "--ranks", 8, "--global-batch", 32, "--constraints", pins)
        with open(MIXED) as file:
            mixed = json.load(file)
        mixed["groups"] = mixed["groups"][:1] * 5
        self.refuse(1, ["5 groups", "at most 4"], "plan", config, "--cluster", self.write("five.json", mixed), "--global-batch", 32)

    def test_an_export_when_asked(self):
        done = self.succeed("plan", file_of("mlp"), "--cluster", CLUSTER, "--ranks", 2, "--search", "whole", "--json")
        self.assertGreater(json.loads(done.stdout)["predicted"]["step_seconds"], 0)


if __name__ == "__main__":
    main()
