#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Random complete plans (stages, schedules, microbatches, recomputation, optimizer sharding, sequence, context and expert parallelism, meshes of stages) of random
small transformers give the losses of one rank, and the memory that was planned.

`test_random_pipelines.py [SEED [CASES]]`; a failing case prints its seed, model and plan. Every fourth case is run under mpirun too, where there
is one, and has to give the same bits.
"""
import json
import math
import os
import random
import shutil
import struct
import subprocess
import sys
import unittest

from mpi import mpirun
from support import DEVICE, KERF, KerfTest, losses_of, write_npz

SEED = int(sys.argv.pop(1)) if len(sys.argv) > 1 and sys.argv[1].isdigit() else 7
CASES = int(sys.argv.pop(1)) if len(sys.argv) > 1 and sys.argv[1].isdigit() else 12
STEPS = 3
AGREE = 1e-10    # relative, of float64 losses under two plans
WATCHDOG = 60    # seconds; a case takes less than one


def random_model(rnd):
    family = rnd.choice(["llama", "llama", "gpt2", "mixtral"])
    layers, keys, group, width = rnd.randint(1, 6), rnd.choice([1, 2, 4]), rnd.choice([1, 2, 3]), rnd.choice([2, 4])
    heads, vocabulary = keys * group, rnd.randint(11, 60)
    if family == "gpt2":
        return {"model_type": "gpt2", "n_layer": layers, "n_head": heads, "n_embd": heads * width, "n_positions": 64, "vocab_size": vocabulary,
                "tie_word_embeddings": rnd.random() < 0.7}, layers, heads, heads, 1
    config = {"model_type": family, "num_hidden_layers": layers, "num_attention_heads": heads, "num_key_value_heads": keys,
              "hidden_size": heads * width, "intermediate_size": rnd.randint(5, 24), "vocab_size": vocabulary, "max_position_embeddings": 64,
              "hidden_act": "silu", "rms_norm_eps": 1e-5, "tie_word_embeddings": rnd.random() < 0.4}
    if family == "mixtral":
        config.update(num_local_experts=4, num_experts_per_tok=2, output_router_logits=False)
    return config, layers, heads, keys, 4 if family == "mixtral" else 1


def random_cut(rnd, layers, parts):
    """First and last layer of each part; parts without layers only at the ends."""
    middle = max(1, min(parts, layers))
    empty = parts - middle
    front = rnd.randint(0, empty)
    borders = sorted(rnd.sample(range(1, layers), middle - 1))
    runs = [{"layers": [a, b - 1]} for a, b in zip([0] + borders, borders + [layers])]
    return [{"layers": []} for _ in range(front)] + runs + [{"layers": []} for _ in range(empty - front)]


# Ops that are the last of something in a layer, in order.
BORDERS = {"gpt2": ["ln_1*", "attn.c_attn*", "attn*", "ln_2*", "mlp.c_fc/activation*", "mlp.c_proj*"],
           "llama": ["input_layernorm*", "self_attn.k_proj*", "self_attn*", "post_attention_layernorm*", "mlp.gate_proj*", "mlp*"],
           "mixtral": ["input_layernorm*", "self_attn.v_proj*", "self_attn*", "post_attention_layernorm*"]}


# Ops whose plan says that nothing but the batch cuts them.
PINNED = {"gpt2": ["*mlp.c_proj/dot_general", "*mlp*", "*/attention*"], "llama": ["*o_proj/dot_general", "*mlp*/dot_general*", "*/attention*"],
          "mixtral": ["*o_proj/dot_general", "*/attention*"]}


def random_cuts(rnd, family, layers, parts):
    """Parts that end somewhere in a layer, in front of them all or behind."""
    inner = [f"*.{layer}.{border}" for layer in range(layers) for border in BORDERS[family]]
    places = (["*wte*"] if family == "gpt2" else ["*embed_tokens*"]) + inner + ["*lm_head*"]
    if parts > len(places):
        return random_cut(rnd, layers, parts)
    return [{"until": places[place]} for place in sorted(rnd.sample(range(len(places)), parts - 1))] + [{}]


AXES = ["data", "context", "expert", "model"]


def random_mesh(rnd, ranks, heads, experts):
    """Of one stage."""
    while True:
        mesh = {axis: rnd.choice([n for n in range(1, ranks + 1) if ranks % n == 0]) for axis in AXES}
        if math.prod(mesh.values()) == ranks and heads % mesh["model"] == 0 and mesh["expert"] <= min(experts, 2):
            return {axis: size for axis, size in mesh.items() if size > 1 or rnd.random() < 0.3} or {"data": 1}


def groups_of(mesh):
    return mesh.get("data", 1) * mesh.get("expert", 1)


def random_plan(rnd, family, layers, heads, keys, experts):
    """The plan, its batch, and by what the sequence has to be divisible."""
    while True:
        stage, data, model, context = rnd.choice([1, 2, 2, 3, 4]), rnd.choice([1, 1, 2, 3, 4]), rnd.choice([1, 2, 3, 4]), rnd.choice([1, 1, 1, 2, 3, 4])
        expert = rnd.choice([1, 2]) if experts > 1 else 1
        if 2 <= stage * data * model * context * expert <= 8 and heads % model == 0:
            break
    microbatch, microbatches = rnd.choice([1, 1, 2, 3]), rnd.randint(1, 7)
    meshes = [{"data": data, "context": context, "expert": expert, "model": model}] * stage
    order = rnd.sample(["stage", *AXES], 5)
    if stage > 1 and rnd.random() < 0.5:
        meshes = meshes[:1] + [random_mesh(rnd, data * context * expert * model, heads, experts) for _ in range(stage - 1)]
        samples = math.lcm(*map(groups_of, meshes))
        microbatch *= samples // (data * expert)
        order.remove("stage")
        order.insert(rnd.choice([0, 4]), "stage")
    most = {axis: max(mesh.get(axis, 1) for mesh in meshes) for axis in AXES}
    plan = {"kerf": 1, "mesh": {"stage": stage, "data": data, "context": context, "expert": expert, "model": model},
            "order": order, "microbatch": microbatch,
            "recompute": [rnd.choice(["none", "selective", "pointwise", "except-attention", "full", "offload"]) for _ in range(stage)],
            "sequence_parallel": rnd.random() < 0.5 and most["model"] > 1}
    if most["model"] > 1 and rnd.random() < 0.5:
        plan["overlap"] = rnd.sample(["tensor", "products"], rnd.randint(1, 2))
    if rnd.random() < 0.4:
        patterns = rnd.sample(["*/dot_general*", "*/attention*", "*/add*", "*/*norm*"], rnd.randint(1, 3))
        plan["ops"] = {pattern: {"recompute": rnd.random() < 0.5} for pattern in patterns}
    if most["model"] > 1 and rnd.random() < 0.2:
        pin = plan.setdefault("ops", {}).setdefault(rnd.choice(PINNED[family]), {})
        pin["strategy"] = {}
    if most["model"] > 1 and not plan["sequence_parallel"] and rnd.random() < 0.6:
        plan["layout"] = "solved"
    if rnd.random() < 0.6:
        plan["optimizer_sharding"] = rnd.choice([1, 2, 3, [rnd.choice([0, 1, 2]) for _ in range(stage)]])
        replicas = math.gcd(*(mesh.get("context", 1) * groups_of(mesh) for mesh in meshes))
        if rnd.random() < 0.6:
            plan["optimizer_sharding_ranks"] = rnd.choice([ranks for ranks in range(1, replicas + 1) if replicas % ranks == 0])
    if most["context"] > 1:
        even = all(keys % (mesh.get("model", 1) * mesh.get("context", 1)) == 0 for mesh in meshes)
        plan["context_style"] = "ulysses" if even and rnd.random() < 0.5 else "ring"
    chunks = 1
    if stage > 1:
        name = rnd.choice(["gpipe", "1f1b", "interleaved", "zero-bubble"])
        plan["schedule"] = {"name": name}
        if name == "interleaved":
            chunks = 2
            microbatches = stage * rnd.randint(1, 3)
            plan["schedule"]["chunks"] = chunks
        if name == "zero-bubble":
            plan["schedule"]["variant"] = rnd.choice(["h1", "1p", "2p", "by-memory"])
        plan["stages"] = random_cut(rnd, layers, stage * chunks) if rnd.random() < 0.5 else random_cuts(rnd, family, layers, stage * chunks)
        for part, entry in enumerate(plan["stages"]):
            if meshes[part % stage] is not meshes[0] and (part < stage or rnd.random() < 0.5):
                entry["mesh"] = meshes[part % stage]
    return plan, data * expert * microbatch * microbatches, math.lcm(*(mesh.get("context", 1) for mesh in meshes))


class RandomPipelines(KerfTest):
    def test_gradients_of_shared_keys_handed_over(self):
        """Two ranks share a key head, and a stage ends between the projections and attention: what the next stage hands back is whole."""
        config = {"model_type": "llama", "num_hidden_layers": 3, "num_attention_heads": 4, "num_key_value_heads": 2, "hidden_size": 16,
                  "intermediate_size": 12, "vocab_size": 31, "max_position_embeddings": 64, "hidden_act": "silu", "rms_norm_eps": 1e-5}
        self.write("config.json", config)
        tokens = [random.Random(SEED).randrange(31) for _ in range(STEPS * 16)]
        self.write_tokens(tokens, tokens, 2, 8)
        expected, _ = self.train("one rank", 2, 8, {"kerf": 1, "mesh": {"data": 1, "model": 1}, "recompute": "none", "schedule": {"name": "1f1b"}})
        for until in BORDERS["llama"]:
            got, _ = self.train(until, 2, 8, {"kerf": 1, "mesh": {"stage": 2, "model": 4}, "microbatch": 1, "stages": [{"until": f"*.1.{until}"}, {}]})
            self.close(got, expected, AGREE, until)

    def test_experts_of_tokens_that_two_axes_cut(self):
        """Weights of routed tokens are partial sums over context and the width of experts: both sums are taken before the router's gradient."""
        config = {"model_type": "mixtral", "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2, "hidden_size": 64,
                  "intermediate_size": 96, "vocab_size": 31, "max_position_embeddings": 64, "hidden_act": "silu", "rms_norm_eps": 1e-5,
                  "num_local_experts": 4, "num_experts_per_tok": 2}
        self.write("config.json", config)
        rnd = random.Random(SEED)
        tokens = [rnd.randrange(31) for _ in range(STEPS * 8 * 32)]
        self.write_tokens(tokens, tokens, 8, 32)
        expected, _ = self.train("one rank", 8, 32, {"kerf": 1, "mesh": {"data": 1, "model": 1}, "recompute": "none", "schedule": {"name": "1f1b"}})
        for pins in ({}, {"microbatch": 2, "optimizer_sharding": 3}):
            with self.subTest(pins=pins):
                got, _ = self.train(str(pins), 8, 32, {"kerf": 1, "mesh": {"expert": 2, "context": 2, "model": 2}, **pins})
                self.close(got, expected, AGREE, str(pins))

    def write_tokens(self, inputs, labels, batch, sequence):
        pack = lambda values: ("<i8", [STEPS, batch, sequence], struct.pack(f"<{len(values)}q", *values))
        write_npz(self.path("data.npz"), {"input_ids": pack(inputs), "labels": pack(labels)})

    def train(self, name, batch, sequence, plan, *more, mpi=0, device=DEVICE):
        log = self.path("log")
        command = ["train", self.path("config.json"), "--data", self.path("data.npz"), "--seed", "3", "--global-batch", str(batch), "--sequence",
                   str(sequence), "--dtype", "f64", "--steps", str(STEPS), "--lr", "1e-2", "--plan", self.write("plan.json", plan), "--log", log,
                   "--json", *more]
        command += ["--device", device] if device else []
        command = mpirun(mpi, *command) if mpi else [KERF, *command]
        done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=WATCHDOG)
        self.assertEqual(done.returncode, 0, f"{name}: {done.stderr[-2000:]}")
        return losses_of(log), json.loads(done.stdout)

    def test_plans(self):
        for case in range(CASES):
            rnd = random.Random(SEED * 1000 + case)
            config, layers, heads, keys, experts = random_model(rnd)
            plan, batch, context = random_plan(rnd, config["model_type"], layers, heads, keys, experts)
            each = 4 * context
            sequence = each * rnd.randint(2, min(6, 64 // each))  # the models have 64 positions
            ranks = 1
            for size in plan["mesh"].values():
                ranks *= size
            optimizer = rnd.choice([["--optimizer", "adamw", "--weight-decay", "0.1"], ["--optimizer", "sgd", "--momentum", "0.9"], ["--optimizer", "sgd"]])
            if rnd.random() < 0.4:
                optimizer += ["--clip-norm", "0.3"]
            with self.subTest(seed=SEED, case=case, config=config, plan=plan, batch=batch, sequence=sequence, optimizer=optimizer):
                self.write("config.json", config)
                tokens = [rnd.randrange(config["vocab_size"]) for _ in range(STEPS * batch * sequence)]
                labels = [-100 if rnd.random() < 0.2 else token for token in tokens]
                self.write_tokens(tokens, labels, batch, sequence)
                expected, _ = self.train("one rank", batch, sequence, {"kerf": 1, "mesh": {"data": 1, "model": 1}, "recompute": "none",
                                                                      "schedule": {"name": "1f1b"}}, *optimizer)
                got, report = self.train("the plan", batch, sequence, plan, *optimizer)
                self.close(got, expected, AGREE, "losses")
                self.check_memory(report)
                if case % 4 == 0 and shutil.which("mpirun"):
                    device = f"{DEVICE}:{case}" if DEVICE == "check" else DEVICE  # processes have to agree on the seed of the delays
                    ordered = [*optimizer, *(["--deterministic"] if DEVICE else [])]
                    got, _ = self.train("in order", batch, sequence, plan, *ordered, device=device) if DEVICE else (got, None)
                    again, _ = self.train("under mpirun", batch, sequence, plan, *ordered, mpi=ranks, device=device)
                    self.assertEqual(again, got, "threads and MPI give the same bits")

    def check_memory(self, report):
        if DEVICE:
            return  # plans are made with the alignment of the default device
        planned, measured = report["report"]["memory_bytes"]["total"], report["measured"]["stage_peak_bytes"]
        self.assertLessEqual(max(measured), planned)
        self.assertLessEqual(planned - max(measured), max(planned // 10, 1 << 20))


if __name__ == "__main__":
    unittest.main()
