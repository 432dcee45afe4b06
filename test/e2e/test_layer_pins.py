# SPDX-License-Identifier: Apache-2.0
"""A pin of `ops` that names one layer decides for that layer alone: by the key that plans print, with the layer's number, or by the name of the
exported node; in placements, in whole plans, in a plan that is read back, and in models that are described by a configuration. Losses stay
those of one rank.

`test_layer_pins.py [--all]`: without --all only GPT-2 and one configuration.
"""
import json
import os
import sys
import unittest

from support import CLUSTERS, ROOT, KerfTest, file_of, golden_of, losses_of, main

ALL = "--all" in sys.argv and bool(sys.argv.remove("--all") or True)
MODELS = ("gpt2", "llama") if ALL else ("gpt2",)
SAME = 1e-9  # relative, f64
OPS = {"gpt2": ("transformer.h.{}.mlp.c_fc/dot_general", "transformer.h.{}.mlp.c_fc/node_addmm_{}", (2, 6)),
       "llama": ("model.layers.{}.mlp.up_proj/dot_general", None, None)}


class LayerPins(KerfTest):
    def job(self, model, *more):
        golden = golden_of(model)
        return [file_of(model), "--dtype", "f64", *more], ["--data", file_of(model, "batches.npz"), "--steps", 3, "--lr", golden["optimizers"]["sgd"]["lr"]]

    def plan(self, model, ops, ranks, **more):
        constraints = {"kerf": 1, "mesh": {"data": 1, "model": ranks}, "ops": ops, **more}
        return self.write("constraints.json", constraints)

    def decided(self, plan, pattern):
        """layer, or "*" -> the strategy of its op."""
        with open(plan) as file:
            ops = json.load(file)["ops"]
        begin, end = pattern.split("{}")
        return {key[len(begin):-len(end)]: entry["strategy"] for key, entry in ops.items() if key.startswith(begin) and key.endswith(end)}

    def test_placements(self):
        for model in MODELS:
            key, node, numbers = OPS[model]
            model_args, data = self.job(model)
            self.succeed("train", *model_args, *data, "--ranks", 1, "--log", self.path("one"))
            expected = losses_of(self.path("one"))
            for layer, pattern in [(0, key.format(0)), (1, key.format(1))] + ([(1, node.format(1, numbers[1]))] if node else []):
                self.plan(model, {pattern: {"strategy": {"k": ["model"]}}, key.format("*"): {"strategy": {"n": ["model"]}}}, 2)
                self.succeed("plan", *model_args, "--ranks", 2, "--all-ranks", "--search", "placement", "--constraints", self.path("constraints.json"),
                             "-o", self.path("plan.json"))
                decided = self.decided(self.path("plan.json"), key)
                other = [strategy for number, strategy in decided.items() if number != str(layer)]
                self.assertEqual(decided[str(layer)], {"k": ["model"]}, (pattern, decided))
                self.assertEqual(other, [{"n": ["model"]}], (pattern, decided))
                for plan in (["--constraints", self.path("constraints.json")], ["--plan", self.path("plan.json")]):
                    self.succeed("train", *model_args, *data, "--ranks", 2, "--all-ranks", *plan, "--log", self.path("log"))
                    self.close(losses_of(self.path("log")), expected, SAME, f"{model}, {pattern}, {plan[0]}")

    def test_whole_plans(self):
        for model in MODELS:
            key, _, _ = OPS[model]
            model_args, data = self.job(model)
            self.succeed("train", *model_args, *data, "--ranks", 1, "--log", self.path("one"))
            expected = losses_of(self.path("one"))
            plan = {"kerf": 1, "mesh": {"stage": 2, "model": 2}, "microbatch": 1, "recompute": "none",
                    "ops": {key.format(1): {"strategy": {}, "recompute": True}}}
            self.write("whole.json", plan)
            self.succeed("train", *model_args, *data, "--plan", self.path("whole.json"), "--log", self.path("log"))
            self.close(losses_of(self.path("log")), expected, SAME, f"{model}, whole")
            # The pin decides for the stage of layer 1 alone.
            self.write("free.json", {**plan, "ops": {}})
            free, pinned = (json.loads(self.succeed("simulate", *model_args, "--plan", self.path(name), "--json").stdout)["peak_bytes"]
                            for name in ("free.json", "whole.json"))
            self.assertEqual(pinned[0], free[0])
            self.assertNotEqual(pinned[1], free[1])
            self.succeed("plan", *model_args, "--ranks", 4, "--all-ranks", "--search", "whole", "--constraints", self.path("whole.json"),
                         "-o", self.path("found.json"))
            with open(self.path("found.json")) as file:
                self.assertEqual(json.load(file)["ops"], plan["ops"])
            self.succeed("train", *model_args, *data, "--plan", self.path("found.json"), "--log", self.path("log"))
            self.close(losses_of(self.path("log")), expected, SAME, f"{model}, found")

    def test_configurations(self):
        """32 layers are one function with a call that stands for all: a pin of the last one splits it, one of all layers does not."""
        config = os.path.join(ROOT, "examples", "llama-2-7b", "config.json")
        job = [config, "--cluster", os.path.join(CLUSTERS, "dgx-a100.json"), "--ranks", 8, "--global-batch", 8, "--sequence", 512, "--dtype", "bf16"]
        seconds = {}
        for layer in ("none", "*", "31"):
            ops = {} if layer == "none" else {f"model.layers.{layer}.mlp.up_proj/dot_general": {"strategy": {}}}
            self.write("plan.json", {"kerf": 1, "mesh": {"data": 1, "model": 8}, "microbatch": 8, "ops": ops})
            done = self.succeed("simulate", *job, "--plan", self.path("plan.json"), "--json")
            seconds[layer] = json.loads(done.stdout)["step_seconds"]
        # A product that is not cut takes eight times as long. One layer's costs about a part in 32 of what all layers' cost.
        self.assertGreater(seconds["*"], seconds["none"])
        self.assertAlmostEqual((seconds["31"] - seconds["none"]) / (seconds["*"] - seconds["none"]), 1 / 32, delta=0.5 / 32)
        self.succeed("verify", "--plan", self.path("plan.json"), config)

    def test_what_names_no_layer_is_refused(self):
        model_args, _ = self.job("gpt2")
        self.plan("gpt2", {"transformer.h.7.mlp.c_fc/dot_general": {"strategy": {"n": ["model"]}}}, 2)
        self.refuse(1, ["transformer.h.7.mlp.c_fc/dot_general", "matches no op"], "plan", *model_args, "--ranks", 2, "--constraints",
                    self.path("constraints.json"))


if __name__ == "__main__":
    main()
