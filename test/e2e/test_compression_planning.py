#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Plans choose codecs for gradients by the network, within the limits of the user, and predictions know what compression costs."""
import json
import os
import unittest

from support import CLUSTERS, SHARED, KerfTest, file_of, main

SIZES = ["--dtype", "bf16", "--optimizer", "adamw", "--global-batch", 16, "--sequence", 512]
LAYERS = 6


class CompressionPlanning(KerfTest):
    def setUp(self):
        super().setUp()
        self.model = self.write("config.json", {
            "architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 1024, "intermediate_size": 2816, "num_hidden_layers": LAYERS,
            "num_attention_heads": 16, "num_key_value_heads": 16, "vocab_size": 16000, "max_position_embeddings": 1024, "rms_norm_eps": 1e-6,
            "rope_theta": 10000.0, "tie_word_embeddings": False, "hidden_act": "silu"})

    def cluster(self, gigabits, nodes=4, per_node=2, **device):
        bandwidth = gigabits * 1e9 / 8
        return self.write(f"cluster-{gigabits}.json", {
            "name": "made up", "device": {"kind": "cuda", "name": "A100-PCIE-40GB", "memory_bytes": 42949672960, "peak_flops": {"f32": 19.5e12, "bf16": 312e12},
                                          "memory_bandwidth": 1555e9, **device},
            "levels": [{"name": "pcie", "size": per_node, "bandwidth": 25e9, "latency": 5e-6},
                       {"name": "ethernet", "size": nodes, "bandwidth": bandwidth, "latency": 3e-5, "node_bandwidth": bandwidth}]})

    def simulate(self, cluster, *args, plan=None):
        """Returns the prediction, and the plan with its gaps filled."""
        given = ["--plan", plan] if plan else []
        text = self.succeed("simulate", self.model, "--cluster", cluster, *SIZES, *given, *args, "-o", self.path("out.json"), "--json").stdout
        return json.loads(text), json.loads(self.read("out.json"))

    def test_slow_networks_are_compressed_and_fast_ones_are_not(self):
        before = 0
        for gigabits in (800, 100, 10, 1, 0.1):
            cluster = self.cluster(gigabits)
            plain, none = self.simulate(cluster)
            coded, plan = self.simulate(cluster, "--compress", "plan")
            self.assertNotIn("compression", none)
            self.assertLessEqual(coded["step_seconds"], plain["step_seconds"])
            share = len(plan.get("compression", {}))
            self.assertGreaterEqual(share, before, f"at {gigabits} Gbit/s")
            before = share
        self.assertGreater(before, 0)
        self.assertLess(3 * coded["step_seconds"], plain["step_seconds"])
        # Between nodes the messages are coded, inside they are not; vectors and the table of embeddings are left alone.
        self.assertTrue(all(entry["hierarchy"] for entry in plan["compression"].values()), plan["compression"])
        self.assertTrue(all("norm" not in pattern and "embed" not in pattern for pattern in plan["compression"]), plan["compression"])

    def test_small_matrices_are_chosen_and_biases_are_not(self):
        # The GPT-2 of the examples has matrices of 48 KiB, and a bias that passes split into queries, keys and values of several heads.
        cluster = self.write("slow.json", {"name": "made up", "device": {"kind": "cpu", "name": "core", "memory_bytes": 1 << 33, "peak_flops": {"f32": 5e10},
                                           "memory_bandwidth": 1e10}, "levels": [{"name": "link", "size": 4, "bandwidth": 1.2e7, "latency": 1e-4}]})
        pins = self.write("pins.json", {"kerf": 1, "mesh": {"data": 4, "model": 1}, "optimizer_sharding": 0, "recompute": "none"})
        self.succeed("plan", file_of("gpt2"), "--cluster", cluster, "--all-ranks", "--search", "whole", "--constraints", pins,
                     "--optimizer", "sgd", "--compress", "plan", "-o", self.path("plan.json"))
        patterns = json.loads(self.read("plan.json"))["compression"]
        self.assertIn("transformer.h.*.attn.c_attn.weight", patterns)
        self.assertFalse([pattern for pattern in patterns if "bias" in pattern or "ln_" in pattern or "wte" in pattern], patterns)

    def test_nothing_is_compressed_over_nvlink(self):
        for cluster in ("dgx-a100.json", "dgx-h100.json"):
            _, plan = self.simulate(os.path.join(CLUSTERS, cluster), "--ranks", 8, "--compress", "plan")
            self.assertNotIn("compression", plan)

    def test_a_saved_plan_predicts_the_same(self):
        cluster = self.cluster(1)
        coded, plan = self.simulate(cluster, "--compress", "plan")
        saved = self.write("saved.json", plan)
        again, _ = self.simulate(cluster, plan=saved)
        self.assertAlmostEqual(again["step_seconds"], coded["step_seconds"], delta=1e-9 * coded["step_seconds"])
        plain, _ = self.simulate(cluster)
        self.assertLess(again["step_seconds"], plain["step_seconds"])

    def test_limits_are_kept(self):
        cluster = self.cluster(0.1)
        _, plan = self.simulate(cluster, "--compress", "plan", "--compress-ratio", 4, "--compress-first-step", 100)
        self.assertTrue(plan["compression"])
        for entry in plan["compression"].values():
            self.assertIn(entry["codec"], ("int8", "natural", "qsgd", "bf16", "fp16"))
            self.assertEqual(entry["first_step"], 100)
        _, plan = self.simulate(cluster, "--compress", "plan", "--compress-codecs", "bf16", "--compress-codecs", "powersgd")
        self.assertTrue({entry["codec"] for entry in plan["compression"].values()} <= {"bf16", "powersgd"})
        self.assertTrue(any(entry["error_feedback"] for entry in plan["compression"].values()))
        for args, word in ((["--compress", "int9"], "int9"), (["--compress", "plan", "--for", "megatron"], "--for"), (["--compress-ratio", 4], "--compress-ratio")):
            self.refuse(1, [word], "simulate", self.model, "--cluster", cluster, *SIZES, *args)

    def test_pins_stay_and_the_rest_is_planned(self):
        cluster = self.cluster(1)
        pins = self.write("pins.json", {"kerf": 1, "compression": {"model.layers.*.mlp.down_proj.weight": {"codec": "bf16"}, "lm_head.weight": {"codec": "none"}}})
        _, plan = self.simulate(cluster, "--compress", "plan", plan=pins)
        self.assertEqual(list(plan["compression"])[:2], ["model.layers.*.mlp.down_proj.weight", "lm_head.weight"])
        self.assertEqual(plan["compression"]["lm_head.weight"]["codec"], "none")
        self.assertEqual(plan["compression"]["model.layers.*.mlp.down_proj.weight"]["codec"], "bf16")
        self.assertGreaterEqual(len(plan["compression"]), 8)
        wrong = self.write("wrong.json", {"kerf": 1, "compression": {"no.such.parameter": {"codec": "bf16"}}})
        self.refuse(1, ["no.such.parameter", "matches no parameter"], "simulate", self.model, "--cluster", cluster, *SIZES, "--plan", wrong)
        wrong = self.write("wrong.json", {"kerf": 1, "compression": {"model.norm.weight": {"codec": "powersgd"}}})
        self.refuse(1, ["model.norm.weight", "matrix"], "simulate", self.model, "--cluster", cluster, *SIZES, "--plan", wrong)

    def test_explain_says_why(self):
        """The gradient that is ready last decides; explain gives its costs, the reason and the bandwidth that would change it."""
        cluster = self.cluster(10)
        pinned = self.write("data.json", {"kerf": 1, "mesh": {"data": 8}})
        self.succeed("plan", self.model, "--cluster", cluster, *SIZES, "--all-ranks", "--budget", 0.2, "--constraints", pinned, "--compress", "plan", "-o", self.path("plan.json"))
        all = json.loads(self.succeed("explain", self.path("plan.json"), "--json").stdout)["compression"]
        self.assertLess(all["seconds"], all["plain_seconds"])
        self.assertLessEqual(all["lower_bound_seconds"], all["seconds"])
        reasons = {entry["name"]: entry["reason"] for entry in all["gradients"]}
        self.assertIn("left out", reasons["model.embed_tokens.weight"])
        self.assertIn("saves time", reasons.values())
        for entry in all["gradients"]:
            if entry["reason"] == "saves time":
                self.assertGreater(entry["saved_seconds"], 0)
                self.assertLess(entry["wire_seconds"], entry["plain_wire_seconds"])
                self.assertGreaterEqual(entry["compressed_up_to"], 1)

    def test_error_feedback_counts_as_memory(self):
        cluster = self.cluster(1)
        plain, _ = self.simulate(cluster)
        coded, _ = self.simulate(cluster, "--compress", "onebit")
        matrices = LAYERS * (4 * 1024 * 1024 + 3 * 1024 * 2816) + 16000 * 1024
        states = lambda result: result["memory"][0]["states"]
        more = states(coded) - states(plain)
        self.assertGreaterEqual(more, 4 * matrices)
        self.assertLessEqual(more, 4 * matrices * (1 + 1 / 8) + 1)

    def test_measured_codecs_decide(self):
        """On a device that encodes very slowly, nothing is compressed that was compressed before."""
        slow = {"encode_bytes_per_second": 1e6, "decode_bytes_per_second": 1e6}
        names = ["bf16", "fp16", "int8", "int4", "natural", "qsgd"]
        _, plan = self.simulate(self.cluster(1, codecs={name: slow for name in names}), "--compress", "plan")
        self.assertNotIn("compression", plan)

    def test_mesh_and_compression_are_planned_together(self):
        """Compression makes data parallelism over the slow network faster than the GPipe pipeline that wins without it."""
        cluster = self.cluster(3)
        pins = self.write("pins.json", {"kerf": 1, "schedule": {"name": "gpipe"}})
        sizes = [1024 if size == 16 else size for size in SIZES]
        seconds, meshes = {}, {}
        for compress in ("none", "plan"):
            self.succeed("plan", self.model, "--cluster", cluster, *sizes, "--all-ranks", "--constraints", pins, "--compress", compress,
                         "-o", self.path(f"{compress}.json"))
            plan = json.loads(self.read(f"{compress}.json"))
            seconds[compress], meshes[compress] = plan["predicted"]["step_seconds"], plan["mesh"]
            self.assertEqual(plan["job"]["options"]["compress"], compress)
        self.assertIn("compression", plan)
        self.assertLess(seconds["plan"], 0.95 * seconds["none"])
        self.assertNotEqual(meshes["plan"], meshes["none"])
        again = json.loads(self.succeed("simulate", "--plan", self.path("plan.json"), "--json").stdout)
        self.assertAlmostEqual(again["step_seconds"], seconds["plan"], delta=1e-6 * seconds["plan"])

    def test_cpu_plans_know_compression(self):
        """The prediction of a CPU plan is that of its program, less what compression saves in the simulator."""
        cluster = self.write("cpu.json", {
            "name": "four boxes", "device": {"kind": "cpu", "name": "core", "memory_bytes": 8589934592, "peak_flops": {"f32": 240e9}, "memory_bandwidth": 12e9},
            "levels": [{"name": "ethernet", "size": 4, "bandwidth": 12.5e6, "latency": 1e-4}]})
        plan = self.write("plan.json", {"kerf": 1, "mesh": {"data": 4}})
        results = [json.loads(self.succeed("simulate", file_of("gpt2"), "--cluster", cluster, "--plan", plan, "--optimizer", "adamw", *args, "--json").stdout)
                   for args in ([], ["--compress", "plan"])]
        self.assertLess(results[1]["step_seconds"], results[0]["step_seconds"])


if __name__ == "__main__":
    main()
