#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""kerf verify: plans for many devices are run small against one rank, and their programs checked at full size."""
import json
import os
import subprocess
import unittest

from support import CLUSTERS, KERF, KerfTest, file_of, main

GPT = {"model_type": "gpt2", "n_layer": 24, "n_head": 16, "n_embd": 1024, "n_positions": 1024, "vocab_size": 50304}
LLAMA = {"model_type": "llama", "hidden_size": 2048, "intermediate_size": 5632, "num_attention_heads": 32, "num_key_value_heads": 4,
         "num_hidden_layers": 22, "vocab_size": 32000, "max_position_embeddings": 2048, "hidden_act": "silu", "rms_norm_eps": 1e-5,
         "tie_word_embeddings": False}
MIXTRAL = dict(LLAMA, model_type="mixtral", num_local_experts=8, num_experts_per_tok=2, output_router_logits=False)


class Verify(KerfTest):
    def verify(self, model, plan, *more):
        batch = plan["microbatch"] * plan["mesh"]["data"] * plan["mesh"].get("expert", 1) * 16
        done = self.succeed("verify", self.write("config.json", model), "--plan", self.write("plan.json", {"kerf": 1, **plan}), "--global-batch", batch,
                            "--sequence", 128, "--optimizer", "adamw", "--json", *more)
        result = json.loads(done.stdout)
        self.assertIsNone(result["difference"])
        self.assertEqual(len(result["losses"]), len(result["losses_of_one_rank"]))
        self.assertNotEqual(result["losses"][0], result["losses"][-1])
        return result

    def test_plans_of_many_devices(self):
        plan = {"mesh": {"stage": 6, "data": 4, "model": 8}, "microbatch": 1, "sequence_parallel": True, "optimizer_sharding": 1,
                "recompute": ["full", "selective", "none", "none", "none", "full"], "schedule": {"name": "interleaved", "chunks": 2}}
        result = self.verify(GPT, plan)
        self.assertEqual(result["full"]["ranks"], 192)
        self.assertEqual(len(result["full"]["stage_bytes"]), 6)
        self.assertEqual(result["mesh"], {"context": 1, "data": 2, "expert": 1, "model": 2, "stage": 3})
        self.assertIn("layers 24 -> 7", result["shrunk"])
        # More ranks of "model" than heads of keys and values: small, they still share one.
        result = self.verify(LLAMA, {"mesh": {"stage": 2, "data": 8, "model": 8, "context": 2}, "microbatch": 2, "optimizer_sharding": 3,
                                     "schedule": {"name": "zero-bubble", "variant": "2p"}})
        self.assertIn("key/value heads 4 -> 1", result["shrunk"])
        # Ranks with different numbers of heads: small, they still have them.
        result = self.verify(dict(GPT, n_head=12, n_embd=768), {"mesh": {"data": 2, "model": 8}, "microbatch": 1, "sequence_parallel": True})
        self.assertIn("heads 12 -> 3", result["shrunk"])
        # States are still cut over a part of "data", and copied over the rest.
        result = self.verify(GPT, {"mesh": {"data": 16, "model": 4}, "microbatch": 1, "optimizer_sharding": 3, "optimizer_sharding_ranks": 8})
        self.assertEqual(result["mesh"], {"context": 1, "data": 4, "expert": 1, "model": 2, "stage": 1})
        self.assertIn("optimizer_sharding_ranks 8 -> 2", result["shrunk"])
        result = self.verify(MIXTRAL, {"mesh": {"stage": 2, "data": 2, "expert": 8}, "microbatch": 1, "optimizer_sharding": 2})
        self.assertEqual(result["mesh"]["expert"], 2)

    def test_an_export_keeps_its_sizes(self):
        for stages in ([{"layers": [0, 0]}, {"layers": [1, 1]}], [{"until": "transformer.h.0.attn*"}, {}]):
            plan = self.write("plan.json", {"kerf": 1, "mesh": {"stage": 2, "data": 2, "model": 2}, "microbatch": 1, "stages": stages})
            self.assertIn("equal those of one rank", self.succeed("verify", file_of("gpt2"), "--plan", plan).stdout)

    def test_cuts_in_layers(self):
        cuts = ["transformer.h.5.attn*", "transformer.h.11.mlp.c_fc*", "transformer.h.17.ln_2*"]
        result = self.verify(GPT, {"mesh": {"stage": 4, "data": 2, "model": 2}, "microbatch": 1, "recompute": "full", "optimizer_sharding": 2,
                                   "stages": [{"until": cut} for cut in cuts] + [{}], "ops": {"*/attention*": {"recompute": False}}})
        self.assertEqual(len(result["full"]["stage_bytes"]), 4)
        self.assertEqual(result["mesh"]["stage"], 3)
        for note in ("layers 24 -> 4", "until transformer.h.5.attn* -> transformer.h.0.attn*", "until transformer.h.17.ln_2* -> transformer.h.1.ln_2*"):
            self.assertIn(note, result["shrunk"])

    def test_meshes_of_stages(self):
        """Two meshes stay two; the stage in the middle has the one that differs."""
        parts = [{"layers": [4 * i, 4 * i + 3]} for i in range(6)]
        parts[4]["mesh"] = {"data": 8, "model": 4}
        result = self.verify(GPT, {"mesh": {"stage": 6, "data": 2, "model": 16}, "microbatch": 8, "stages": parts, "optimizer_sharding": 1,
                                   "optimizer_sharding_ranks": 2})
        self.assertEqual(result["full"]["ranks"], 192)
        self.assertEqual(result["mesh"], {"context": 1, "data": 2, "expert": 1, "model": 4, "stage": 3})
        self.assertIn("stage 1 has data 4, context 1, expert 1, model 2", result["shrunk"])

    def test_memory_of_the_full_size(self):
        plan = self.write("plan.json", {"kerf": 1, "mesh": {"stage": 1, "data": 8, "model": 1}, "recompute": "full"})
        self.refuse(2, ["stage 0 needs", "the device has"], "verify", self.write("config.json", dict(GPT, n_embd=8192, n_layer=96)), "--plan", plan,
                    "--cluster", f"{CLUSTERS}/dgx-a100.json", "--global-batch", 8, "--sequence", 128)

    def test_memory_of_accelerators(self):
        """The program's memory is what verify compares with the devices', also where the cluster comes with the plan. It is close to what
        simulate predicts."""
        config = self.write("config.json", LLAMA)
        job = ["--cluster", f"{CLUSTERS}/dgx-a100.json", "--global-batch", 16, "--sequence", 2048, "--dtype", "bf16", "--optimizer", "adamw"]
        plan = {"kerf": 1, "mesh": {"stage": 2, "data": 2, "model": 2}, "microbatch": 1, "recompute": "full"}
        simulated = json.loads(self.succeed("simulate", config, "--plan", self.write("plan.json", plan), *job, "--json").stdout)
        full = json.loads(self.succeed("verify", config, "--plan", self.path("plan.json"), *job, "--json").stdout)["full"]
        for needed, predicted in zip(full["stage_bytes"], simulated["memory"], strict=True):
            self.assertLess(abs(needed / predicted["device_bytes"] - 1), 0.2)
        self.assertEqual(full["limit_bytes"], int((80 << 30) * 0.95))  # --margin, 5 % of an accelerator's
        # Seven billion parameters with the states of AdamW on one device.
        config = self.write("config.json", dict(LLAMA, hidden_size=4096, intermediate_size=11008, num_hidden_layers=32))
        job[3] = 2
        plan = self.write("plan.json", {"kerf": 1, "mesh": {"data": 1}, "microbatch": 1, "recompute": "full"})
        self.refuse(2, ["stage 0 needs", "GiB", "the device has 76.00 GiB", "sharding"], "verify", config, "--plan", plan, *job)

    def test_memory_of_recomputation_in_split_backward_passes(self):
        """What the input gradient computes again stays until the weight gradient, as the prediction says."""
        gpt = dict(GPT, n_layer=8, n_embd=512, n_head=8, vocab_size=8192)
        for schedule in ({"name": "1f1b"}, {"name": "zero-bubble", "variant": "h1"}):
            for mode in ("none", "pointwise", "except-attention", "full"):
                with self.subTest(schedule=schedule["name"], mode=mode):
                    job = [self.write("config.json", gpt), "--plan", self.write("plan.json", {"kerf": 1, "mesh": {"stage": 4}, "microbatch": 1,
                                                                                              "schedule": schedule, "recompute": mode}),
                           "--global-batch", 16, "--sequence", 512, "--json"]
                    compiled = json.loads(self.succeed("verify", *job).stdout)["full"]["stage_bytes"]
                    simulated = json.loads(self.succeed("simulate", *job, "--cluster", os.path.join(CLUSTERS, "dgx-a100.json"), "--ranks", 4).stdout)
                    for needed, stage in zip(compiled, simulated["memory"], strict=True):
                        predicted = sum(stage[part] for part in ("weights", "gradients", "states", "activations", "workspace"))
                        self.assertTrue(0.96 < predicted / needed < 1.25, (predicted, needed))

    def test_memory_of_collectives_beside_products(self):
        """Collectives that start earlier keep no more in memory: the gather of the logits does not start before the loss needs it."""
        for config in (GPT, LLAMA):
            for sequence_parallel in (False, True):
                needed = {}
                for words in (["gradients", "parameters", "stage"], ["gradients", "parameters", "tensor", "stage"]):
                    plan = {"kerf": 1, "mesh": {"data": 1, "model": 2}, "microbatch": 2, "sequence_parallel": sequence_parallel, "overlap": words}
                    needed["tensor" in words] = self.verify(config, plan)["full"]["stage_bytes"][0]
                self.assertLessEqual(needed[True], needed[False] * 1.001)

    def test_no_temporary_folder(self):
        for folder in ("/nonexistent", "/proc"):
            environment = dict(os.environ, TMPDIR=folder)
            plan = self.write("plan.json", {"kerf": 1, "mesh": {"data": 2, "model": 2}, "microbatch": 1})
            for model, sizes in ((self.write("config.json", GPT), ["--global-batch", "4", "--sequence", "16"]), (file_of("gpt2"), [])):
                done = subprocess.run([KERF, "verify", model, "--plan", plan, *sizes], env=environment, capture_output=True, text=True)
                self.assertEqual(done.returncode, 0, done.stderr)
                self.assertIn("equal those of one rank", done.stdout)

    def test_few_positions(self):
        """The small model has as many as the small sequence."""
        config, plan = self.write("config.json", dict(GPT, n_positions=8)), self.write("plan.json", {"kerf": 1, "mesh": {"data": 2}, "microbatch": 1})
        done = self.succeed("verify", config, "--plan", plan, "--global-batch", 4, "--sequence", 8)
        self.assertIn("  positions 8 -> 16\n", done.stdout)

    def test_bad_input(self):
        config, plan = self.write("config.json", GPT), self.write("plan.json", {"kerf": 1, "mesh": {"stage": 30, "data": 1}})
        self.refuse(1, ["24 layers", "30 stages"], "verify", config, "--plan", plan, "--global-batch", 30)
        self.refuse(1, ["none.json"], "verify", config, "--plan", self.path("none.json"))
        self.refuse(1, ["schedule"], "verify", config, "--plan", self.write("plan.json", {"kerf": 1, "schedule": {"name": "sometimes"}}))


if __name__ == "__main__":
    main()
