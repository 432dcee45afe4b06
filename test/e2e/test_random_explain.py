#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Random jobs: each alternative of `kerf explain` is what `kerf plan` finds with its constraints, and no random pins beat a proven plan.

    python3 test/e2e/test_random_explain.py                  a few small jobs
    python3 test/e2e/test_random_explain.py SEED CASES       CASES jobs from SEED on, every third of billions of parameters

A job whose plan takes longer than LONGEST seconds is named and left out: explaining it takes as long for each of its decisions.
"""
import json
import os
import random
import sys
import time

from support import CLUSTERS, ROOT, KerfTest, kerf, main

FAMILIES = os.path.join(ROOT, "test", "models", "families")
GPUS = ("dgx-a100", "dgx-v100", "eos", "selene", "p4d", "a100-roce", "h800-roce", "v100-nodes")
ROUNDING = 1e-9
LONGEST = 20
# Keys of a configuration by what they say, under the names that families give them.
LAYERS = ("num_hidden_layers", "n_layer", "num_layers", "num_decoder_layers")
HEADS = ("num_attention_heads", "n_head", "num_heads")
KEY_HEADS = ("num_key_value_heads", "num_kv_heads")
WIDTHS = ("hidden_size", "n_embd", "d_model", "word_embed_proj_dim")
MLPS = ("intermediate_size", "ffn_hidden_size", "n_inner", "d_ff", "ffn_dim", "moe_intermediate_size")


def sized(rnd, family, big):
    """The family's small configuration, made as large as models are."""
    with open(os.path.join(FAMILIES, family, "config.json")) as file:
        config = json.load(file)
    layers = rnd.choice((16, 24, 32, 40, 48) if big else (2, 3, 4, 6, 8, 12))
    heads = rnd.choice((16, 32, 40, 64) if big else (4, 8, 12, 16))
    head = rnd.choice((64, 128))
    for keys, value in ((LAYERS, layers), (HEADS, heads), (WIDTHS, heads * head), (MLPS, 4 * heads * head)):
        for key in keys:
            if isinstance(config.get(key), int) and not isinstance(config.get(key), bool):
                config[key] = value
    for key in KEY_HEADS:
        if isinstance(config.get(key), int):
            config[key] = 1 if config[key] == 1 else heads if "deepseek" in family else rnd.choice((heads, heads // 4))
    for key in ("head_dim", "d_kv"):
        if isinstance(config.get(key), int) and "deepseek" not in family:
            config[key] = head
    if "vocab_size" in config:
        config["vocab_size"] = rnd.choice((8192, 32000, 50304))
    for key in ("n_positions", "max_position_embeddings", "seq_length"):
        if isinstance(config.get(key), int):
            config[key] = 8192
    if "image_size" in config:
        config.update(image_size=224, patch_size=16)
    return config


def random_job(rnd, big):
    families = sorted(name for name in os.listdir(FAMILIES) if os.path.isdir(os.path.join(FAMILIES, name)))
    family = rnd.choice(families)
    cluster = rnd.choice(GPUS)
    options = {"cluster": cluster, "ranks": rnd.choice((16, 32, 64, 64 if cluster == "v100-nodes" else 128) if big else (1, 2, 4, 6, 8, 16)),
               "dtype": "f16" if "v100" in cluster else rnd.choice(("bf16", "bf16", "f32")),
               "optimizer": rnd.choice(("adamw", "adamw", "sgd")),
               "batch": rnd.choice((32, 64, 96, 128, 512) if big else (4, 8, 12, 16, 32, 64)),
               "sequence": rnd.choice((1024, 2048, 4096, 8192) if big else (256, 512, 1024, 2048, 4096))}
    if rnd.random() < 0.4:  # memory that decides something
        options["memory"] = int(rnd.choice((8, 12, 16, 24, 32)) * 2**30)
    return family, sized(rnd, family, big), options


def arguments(path, job):
    family, _, options = job
    words = [path, "--cluster", os.path.join(CLUSTERS, options["cluster"] + ".json"), "--ranks", options["ranks"], "--dtype", options["dtype"],
             "--optimizer", options["optimizer"], "--global-batch", options["batch"]]
    if family != "vit":
        words += ["--sequence", options["sequence"]]
    if "memory" in options:
        words += ["--memory", options["memory"]]
    return words


def divisors(number):
    return [size for size in range(1, number + 1) if number % size == 0]


def random_pins(rnd, plan):
    """A plan that differs from `plan` in a few things, all of which can be simulated."""
    pins = {"kerf": 1, "mesh": {}, "global_batch": plan["global_batch"]}
    left = 1
    for size in plan["mesh"].values():
        left *= size
    for axis in ("model", "context", "stage"):
        size = rnd.choice(divisors(left)) if rnd.random() < 0.5 else plan["mesh"][axis]
        size = size if left % size == 0 else 1
        pins["mesh"][axis] = size
        left //= size
    pins["mesh"]["data"] = left
    group = max(1, plan["global_batch"] // left)
    pins["microbatch"] = rnd.choice(divisors(group)) if rnd.random() < 0.5 else plan["microbatch"]
    choices = {"schedule": [{"name": "1f1b"}, {"name": "gpipe"}, {"name": "interleaved", "chunks": 2}, {"name": "zero-bubble", "variant": "h1"}],
               "recompute": ["none", "selective", "pointwise", "except-attention", "full"], "optimizer_sharding": [0, 1, 2, 3], "sequence_parallel": [True, False],
               "layout": ["megatron", "solved"], "context_style": ["ring", "ulysses"],
               "order": [rnd.sample(["stage", "data", "context", "model"], 4)],
               "attention": ["unfused"],
               "overlap": [["gradients", "parameters", "stage", "tensor"], ["gradients", "parameters", "stage", "products"], []],
               "optimizer_sharding_ranks": divisors(max(1, left))}
    if plan["dtype_is_short"]:
        choices["gradient_dtype"] = ["bf16"]
    for key, values in choices.items():
        if rnd.random() < 0.25:
            pins[key] = rnd.choice(values)
        elif key in plan and key in ("schedule", "recompute", "optimizer_sharding", "layout", "order") and rnd.random() < 0.7:
            pins[key] = plan[key]
    if pins.get("layout") == "solved":
        pins["sequence_parallel"] = False
    return pins


class RandomExplain(KerfTest):
    compared = enclosed = pins = faster_outside = 0

    def plan(self, job, *more):
        done = kerf("plan", *arguments(self.write("config.json", job[1]), job), "--json", *more, timeout=600)
        self.assertIn(done.returncode, (0, 2), done.stderr)
        return json.loads(done.stdout) if done.returncode == 0 else None

    def check(self, seed, big=False):
        """False: the job has no plan, or takes too long."""
        rnd = random.Random(seed)
        job = random_job(rnd, big)
        with self.subTest(seed=seed, family=job[0], **job[2]):
            began = time.time()
            plan = self.plan(job)
            planned = time.time() - began
            if plan is None or planned > LONGEST:
                if len(sys.argv) > 1:
                    print(f"seed {seed}: {job[0]} {job[2]}: {'no plan' if plan is None else 'left out'} after {planned:.1f} s", flush=True)
                return False
            saved = self.write("plan.json", plan)
            began = time.time()
            answer = json.loads(self.succeed("explain", saved, "--json", timeout=1200).stdout)
            explained = time.time() - began
            self.check_alternatives(job, plan, answer)
            self.check_pins(rnd, job, plan)
            if len(sys.argv) > 1:
                print(f"seed {seed}: {job[0]} {job[2]}: plan {planned:.1f} s, explain {explained:.1f} s, "
                      f"{self.compared} alternatives ({self.enclosed} proven by one search only, or by none) and {self.pins} pins so far, {self.faster_outside} faster outside of the space", flush=True)
        return True

    def check_alternatives(self, job, plan, answer):
        best = plan["predicted"]
        self.assertAlmostEqual(answer["step_seconds"], best["step_seconds"], delta=ROUNDING * best["step_seconds"])
        proven = best["lower_bound_seconds"] >= best["step_seconds"] * (1 - ROUNDING)
        for one in answer["alternatives"]:
            if not one["alternative"]:
                continue
            with self.subTest(decision=one["decision"]):
                seconds, bound = one["alternative"]["step_seconds"], one["lower_bound_seconds"]
                again = self.plan(job, "--constraints", self.write("pins.json", one["constraints"]))
                self.assertIsNotNone(again)
                found = again["predicted"]["step_seconds"]
                self.assertGreaterEqual(found, bound * (1 - ROUNDING))
                # Two proven times are equal. One that is proven lies between the bound and the time of a search that ended early.
                again_proven = again["predicted"]["lower_bound_seconds"] >= found
                if one["proven"] and again_proven:
                    self.assertAlmostEqual(found, seconds, delta=ROUNDING * seconds)
                elif one["proven"]:
                    self.assertLessEqual(again["predicted"]["lower_bound_seconds"], seconds * (1 + ROUNDING))
                    self.assertGreaterEqual(found, seconds * (1 - ROUNDING))
                elif again_proven:
                    self.assertLessEqual(found, seconds * (1 + ROUNDING))
                type(self).enclosed += not (one["proven"] and again_proven)
                if proven:
                    self.assertGreaterEqual(found, best["step_seconds"] * (1 - ROUNDING))
                type(self).compared += 1
        less = answer["memory"]["with_10_percent_less"]
        if less and less["proven"]:
            options = dict(job[2], memory=less["memory_bytes"])
            again = self.plan((job[0], job[1], options))
            self.assertAlmostEqual(again["predicted"]["step_seconds"], less["step_seconds"], delta=ROUNDING * less["step_seconds"])

    def check_pins(self, rnd, job, plan):
        best = plan["predicted"]
        if best["lower_bound_seconds"] < best["step_seconds"] * (1 - ROUNDING):
            return
        outside = {what.split(":")[0] for what in plan["job"]["outside"]}
        model, *rest = arguments(self.write("config.json", job[1]), job)
        if "memory" in job[2]:
            rest = rest[:-2]
        for _ in range(12):
            pins = random_pins(rnd, dict(plan, dtype_is_short=job[2]["dtype"] in ("bf16", "f16")))
            done = kerf("simulate", model, *(word for word in rest), "--plan", self.write("pins.json", pins), "--json")
            if done.returncode != 0:
                continue  # what cannot be simulated is no plan
            simulated = json.loads(done.stdout)
            fits = simulated["fits"] and ("memory" not in job[2] or max(stage["device_bytes"] for stage in simulated["memory"]) <= job[2]["memory"])
            type(self).pins += 1
            if not fits or simulated["step_seconds"] >= best["step_seconds"] * (1 - ROUNDING):
                continue
            type(self).faster_outside += 1
            self.assertTrue(outside & set(pins), f"{json.dumps(pins)} takes {simulated['step_seconds']} s, the plan {best['step_seconds']} s: {job}")

    def test_small_jobs(self):
        if len(sys.argv) > 1:
            self.skipTest("other jobs were asked for")
        for seed in (2, 4, 8):
            self.check(seed)


if __name__ == "__main__":
    if len(sys.argv) == 3:
        first, cases = int(sys.argv[1]), int(sys.argv[2])
        def test_jobs(self):
            seed, checked = first, 0
            while checked < cases:
                checked += self.check(seed, big=seed % 3 == 0)
                seed += 1
        RandomExplain.test_jobs = test_jobs
        sys.argv[1:] = ["-v", "RandomExplain.test_jobs"]
    main()
