#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""kerf verify shrinks a model of every family at its published size, under plans of every kind: experts and their groups, shared
key/value heads, latents, windows, rotations, encoder and decoder. With --all every family under every plan; by default one plan each."""
import glob
import json
import os
import sys
import unittest

from support import ROOT, KerfTest, main

EVERYTHING = "--all" in sys.argv
if EVERYTHING:
    sys.argv.remove("--all")

YARN = {"rope_type": "yarn", "factor": 40, "beta_fast": 32, "beta_slow": 1, "mscale": 1.0, "mscale_all_dim": 1.0,
        "original_max_position_embeddings": 4096}
# What a published model has other than the defaults of its class. Layers are fewer: every other size is the published one.
PUBLISHED = {
    "gpt2": {"n_layer": 6},
    "llama-3.1-8b": {"model_type": "llama", "num_hidden_layers": 6, "num_key_value_heads": 8, "intermediate_size": 14336, "vocab_size": 128256,
                     "max_position_embeddings": 131072, "tie_word_embeddings": False,
                     "rope_parameters": {"rope_type": "llama3", "rope_theta": 500000, "factor": 8, "low_freq_factor": 1, "high_freq_factor": 4,
                                         "original_max_position_embeddings": 8192}},
    "mistral-7b-window": {"model_type": "mistral", "num_hidden_layers": 6, "sliding_window": 48},
    "qwen2": {"num_hidden_layers": 6, "num_attention_heads": 28, "num_key_value_heads": 4, "hidden_size": 3584},
    "qwen3": {"num_hidden_layers": 6, "num_key_value_heads": 8},
    "gpt_neox": {"num_hidden_layers": 6},
    "opt": {"num_hidden_layers": 6},
    "opt-post-norm": {"model_type": "opt", "num_hidden_layers": 6, "do_layer_norm_before": False},
    "bert": {"num_hidden_layers": 6},
    "falcon": {"num_hidden_layers": 6, "num_attention_heads": 64, "hidden_size": 4096},
    "falcon-40b": {"model_type": "falcon", "num_hidden_layers": 6, "hidden_size": 8192, "num_attention_heads": 128, "num_kv_heads": 8,
                   "new_decoder_architecture": True},
    "bloom-176b": {"model_type": "bloom", "n_layer": 6, "hidden_size": 14336, "n_head": 112},
    "gemma": {"num_hidden_layers": 6},
    "vit": {"num_hidden_layers": 6, "num_labels": 1000},
    "t5": {"num_layers": 3, "num_decoder_layers": 3},
    "mixtral": {"num_hidden_layers": 6},
    "qwen2_moe": {"num_hidden_layers": 6},
    "qwen3-30b-a3b": {"model_type": "qwen3_moe", "num_hidden_layers": 6, "head_dim": 128, "norm_topk_prob": True},
    "olmoe": {"num_hidden_layers": 6, "intermediate_size": 1024},
    "deepseek-v2": {"model_type": "deepseek_v2", "hidden_size": 5120, "intermediate_size": 12288, "moe_intermediate_size": 1536, "num_hidden_layers": 6,
                    "num_attention_heads": 128, "n_shared_experts": 2, "n_routed_experts": 160, "num_experts_per_tok": 6,
                    "num_key_value_heads": 128, "first_k_dense_replace": 1, "topk_method": "group_limited_greedy", "n_group": 8, "topk_group": 3,
                    "rope_parameters": dict(YARN, rope_theta=10000)},
    "deepseek-v3": {"model_type": "deepseek_v3", "num_hidden_layers": 6, "rope_parameters": dict(YARN, rope_theta=10000)},
}
PLANS = {
    "tensor": {"mesh": {"stage": 2, "data": 2, "model": 4}, "microbatch": 1, "sequence_parallel": True, "recompute": "selective"},
    "shared states": {"mesh": {"data": 8, "model": 2}, "microbatch": 1, "optimizer_sharding": 3, "recompute": "full"},
    "interleaved": {"mesh": {"stage": 2, "data": 2, "model": 2}, "microbatch": 1, "schedule": {"name": "interleaved", "chunks": 3}, "optimizer_sharding": 1},
    "zero bubble": {"mesh": {"stage": 3, "data": 2, "model": 2}, "microbatch": 1, "schedule": {"name": "zero-bubble", "variant": "1p"}},
    "context": {"mesh": {"data": 2, "context": 4}, "microbatch": 1, "optimizer_sharding": 2},
    "experts": {"mesh": {"stage": 2, "data": 2, "expert": 4, "model": 2}, "microbatch": 1, "optimizer_sharding": 1},
}
WITH_EXPERTS = {"mixtral", "qwen2_moe", "qwen3-30b-a3b", "olmoe", "deepseek-v2", "deepseek-v3"}
# Refused, with its reason.
REFUSED = {("vit", "context"): "197 positions are not divisible"}


class Families(KerfTest):
    def verify(self, config, plan, expect_refusal=None, sequence=64, samples=6):
        groups = plan["mesh"]["data"] * plan["mesh"].get("expert", 1)
        sizes = [] if config["model_type"] == "vit" else ["--sequence", sequence]
        command = ["verify", self.write("config.json", config), "--plan", self.write("plan.json", {"kerf": 1, **plan}), "--global-batch", groups * samples,
                   *sizes, "--optimizer", "adamw", "--json"]
        if expect_refusal:
            return self.refuse(1, [expect_refusal], *command)
        result = json.loads(self.succeed(*command).stdout)
        self.assertIsNone(result["difference"])
        self.assertEqual(len(result["losses"]), 3)
        self.assertNotEqual(result["losses"][0], result["losses"][-1])
        return result

    def test_every_family_at_its_published_size(self):
        for number, (name, keys) in enumerate(PUBLISHED.items()):
            config = {"model_type": name, **keys}
            plans = list(PLANS) if EVERYTHING else [list(PLANS)[number % (len(PLANS) - 1)]] + ["experts"] * (name in WITH_EXPERTS)
            for plan in plans:
                if plan == "experts" and name not in WITH_EXPERTS:
                    continue
                with self.subTest(family=name, plan=plan):
                    self.verify(config, PLANS[plan], REFUSED.get((name, plan)))

    def test_the_table_has_every_family(self):
        tiny = {json.load(open(path))["model_type"] for path in glob.glob(os.path.join(ROOT, "test", "models", "families", "*", "config.json"))}
        self.assertEqual(tiny - {keys.get("model_type", name) for name, keys in PUBLISHED.items()}, set())

    def test_tiny_configurations(self):
        """They may be smaller than what others are shrunk to."""
        for path in sorted(glob.glob(os.path.join(ROOT, "test", "models", "families", "*", "config.json"))):
            with self.subTest(family=os.path.basename(os.path.dirname(path))):
                with open(path) as file:
                    config = json.load(file)
                self.verify(config, {"mesh": {"data": 2, "model": 2}, "microbatch": 1}, sequence=16)

    def test_as_many_samples_as_positions(self):
        """A constant that is as large as the batch and as the positions has nothing to do with either."""
        plan = {"mesh": {"stage": 2, "data": 2}, "microbatch": 2}
        for path in sorted(glob.glob(os.path.join(ROOT, "test", "models", "families", "*", "config.json"))):
            with self.subTest(family=os.path.basename(os.path.dirname(path))):
                with open(path) as file:
                    config = json.load(file)
                if config["model_type"] == "vit":
                    continue
                result = self.verify(config, plan, sequence=16, samples=8)
                self.assertNotIn("microbatches", " ".join(result["shrunk"]))

    def test_what_is_kept(self):
        """A mixture keeps choosing among groups, a window stays shorter than the sequence, several ranks share a key/value head."""
        notes = self.verify({"model_type": "deepseek_v3", **PUBLISHED["deepseek-v3"]}, PLANS["experts"])["shrunk"]
        for note in ("experts 256 -> 4", "experts of a token 8 -> 2", "groups of experts 8 -> 2", "groups of a token's experts 4 -> 1",
                     "layers without experts 3 -> 1", "layers 6 -> 3"):
            self.assertIn(note, notes)
        notes = self.verify(PUBLISHED["mistral-7b-window"], PLANS["tensor"])["shrunk"]
        self.assertIn("sliding window 48 -> 12", notes)
        self.assertIn("sequence 64 -> 16", notes)
        notes = self.verify({"model_type": "falcon", **PUBLISHED["falcon"]}, PLANS["tensor"])["shrunk"]
        self.assertIn("heads 64 -> 2", notes)
        self.assertEqual([note for note in notes if note.startswith("key/value heads")], [])  # one before, one after
        notes = self.verify({"model_type": "t5", **PUBLISHED["t5"]}, PLANS["zero bubble"])["shrunk"]
        self.assertIn("encoder layers 3 -> 2", notes)
        self.assertIn("decoder layers 3 -> 2", notes)

    def test_cuts_in_encoder_and_decoder(self):
        stages = [{"until": "encoder.block.1.layer.0*"}, {"until": "decoder.block.2.layer.1*"}, {}]
        result = self.verify({"model_type": "t5", "num_layers": 4, "num_decoder_layers": 4},
                             {"mesh": {"stage": 3, "data": 2, "model": 2}, "microbatch": 1, "stages": stages})
        self.assertEqual(result["mesh"]["stage"], 3)

    def test_an_absent_key_has_its_default(self):
        """{"model_type": "gpt2"} is GPT-2 124M, whose sizes become small as well."""
        notes = self.verify({"model_type": "gpt2"}, PLANS["interleaved"])["shrunk"]
        for note in ("hidden size 768 -> 16", "heads 12 -> 2", "vocabulary 50257 -> 61", "layers 12 -> 5"):
            self.assertIn(note, notes)


if __name__ == "__main__":
    main()
