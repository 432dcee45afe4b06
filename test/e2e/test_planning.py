#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Plans answer to the cluster: its network, its memory, the number of its ranks; large models plan and compile without their weights."""
import json
import os
import unittest

from support import CLUSTERS, SHARED, KerfTest, file_of, main

A100 = os.path.join(CLUSTERS, "dgx-a100.json")


class Planning(KerfTest):
    def plan(self, model, *args):
        self.succeed("plan", model, "--search", "placement", *args, "-o", self.path("plan.json"), "--report", self.path("report.json"))
        plan = json.loads(self.read("plan.json"))
        return plan, json.loads(self.read("report.json"))

    def cluster(self, bandwidth, latency, flops=1e13):
        return self.write("cluster.json", {
            "name": "made up", "device": {"kind": "cuda", "name": "A100", "memory_bytes": 16e9, "peak_flops": {"f32": flops, "f64": flops},
                                          "memory_bandwidth": 1e12},
            "levels": [{"name": "link", "size": 4, "bandwidth": bandwidth, "latency": latency}]})

    def collective_bytes(self, report):
        return sum(c["calls"] * c["bytes"] for c in report["collectives"])

    def test_slow_network_is_used_less(self):
        """A network without cost is worth every cut; one that costs more than all of the work is worth none."""
        model = file_of("gpt2")
        _, fast = self.plan(model, "--cluster", self.cluster(1e15, 1e-12, flops=1e9))
        _, slow = self.plan(model, "--cluster", self.cluster(1e5, 0.1, flops=1e14))
        self.assertLess(self.collective_bytes(slow), self.collective_bytes(fast))
        self.assertGreater(slow["step_seconds"], fast["step_seconds"] if slow["collectives"] else 0)

    def test_memory_forces_tensor_parallelism(self):
        """Copies of all parameters on every rank do not fit: some have to be cut."""
        model = file_of("gpt2")
        data_only = ["--constraints", self.write("data.json", {"kerf": 1, "mesh": {"data": 4, "model": 1}})]
        _, whole = self.plan(model, "--ranks", 4, "--optimizer", "adamw", *data_only)
        limit = whole["memory_bytes"]["total"] * 65 // 100
        self.refuse(2, ["--memory"], "plan", model, "--search", "placement", "--ranks", 4, "--all-ranks", "--optimizer", "adamw", "--memory", limit, *data_only)
        plan, report = self.plan(model, "--ranks", 4, "--all-ranks", "--optimizer", "adamw", "--memory", limit)
        self.assertLessEqual(report["memory_bytes"]["total"], limit)
        self.assertGreater(plan["mesh"].get("model", 1), 1)

    def test_pins_are_respected(self):
        """The first product of every layer cut by its columns; the search finds the rest."""
        pin = {"kerf": 1, "mesh": {"data": 2, "model": 2}, "ops": {"transformer.h.*.mlp.c_fc/dot_general": {"strategy": {"m0": ["data"], "n": ["model"]}}}}
        _, report = self.plan(file_of("gpt2"), "--ranks", 4, "--constraints", self.write("pins.json", pin))
        found = [op for op in report["strategies"] if op["op"] == "transformer.h.*.mlp.c_fc/dot_general"]
        self.assertEqual(len(found), 1)
        self.assertIn("model", found[0]["strategy"])

    def test_any_number_of_ranks(self):
        for ranks in (3, 5, 6, 7):
            plan, _ = self.plan(file_of("mlp"), "--ranks", ranks, "--all-ranks")
            sizes = 1
            for size in plan["mesh"].values():
                sizes *= size
            self.assertEqual(sizes, ranks)

    def test_explain(self):
        self.plan(file_of("gpt2"), "--ranks", 4, "--all-ranks", "--constraints", self.write("mesh.json", {"kerf": 1, "mesh": {"data": 2, "model": 2}}))
        os.rename(self.path("plan.json"), self.path("four.json"))
        self.plan(file_of("gpt2"), "--ranks", 2, "--all-ranks")
        self.assertIn("step", self.succeed("explain", self.path("four.json")).stdout)
        text = self.succeed("explain", self.path("four.json"), "--op", "c_attn").stdout
        self.assertIn("c_attn", text)
        self.assertRegex(text, r"any other strategy makes a step slower by \d")  # what choosing otherwise would cost at least
        predicted = json.loads(self.read("four.json"))["report"]
        dearer = [op for op in predicted["strategies"] if op["other_seconds"] > 0]
        self.assertGreater(len(dearer), len(predicted["strategies"]) // 4)
        self.assertTrue(all(op["other"] != op["strategy"] for op in dearer))
        self.assertIn("step", self.succeed("explain", self.path("four.json"), self.path("plan.json")).stdout)
        self.refuse(1, ["nothing"], "explain", self.path("four.json"), "--op", "nothing")


class LargeModels(KerfTest):
    """Structure-only exports, planned for 8 ranks of an A100 machine."""

    def check(self, name):
        model = os.path.join(SHARED, "models", name, "model.onnx")
        if not os.path.exists(model):
            self.skipTest(f"{model} is not there")
        self.succeed("plan", model, "--cluster", A100, "--ranks", 8, "--optimizer", "adamw", "-o", self.path("plan.json"))
        self.succeed("compile", model, "--cluster", A100, "--ranks", 8, "--optimizer", "adamw", "--plan", self.path("plan.json"),
                     "-o", self.path("package"))
        size = os.path.getsize(os.path.join(self.path("package"), "program.json"))
        self.assertLess(size, 4 << 20)  # repeated layers are calls, ranks share one program
        ir = self.succeed("import", model).stdout
        self.assertLess(len(ir), 4 << 20)  # weights and their sizes stay outside

    def test_gpt2_124m(self):
        self.check("gpt2-124m")

    def test_gpt2_xl(self):
        self.check("gpt2-xl")

    def test_llama_7b(self):
        self.check("llama-7b")


if __name__ == "__main__":
    main()
