#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""kerf simulate: its keys, sums that closed forms give, what must not get slower, and plans that it refuses."""
import json
import os

from support import CLUSTERS, KerfTest, file_of, main

GPT = {"model_type": "gpt2", "n_layer": 8, "n_embd": 512, "n_head": 8, "n_inner": 2048, "vocab_size": 8192, "n_positions": 256}
DEEPSEEK = {"model_type": "deepseek_v3", "num_hidden_layers": 4, "first_k_dense_replace": 1, "hidden_size": 512, "num_attention_heads": 8,
            "num_key_value_heads": 8, "intermediate_size": 1024, "moe_intermediate_size": 256, "n_routed_experts": 16, "n_group": 4, "topk_group": 2,
            "num_experts_per_tok": 4, "kv_lora_rank": 64, "q_lora_rank": 96, "vocab_size": 1000}
LLAMA = {"model_type": "llama", "num_hidden_layers": 8, "hidden_size": 512, "num_attention_heads": 8, "num_key_value_heads": 4,
         "intermediate_size": 1536, "vocab_size": 8192, "max_position_embeddings": 256}
CLUSTER = os.path.join(CLUSTERS, "dgx-a100.json")
H100 = os.path.join(CLUSTERS, "dgx-h100.json")
MIXED = os.path.join(CLUSTERS, "a100-v100.json")
KEYS = {"step_seconds", "peak_bytes", "fits", "breakdown", "tokens_per_second", "model_flops_utilization"}
PARTS = {"forward", "backward", "recompute", "optimizer", "collectives", "exposed", "bubble"}


def plan_of(stage=1, data=1, model=1, batch=16, micro=2, **more):
    return {"kerf": 1, "mesh": {"stage": stage, "data": data, "model": model}, "global_batch": batch, "microbatch": micro, **more}


def with_context(context, stage=1, data=1, model=1, **more):
    plan = plan_of(stage, data, model, **more)
    plan["mesh"]["context"] = context
    return plan


def gpt_parameters_of_rank(stage, stages, model):
    """Elements on one rank of a stage, Megatron-LM's layout: products and vocabulary cut by `model`, the rest whole."""
    h, f, v, s = GPT["n_embd"], GPT["n_inner"], GPT["vocab_size"], GPT["n_positions"]
    layer = (3 * h * h + 3 * h + h * h + h * f + f + f * h) / model + 2 * h + 4 * h
    elements = layer * GPT["n_layer"] / stages
    if stage == 0:
        elements += v * h / model + s * h
    if stage == stages - 1:
        elements += 2 * h + (v * h / model if stages > 1 else 0)
    return elements


def alike(one, other):
    """Equal but for the few bytes that an export's scalars add to its kernels."""
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(alike(one[key], other[key]) for key in one)
    if isinstance(one, list):
        return len(one) == len(other) and all(map(alike, one, other))
    return one == other or (isinstance(one, float) and abs(one - other) <= 1e-6 * abs(other))


class Simulate(KerfTest):
    def simulate(self, plan, config=GPT, cluster=CLUSTER, *more):
        done = self.succeed("simulate", self.write("config.json", config), "--cluster", cluster, "--plan", self.write("plan.json", plan),
                            "--json", *more)
        return json.loads(done.stdout)

    def refuse_plan(self, words, plan, *more):
        self.refuse(1, words, "simulate", self.write("config.json", GPT), "--cluster", CLUSTER, "--plan", self.write("plan.json", plan), *more)

    def test_keys(self):
        result = self.simulate(plan_of(2, 2, 2, recompute="full"))
        self.assertLessEqual(KEYS, set(result))
        self.assertEqual(PARTS, set(result["breakdown"]))
        self.assertEqual(len(result["peak_bytes"]), 2)
        self.assertTrue(result["fits"])
        self.assertLessEqual(set(result["breakdown"]["collectives"]), {"stage", "data", "model"})
        b = result["breakdown"]
        parts = b["forward"] + b["backward"] + b["recompute"] + b["optimizer"] + sum(b["exposed"].values()) + b["bubble"]
        self.assertAlmostEqual(parts / result["step_seconds"], 1, delta=0.02)
        self.assertGreater(b["recompute"], 0)
        self.assertAlmostEqual(result["tokens_per_second"] * result["step_seconds"], 16 * 256, delta=1e-3)

    def test_flops_are_the_closed_form(self):
        layers, h, v, s, batch = GPT["n_layer"], GPT["n_embd"], GPT["vocab_size"], GPT["n_positions"], 16
        wanted = 72 * batch * s * layers * h * h * (1 + s / (6 * h) + v / (12 * h * layers))
        for plan in (plan_of(), plan_of(2, 2, 2, micro=1), plan_of(1, 4, 4), plan_of(model=8, sequence_parallel=True), plan_of(model=8, layout="solved")):
            self.assertEqual(self.simulate(plan)["model_flops"], wanted)

    def test_weights_of_all_stages_are_the_closed_form(self):
        for stages, model, more in ((1, 1, {}), (1, 4, {}), (2, 2, {}), (4, 8, {}), (2, 4, {"sequence_parallel": True})):
            result = self.simulate(plan_of(stages, 1, model, **more), GPT, CLUSTER, "--optimizer", "adamw")
            for stage, memory in enumerate(result["memory"]):
                elements = gpt_parameters_of_rank(stage, stages, model)
                self.assertEqual(memory["weights"], 4 * elements, f"stage {stage} of {stages}, model {model}")
                self.assertEqual(memory["states"], 8 * elements)

    def test_optimizer_sharding_cuts_states_gradients_and_weights(self):
        whole = self.simulate(plan_of(data=8), GPT, CLUSTER, "--dtype", "bf16", "--optimizer", "adamw")["memory"][0]
        for level, keys in ((1, ["states"]), (2, ["states", "gradients"]), (3, ["states", "gradients", "weights"])):
            cut = self.simulate(plan_of(data=8, optimizer_sharding=level), GPT, CLUSTER, "--dtype", "bf16", "--optimizer", "adamw")["memory"][0]
            for key in ("states", "gradients", "weights"):
                self.assertAlmostEqual(cut[key], whole[key] / (8 if key in keys else 1), delta=8)

    def test_optimizer_sharding_of_each_stage(self):
        def memory(sharding):
            return self.simulate(plan_of(2, 4, 1, optimizer_sharding=sharding), GPT, CLUSTER, "--dtype", "bf16", "--optimizer", "adamw")["memory"]

        first, last = memory(3)[0], memory(1)[1]
        self.assertEqual(memory([3, 1]), [first, last])
        self.assertEqual(memory([1, 1]), memory(1))
        self.refuse_plan(["optimizer_sharding", "3 values", "2 stages"], plan_of(2, optimizer_sharding=[0, 1, 2]))

    def test_activations_are_korthikantis(self):
        # Korthikanti et al. 2022, equation 2 and table 2: bytes of a layer are s b h (10 + 24 / t + 5 a s / (h t)), with sequence
        # parallelism s b h (34 + 5 a s / h) / t; statistics of norms, which they leave out, aside.
        h, a, s, b = GPT["n_embd"], GPT["n_head"], GPT["n_positions"], 2

        def layer(count, t, **more):
            config = dict(GPT, n_layer=count)
            return self.simulate(plan_of(model=t, batch=b, micro=b, attention="unfused", **more), config, CLUSTER, "--dtype",
                                 "f16")["memory"][0]["activations"]

        for t in (1, 2, 8):
            wanted = s * b * h * (10 + 24 / t + 5 * a * s / (h * t))
            self.assertAlmostEqual((layer(8, t) - layer(4, t)) / 4 / wanted, 1, delta=0.02)
            if t > 1:
                wanted = s * b * h * (34 + 5 * a * s / h) / t
                self.assertAlmostEqual((layer(8, t, sequence_parallel=True) - layer(4, t, sequence_parallel=True)) / 4 / wanted, 1, delta=0.02)
            wanted = s * b * h * (10 + 24 / t)
            kept = (layer(8, t, recompute="selective") - layer(4, t, recompute="selective")) / 4
            self.assertAlmostEqual(kept / wanted, 1, delta=0.02)

    def test_a_solved_layout_is_no_slower_than_megatrons(self):
        # It is the cheapest of a space that has both of these, but for what the solver does not see: what overlaps, and the optimizer.
        config = dict(GPT, n_embd=4096, n_head=32, n_inner=16384, n_positions=1024)
        for t in (2, 4, 8):
            def step(**more):
                plan = plan_of(model=t, batch=4, micro=4, overlap=["gradients", "parameters", "stage"], **more)
                return self.simulate(plan, config, CLUSTER, "--dtype", "bf16")["step_seconds"]

            solved, others = step(layout="solved"), (step(), step(layout="megatron"), step(sequence_parallel=True))
            self.assertLess(solved, min(others) * {2: 1.001, 4: 0.99, 8: 0.96}[t])
            self.assertEqual(others[0], others[1])
        one = {"model": 1, "batch": 4, "micro": 4}
        self.assertEqual(self.simulate(plan_of(**one, layout="solved")), self.simulate(plan_of(**one)))
        self.refuse_plan(["layout", "solved", "sequence_parallel"], plan_of(model=2, layout="solved", sequence_parallel=True))
        self.refuse_plan(["layout", "best", "megatron"], plan_of(layout="best"))

    def test_more_bandwidth_is_never_slower(self):
        with open(CLUSTER) as file:
            cluster = json.load(file)
        plans = [plan_of(1, 16, 8, batch=32), plan_of(4, 4, 8, batch=32), plan_of(2, 16, 1, batch=64, optimizer_sharding=1),
                 plan_of(1, 32, 1, batch=64, optimizer_sharding=3), plan_of(2, 2, 8, batch=32, sequence_parallel=True)]
        for plan in plans:
            last = None
            for times in (1, 2, 4, 8):
                faster = json.loads(json.dumps(cluster))
                for level in faster["levels"]:
                    for key in ("bandwidth", "node_bandwidth"):
                        if key in level:
                            level[key] *= times
                seconds = self.simulate(plan, LLAMA, self.write("cluster.json", faster))["step_seconds"]
                if last is not None:
                    self.assertLessEqual(seconds, last * (1 + 1e-9))
                last = seconds

    def test_fewer_key_heads_than_ranks_take_as_long_as_one_for_each(self):
        # Eight key/value heads on 16 ranks: two ranks have a copy of each, with half of its queries. The weights differ by no byte, the
        # step by the sum of the copies' gradients.
        large = {"model_type": "llama", "num_hidden_layers": 8, "hidden_size": 8192, "num_attention_heads": 64, "intermediate_size": 28672,
                 "vocab_size": 128256, "max_position_embeddings": 4096}
        for more in ({}, {"sequence_parallel": True}, {"recompute": "selective", "sequence_parallel": True}):
            eight, sixteen = (self.simulate(plan_of(1, 1, 16, batch=4, micro=1, **more), {**large, "num_key_value_heads": heads}, CLUSTER,
                                            "--dtype", "bf16") for heads in (8, 16))
            self.assertAlmostEqual(eight["step_seconds"] / sixteen["step_seconds"], 1, delta=0.02)
            self.assertEqual(eight["memory"][0]["weights"], sixteen["memory"][0]["weights"])
            self.assertAlmostEqual(eight["memory"][0]["activations"] / sixteen["memory"][0]["activations"], 1, delta=0.001)

    def test_context_cuts_activations_and_work_and_no_weights(self):
        long = {**LLAMA, "hidden_size": 2048, "num_attention_heads": 16, "intermediate_size": 6144, "max_position_embeddings": 16384}
        args = ("--dtype", "bf16", "--optimizer", "adamw", "--sequence", "16384")
        one = self.simulate(plan_of(2, 1, 2, micro=1, batch=4), long, CLUSTER, *args)
        for style in ("ring", "ulysses"):
            two = self.simulate(with_context(2, stage=2, model=2, micro=1, batch=4, context_style=style), long, CLUSTER, *args)
            for before, after in zip(one["memory"], two["memory"]):
                self.assertAlmostEqual(after["activations"] / before["activations"], 1 / 2, delta=0.01)
                self.assertEqual(after["weights"], before["weights"])
                self.assertEqual(after["states"], before["states"])
            self.assertEqual(two["model_flops"], one["model_flops"])
            self.assertAlmostEqual(two["breakdown"]["forward"] / one["breakdown"]["forward"], 1 / 2, delta=0.05)
            self.assertLess(two["step_seconds"], 0.6 * one["step_seconds"])
            self.assertIn("context", two["breakdown"]["collectives"])
        cut, wide = (self.simulate(plan, LLAMA, CLUSTER, *args[:4])["memory"][0]
                     for plan in (with_context(4, data=2, optimizer_sharding=1), plan_of(data=8, optimizer_sharding=1)))
        self.assertEqual(cut["states"], wide["states"])

    def test_more_layers_and_samples_take_longer(self):
        less = self.simulate(plan_of(2, 1, 2))["step_seconds"]
        self.assertGreater(self.simulate(plan_of(2, 1, 2), dict(GPT, n_layer=16))["step_seconds"], 1.5 * less)
        self.assertGreater(self.simulate(plan_of(2, 1, 2, batch=32))["step_seconds"], 1.5 * less)

    def test_recomputation_trades_memory_for_time(self):
        plans = [plan_of(model=2, attention="unfused", recompute=mode) for mode in ("none", "selective", "full")]
        results = [self.simulate(plan, GPT, CLUSTER, "--dtype", "bf16") for plan in plans]
        for less, more in zip(results, results[1:]):
            self.assertGreater(less["peak_bytes"][0], more["peak_bytes"][0])
            self.assertLess(less["step_seconds"], more["step_seconds"])

    def test_pointwise_recomputation_costs_little(self):
        """Norms and activations are a quarter of what a layer saves, and cost less than a third of full recomputation."""
        for model, dropped in ((GPT, 0.25), (LLAMA, 0.25)):
            none, pointwise, full = (self.simulate(plan_of(model=2, recompute=mode), model, CLUSTER, "--dtype", "bf16")
                                     for mode in ("none", "pointwise", "full"))
            saved = lambda one: one["memory"][0]["activations"]
            self.assertLess(saved(pointwise), (1 - dropped) * saved(none))
            self.assertGreater(saved(pointwise), saved(full))
            again = [one["breakdown"]["recompute"] for one in (none, pointwise, full)]
            self.assertEqual(again[0], 0)
            self.assertTrue(0 < again[1] < again[2] / 3, again)

    def test_long_sequences_keep_what_attention_computes(self):
        """All but attention costs as little as the layer's products where attention takes most of the time."""
        for model in (dict(GPT, n_positions=16384), LLAMA):
            for context, style in ((1, "ring"), (2, "ring"), (2, "ulysses")):
                plans = [with_context(context, model=2, batch=2, micro=1, recompute=mode, context_style=style)
                         for mode in ("pointwise", "except-attention", "full")]
                pointwise, kept, full = (self.simulate(plan, model, CLUSTER, "--dtype", "bf16", "--sequence", "16384") for plan in plans)
                again = [one["breakdown"]["recompute"] for one in (pointwise, kept, full)]
                self.assertTrue(again[0] < again[1] < again[2] / 2, again)
                saved = [one["memory"][0]["activations"] for one in (pointwise, kept, full)]
                self.assertTrue(saved[0] > saved[1] > saved[2], saved)
        # Attention that is not one kernel has no result worth keeping.
        kept, full = (self.simulate(plan_of(model=2, attention="unfused", recompute=mode), GPT, CLUSTER, "--dtype", "bf16")
                      for mode in ("except-attention", "full"))
        self.assertEqual(kept["breakdown"], full["breakdown"])
        self.assertEqual(kept["memory"], full["memory"])

    def test_pins_of_what_a_mode_does_change_nothing(self):
        for mode, again in (("pointwise", False), ("except-attention", True), ("full", True)):
            for context, style in ((1, {"sequence_parallel": True}), (2, {"context_style": "ring"}), (2, {"context_style": "ulysses"})):
                with self.subTest(mode=mode, **style):
                    free, pinned = (self.simulate(with_context(context, model=2, recompute=mode, **style, **pins), GPT, CLUSTER, "--dtype", "bf16")
                                    for pins in ({}, {"ops": {"*mlp.c_proj*": {"recompute": again}}}))
                    self.assertEqual(pinned["breakdown"], free["breakdown"])
                    self.assertEqual(pinned["memory"], free["memory"])

    def test_ops_are_recomputed_or_kept_by_themselves(self):
        def simulated(mode, **ops):
            pins = {"ops": {pattern: {"recompute": again} for pattern, again in ops.items()}} if ops else {}
            return self.simulate(plan_of(2, microbatch=1, recompute=mode, **pins), GPT, CLUSTER, "--dtype", "bf16")
        none, full = simulated("none"), simulated("full")
        again, kept = simulated("none", **{"*mlp*": True}), simulated("full", **{"*mlp*": False})
        for some in (again, kept):
            self.assertLess(none["step_seconds"], some["step_seconds"])
            self.assertLess(some["step_seconds"], full["step_seconds"])
            self.assertGreater(none["peak_bytes"][0], some["peak_bytes"][0])
            self.assertGreater(some["peak_bytes"][0], full["peak_bytes"][0])
        # All of a layer that is made again is the layer made again, but for what only lies in other layouts.
        self.assertEqual(simulated("full", **{"*": True})["breakdown"]["recompute"], full["breakdown"]["recompute"])
        self.assertEqual(simulated("full", **{"*": False})["breakdown"]["recompute"], 0)
        self.refuse_plan(["ops", "nowhere", "matches no op"], plan_of(ops={"nowhere": {"recompute": True}}))
        self.refuse_plan(["ops", "recompute", "1"], plan_of(ops={"*": {"recompute": 1}}))
        self.refuse_plan(["ops", "strategy", "recompute"], plan_of(ops={"*": {}}))

    def test_offloading_takes_memory_off_the_device(self):
        kept, away = (self.simulate(plan_of(model=2, recompute=mode), GPT, CLUSTER, "--dtype", "bf16") for mode in ("none", "offload"))
        self.assertLess(away["peak_bytes"][0], kept["peak_bytes"][0])
        self.assertGreater(away["breakdown"]["collectives"]["host"], 0)
        self.assertNotIn("host", kept["breakdown"]["collectives"])
        self.assertEqual(away["breakdown"]["recompute"], 0)
        self.assertAlmostEqual(away["step_seconds"], kept["step_seconds"] + away["breakdown"]["exposed"].get("host", 0), delta=1e-6)

    def test_schedules_and_stages(self):
        self.simulate(plan_of(4, schedule={"name": "interleaved", "chunks": 2}))
        self.simulate(plan_of(4, schedule={"name": "zero-bubble", "variant": "2p"}))
        self.simulate(plan_of(4, schedule={"name": "gpipe"}, recompute=["full", "none", "none", "none"]))
        cut = [{"layers": [0, 4]}, {"layers": [5, 7]}, {"layers": []}]
        result = self.simulate(plan_of(3, stages=cut))
        self.assertEqual(len(result["peak_bytes"]), 3)

    def test_cuts_at_ops(self):
        """A cut behind all of a layer is that between layers; one inside of it moves work, memory and parameters from one stage to the other."""
        for more in ({}, {"recompute": "full"}, {"schedule": {"name": "zero-bubble", "variant": "h1"}}):
            cut = lambda stages: self.simulate(plan_of(2, 2, micro=1, batch=16, stages=stages, **more))
            layers, border = cut([{"layers": [0, 3]}, {"layers": [4, 7]}]), cut([{"until": "transformer.h.3*"}, {}])
            self.assertEqual([border["step_seconds"], border["peak_bytes"], border["breakdown"]], [layers["step_seconds"], layers["peak_bytes"], layers["breakdown"]])
            inside, before = cut([{"until": "transformer.h.3.attn*"}, {}]), cut([{"until": "transformer.h.2*"}, {}])
            for stage, (least, most) in enumerate(((before, layers), (layers, before))):
                self.assertLess(least["peak_bytes"][stage], inside["peak_bytes"][stage])
                self.assertLess(inside["peak_bytes"][stage], most["peak_bytes"][stage])
            self.assertLess(layers["step_seconds"], before["step_seconds"])
        # Behind attention its result and the stream cross, behind the MLP's first product the stream and four times as much.
        message = lambda name: self.simulate(plan_of(2, 2, micro=1, batch=16, overlap=[], stages=[{"until": f"transformer.h.3.{name}"}, {}])
                                             )["breakdown"]["collectives"]["stage"]
        self.assertGreater(message("mlp.c_fc*"), 1.3 * message("attn*"))

    def test_stages_with_meshes_of_their_own(self):
        """Each stage holds what it holds in a pipeline whose stages all have its mesh, and the step takes no longer than two of the
        slower kind and no less than two of the faster one; the message that a gather follows counts."""
        size = ["--dtype", "bf16", "--optimizer", "adamw"]
        more = {"schedule": {"name": "1f1b"}, "recompute": "selective"}
        one, other = {"data": 4, "model": 2}, {"data": 2, "model": 4}
        for sharding in ({"optimizer_sharding": 0}, {"optimizer_sharding": 2, "optimizer_sharding_ranks": 2}):
            alike = [self.simulate(plan_of(2, **mesh, micro=8 // mesh["data"], batch=64, **more, **sharding), GPT, CLUSTER, *size) for mesh in (one, other)]
            for first, last in ((0, 1), (1, 0)):
                stages = [{"layers": [0, 3]}, {"layers": [4, 7], "mesh": (one, other)[last]}]
                own = self.simulate(plan_of(2, **(one, other)[first], micro=8 // (one, other)[first]["data"], batch=64, stages=stages, **more, **sharding),
                                    GPT, CLUSTER, *size)
                self.assertEqual(own["memory"], [alike[first]["memory"][0], alike[last]["memory"][1]])
                times = sorted(plan["step_seconds"] for plan in alike)
                self.assertGreater(own["step_seconds"], times[0])
                self.assertLess(own["step_seconds"], times[1] * 1.02)
                self.assertGreater(own["breakdown"]["collectives"]["stage"], 0)
        self.refuse_plan(["stage 1", "4 ranks", "8"], plan_of(2, 4, 2, stages=[{"layers": [0, 3]}, {"layers": [4, 7], "mesh": {"data": 4}}]))
        self.refuse(1, ["meshes of their own", "kerf simulate"], "plan", self.write("config.json", GPT), "--cluster", CLUSTER,
                    "--constraints", self.write("plan.json", plan_of(2, 4, 2, stages=[{"layers": [0, 3]}, {"layers": [4, 7], "mesh": other}])))

    def test_optimizer_states(self):
        """Bytes of a parameter's states on the device, of 12 in full; and the time of an update, which is the longest on the host."""
        size = ["--dtype", "bf16", "--optimizer", "adamw", "--for", "megatron"]
        plans = {states: self.simulate(plan_of(data=4, optimizer_sharding=1, optimizer_states=states), GPT, CLUSTER, *size)
                 for states in ("device", "remainders", "bf16", "host")}
        full = self.simulate(plan_of(data=4, optimizer_sharding=1), GPT, CLUSTER, *size)
        self.assertTrue(alike(full, plans["device"]))
        states = full["memory"][0]["states"]
        for kept, bytes_of_12 in (("remainders", 10), ("bf16", 6), ("host", 0)):
            self.assertAlmostEqual(plans[kept]["memory"][0]["states"] / states, bytes_of_12 / 12, places=6)
            self.assertEqual(plans[kept]["memory"][0]["weights"], full["memory"][0]["weights"])
        update = {kept: plan["breakdown"]["optimizer"] for kept, plan in plans.items()}
        self.assertEqual(sorted(update, key=update.get), ["bf16", "remainders", "device", "host"])

    def test_exchanges_of_tokens_that_overlap(self):
        """The exchanges of all microbatches but one hide, as far as there are kernels, and a microbatch more is held."""
        def expert(overlap, microbatches):
            wide = {**DEEPSEEK, "hidden_size": 4096, "moe_intermediate_size": 2048}  # its kernels run longer than the host takes to issue them
            plan = {"kerf": 1, "mesh": {"data": 1, "expert": 4}, "global_batch": 16 * microbatches, "microbatch": 4, "overlap": ["gradients", *overlap]}
            return self.simulate(plan, wide, H100, "--dtype", "bf16", "--optimizer", "adamw", "--sequence", "2048", "--for", "megatron")
        waits, hides = expert([], 16), expert(["experts"], 16)
        self.assertLess(hides["step_seconds"], waits["step_seconds"])
        exposed = hides["breakdown"]["exposed"]["expert"] / waits["breakdown"]["exposed"]["expert"]
        self.assertGreaterEqual(exposed, 1 / 16)
        self.assertLess(exposed, 1)
        self.assertGreater(hides["memory"][0]["activations"], 1.5 * waits["memory"][0]["activations"])
        self.assertEqual(expert([], 1)["step_seconds"], expert(["experts"], 1)["step_seconds"])

    def test_families_and_exports(self):
        for config in (LLAMA, {"model_type": "bert", "num_hidden_layers": 4}, {"model_type": "vit", "num_hidden_layers": 4},
                       {"model_type": "t5", "num_layers": 4, "vocab_size": 512}, {"model_type": "falcon", "num_hidden_layers": 4,
                        "hidden_size": 512, "num_attention_heads": 8}, {"model_type": "bloom", "n_layer": 4}, DEEPSEEK,
                       {"model_type": "olmoe", "num_hidden_layers": 4}):
            for plan in (plan_of(), plan_of(2, 2, 2), plan_of(model=2, sequence_parallel=True)):
                self.assertGreater(self.simulate(plan, config)["step_seconds"], 0)
        self.succeed("simulate", file_of("gpt2"), "--cluster", CLUSTER, "--plan",
                     self.write("plan.json", {"kerf": 1, "mesh": {"data": 2, "model": 2}, "microbatch": 2}))

    def test_an_export_is_its_configuration(self):
        config = {"model_type": "gpt2", "n_layer": 2, "n_embd": 64, "n_head": 4, "n_inner": 256, "vocab_size": 97, "n_positions": 64,
                  "attn_pdrop": 0, "resid_pdrop": 0, "embd_pdrop": 0}
        for more in ({}, {"attention": "unfused", "recompute": "full"}, {"sequence_parallel": True}):
            plan = plan_of(data=2, model=2, batch=8, **more)
            wanted = self.simulate(plan, config, CLUSTER, "--sequence", "32")
            done = self.succeed("simulate", file_of("gpt2"), "--cluster", CLUSTER, "--plan", self.write("plan.json", plan), "--json")
            given = json.loads(done.stdout)
            for key in KEYS | {"model_flops"}:
                self.assertTrue(alike(given[key], wanted[key]), f"{key} with {more}: {given[key]} and {wanted[key]}")

    def test_swiglu_keeps_what_megatron_keeps(self):
        # Of a gated MLP of width f: gate, up and their product, not the activated gate; of the rest of a LLaMA layer the inputs of two
        # norms, of the projections and of the MLP (4 h), queries, keys and values (h + 2 g d), and what attention gives (h).
        h, f, s, b = LLAMA["hidden_size"], LLAMA["intermediate_size"], LLAMA["max_position_embeddings"], 2
        grouped = 2 * h * LLAMA["num_key_value_heads"] / LLAMA["num_attention_heads"]
        eight, four = (self.simulate(plan_of(batch=b, micro=b), dict(LLAMA, num_hidden_layers=layers), CLUSTER, "--dtype", "bf16")
                       for layers in (8, 4))
        kept = (eight["memory"][0]["activations"] - four["memory"][0]["activations"]) / 4
        self.assertAlmostEqual(kept / (2 * s * b * (3 * f + 4 * h + h + grouped + h)), 1, delta=0.02)

    def test_f8_keeps_factors_in_8_bits(self):
        # bf16 keeps the inputs of three projections (h, h, 4 h) and what attention gives (h) with 2 bytes an element. f8 keeps the former with
        # 1 byte, and the latter in both types, because the gradient of attention reads it too: 5 h bytes less for each token.
        h, s, b = GPT["n_embd"], GPT["n_positions"], 2

        def layer(dtype, **more):
            eight, four = (self.simulate(plan_of(batch=b, micro=b, **more), dict(GPT, n_layer=layers), H100, "--dtype", dtype) for layers in (8, 4))
            return (eight["memory"][0]["activations"] - four["memory"][0]["activations"]) / 4
        self.assertAlmostEqual((layer("bf16") - layer("f8")) / (5 * s * b * h), 1, delta=0.01)
        self.assertEqual(layer("f8", recompute="full"), layer("bf16", recompute="full"))

    def test_f8_is_faster_where_products_are_large(self):
        # Products of 8-bit factors are computed at twice the rate, but their factors have to be made.
        def seconds(dtype, width):
            config = dict(GPT, n_layer=4, n_embd=width, n_inner=4 * width, vocab_size=1024)
            return self.simulate(plan_of(batch=8, micro=8), config, H100, "--dtype", dtype)["breakdown"]["forward"]
        self.assertLess(seconds("f8", 4096), seconds("bf16", 4096))
        self.assertGreater(seconds("f8", 4096), seconds("bf16", 4096) / 2)
        self.assertGreater(seconds("f8", 256), seconds("bf16", 256))

    def test_gelu_is_a_part_of_the_product_in_kerfs_runs_on_gpus(self):
        def seconds(activation, *more):
            return self.simulate(plan_of(), dict(GPT, activation_function=activation), H100, "--dtype", "bf16", *more)["step_seconds"]
        self.assertLess(seconds("gelu_new"), seconds("gelu"))  # cuBLASLt has the form with tanh only
        self.assertEqual(seconds("gelu_new", "--for", "megatron"), seconds("gelu", "--for", "megatron"))

    def test_does_not_fit(self):
        config = dict(GPT, n_embd=8192, n_head=64, n_inner=32768, n_layer=48)
        result = self.simulate(plan_of(), config, CLUSTER, "--dtype", "bf16", "--optimizer", "adamw")
        self.assertFalse(result["fits"])

    def test_defaults(self):
        done = self.succeed("simulate", self.write("config.json", GPT), "--cluster", CLUSTER, "--ranks", "8", "--json")
        self.assertEqual(json.loads(done.stdout)["ranks"], 8)
        text = self.succeed("simulate", self.write("config.json", GPT), "--cluster", CLUSTER, "--ranks", "8").stdout
        self.assertIn("tokens/s", text)

    def test_trace(self):
        self.simulate(plan_of(2, 1, 2), GPT, CLUSTER, "--trace", self.path("trace.json"))
        events = json.loads(self.read("trace.json"))
        events = events["traceEvents"] if isinstance(events, dict) else events
        self.assertGreater(len(events), 16)

    def test_experts_over_their_axis(self):
        """Eight experts on eight ranks: alike steps of one data axis hold all of them. Where data is pinned to 1, a search cuts experts."""
        config = {"model_type": "mixtral", "num_hidden_layers": 2, "hidden_size": 512, "num_attention_heads": 8, "intermediate_size": 1024,
                  "vocab_size": 1000}
        path, size = self.write("mixtral.json", config), ["--cluster", CLUSTER, "--global-batch", 64, "--sequence", 1024, "--dtype", "bf16", "--json"]

        def simulated(mesh):
            plan = {"kerf": 1, "mesh": mesh, "microbatch": 1}
            return json.loads(self.succeed("simulate", path, "--plan", self.write("plan.json", plan), *size).stdout)
        data, expert = simulated({"data": 8}), simulated({"expert": 8, "data": 1})
        self.assertLess(expert["peak_bytes"][0], data["peak_bytes"][0])
        self.assertGreater(expert["breakdown"]["collectives"]["expert"], 0)
        self.assertEqual(data["model_flops"], expert["model_flops"])
        pins = self.write("pins.json", {"kerf": 1, "mesh": {"stage": 1, "data": 1, "model": 1}})
        found = json.loads(self.succeed("plan", path, *size, "--ranks", 8, "--constraints", pins).stdout)
        self.assertEqual(found["mesh"]["expert"], 8)
        plan = self.write("plan.json", {"kerf": 1, "mesh": {"expert": 3, "data": 1}, "global_batch": 3})
        self.refuse(1, ["mesh.expert", "3", "8 experts"], "simulate", path, "--cluster", CLUSTER, "--plan", plan)

    def test_layers_of_two_kinds(self):
        """Two stages: a layer without experts and one with them, and two with experts. A search of whole plans cuts there too."""
        result = self.simulate(plan_of(2, stages=[{"layers": [0, 1]}, {"layers": [2, 3]}]), DEEPSEEK)
        first, second = ({name.split("/")[0] for name in stage["largest"]} for stage in result["memory"])
        self.assertTrue({"dense_layer", "layer"} <= first, first)
        self.assertTrue("layer" in second and "dense_layer" not in second, second)
        path, size = self.write("deepseek.json", DEEPSEEK), ["--cluster", CLUSTER, "--global-batch", 16, "--sequence", 128, "--json"]
        pins = self.write("pins.json", {"kerf": 1, "mesh": {"stage": 2, "data": 4, "expert": 1, "model": 1}})
        plan = json.loads(self.succeed("plan", path, *size, "--ranks", 8, "--constraints", pins).stdout)
        predicted = json.loads(self.succeed("simulate", path, *size, "--plan", self.write("found.json", plan)).stdout)
        self.assertAlmostEqual(predicted["step_seconds"] / plan["predicted"]["step_seconds"], 1, places=9)

    def test_refused(self):
        self.refuse_plan(["mesh.context", "96 chunks", "256"], {"kerf": 1, "mesh": {"context": 48, "data": 1}})
        self.refuse_plan(["context_style", "spiral", "ring"], plan_of(context_style="spiral"))
        self.refuse_plan(["unfused", "context 2"], with_context(2, attention="unfused"))
        self.refuse_plan(["ulysses", "8 key/value heads", "16 ranks"], with_context(8, model=2, context_style="ulysses"))
        self.refuse_plan(["mesh.rows", "4"], {"kerf": 1, "mesh": {"rows": 4}})
        self.refuse_plan(["128", "256"], plan_of(2, 16, 8, batch=64))
        self.refuse_plan(["global_batch 15", "2"], plan_of(data=2, batch=15))
        self.refuse_plan(["microbatch 3", "16"], plan_of(micro=3))
        self.refuse_plan(["schedule.name", "2f2b"], plan_of(2, schedule={"name": "2f2b"}))
        self.refuse_plan(["schedule", "depth"], plan_of(2, schedule={"depth": 2}))
        self.refuse_plan(["chunks", "one stage"], plan_of(schedule={"name": "interleaved", "chunks": 2}))
        self.refuse_plan(["overlap", "everything"], plan_of(overlap=["everything"]))
        self.refuse_plan(["recompute", "most"], plan_of(recompute="most"))
        self.refuse_plan(["recompute", "3", "2"], plan_of(2, recompute=["full", "none", "none"]))
        self.refuse_plan(["optimizer_sharding", "4"], plan_of(optimizer_sharding=4))
        self.refuse_plan(["attention"], plan_of(attention="flash"))
        self.refuse_plan(["optimizer_states", "disk"], plan_of(optimizer_states="disk"))
        self.refuse_plan(["optimizer_states is host", "optimizer_sharding is 0"], plan_of(data=2, optimizer_states="host"))
        states = plan_of(data=2, optimizer_sharding=1, optimizer_states="host")
        self.refuse_plan(["optimizer_states is host", "--dtype is f32"], states, "--optimizer", "adamw")
        self.refuse_plan(["optimizer_states is host", "keeps 0 for each element"], states, "--dtype", "bf16")
        self.refuse(1, ["optimizer_states is host", "--for megatron"], "plan", self.write("config.json", GPT), "--cluster", CLUSTER, "--dtype", "bf16",
                    "--optimizer", "adamw", "--constraints", self.write("plan.json", states))
        self.refuse_plan(["8 layers", "16"], plan_of(16))
        self.refuse_plan(["stages", "7", "8"], plan_of(2, stages=[{"layers": [0, 3]}, {"layers": [4, 6]}]))
        self.refuse_plan(["stage 1", "layer 5", "layer 4"], plan_of(2, stages=[{"layers": [0, 3]}, {"layers": [5, 7]}]))
        self.refuse_plan(["stages[0]", "mesh"], plan_of(2, stages=[{"layers": [0, 3], "mesh": {}}, {"layers": [4, 7]}]))
        c_fc = "transformer.h.*.mlp.c_fc/dot_general"
        self.refuse_plan(["foo", "no op"], plan_of(ops={"foo": {"strategy": {}}}))
        self.refuse_plan([c_fc, "zz", "rule"], plan_of(ops={c_fc: {"strategy": {"zz": ["model"]}}}))
        self.refuse_plan([c_fc, "data", "batch", "n"], plan_of(ops={c_fc: {"strategy": {"n": ["data"]}}}))
        self.refuse_plan([c_fc, "stage"], plan_of(ops={c_fc: {"strategy": {"n": ["stage"]}}}))
        self.refuse_plan(["wte", "data"], plan_of(arguments={"*wte*": [["data"], []]}))
        self.refuse_plan(["16", "--ranks", "8"], plan_of(2, 1, 8), "--ranks", "8")
        self.refuse_plan(["gradient_dtype", "f16"], plan_of(gradient_dtype="f16"))

    def test_pins_of_ops(self):
        """Ops that nothing cuts take what they take without the axis; pins that say what the layout does change nothing."""
        free, alone = self.simulate(plan_of(1, 2, 2, micro=2)), self.simulate(plan_of(1, 2, 1, micro=2))
        uncut = self.simulate(plan_of(1, 2, 2, micro=2, ops={"*": {"strategy": {}}}))
        self.assertEqual((uncut["step_seconds"], uncut["peak_bytes"]), (alone["step_seconds"], alone["peak_bytes"]))
        self.assertNotIn("model", uncut["breakdown"]["collectives"])
        megatron = {"transformer.h.*.mlp.c_fc/dot_general": {"strategy": {"n": ["model"], "m0": ["data"]}},
                    "transformer.h.*.mlp.c_proj/dot_general": {"strategy": {"k": ["model"]}}}
        self.assertEqual(self.simulate(plan_of(1, 2, 2, micro=2, ops=megatron))["step_seconds"], free["step_seconds"])
        some = self.simulate(plan_of(1, 2, 2, micro=2, ops={"transformer.h.*.mlp*/*": {"strategy": {}}}))
        self.assertGreater(some["peak_bytes"][0], free["peak_bytes"][0])
        self.assertLess(some["peak_bytes"][0], alone["peak_bytes"][0])
        self.assertLess(some["breakdown"]["collectives"]["model"], free["breakdown"]["collectives"]["model"])
        # Five and eight times the samples: a layout is decided once and kept.
        for micro in (5, 8):
            self.assertEqual(self.simulate(plan_of(1, 1, 2, batch=40, micro=micro, ops={"*": {"strategy": {}}}))["step_seconds"],
                             self.simulate(plan_of(1, 1, 1, batch=40, micro=micro))["step_seconds"])

    def test_mixed_clusters(self):
        config = dict(GPT, n_layer=24, n_embd=4096, n_head=32, n_inner=16384, n_positions=1024)
        plan = plan_of(4, 4, 8, batch=64, micro=1)

        def simulate(plan, cluster=MIXED):
            return self.simulate(plan, config, cluster, "--dtype", "f16", "--optimizer", "adamw")

        result = simulate(plan)
        self.assertEqual([memory["limit_bytes"] >> 30 for memory in result["memory"]], [76, 76, 30, 30])  # 5 % stay free
        # 24 layers by 312, 312, 125, 125 TFLOP/s are 9, 9, 3, 3; the stages in the middle have nothing but layers.
        weights = [memory["weights"] for memory in result["memory"]]
        self.assertEqual(weights[1], 3 * weights[2])
        even = simulate(dict(plan, stages=[{"layers": [first, first + 5]} for first in (0, 6, 12, 18)]))
        self.assertGreater(even["step_seconds"], 1.2 * result["step_seconds"])
        with open(MIXED) as file:
            cluster = json.load(file)
        peaks = [group["device"]["peak_flops"]["f16"] for group in cluster["groups"]]
        utilization = result["model_flops"] / result["step_seconds"] / (64 * sum(peaks))
        self.assertAlmostEqual(result["model_flops_utilization"] / utilization, 1, delta=1e-9)
        # A faster second group, and then the same devices everywhere: what joins the groups is what joins nodes.
        fixed = dict(plan, stages=[{"layers": [first, first + 5]} for first in (0, 6, 12, 18)])
        cluster["groups"][1] = cluster["groups"][0]
        faster = simulate(fixed, self.write("cluster.json", cluster))["step_seconds"]
        self.assertLess(faster, even["step_seconds"])
        cluster["between"] = [{key: cluster["groups"][0]["levels"][1][key] for key in ("bandwidth", "latency", "node_bandwidth")}]
        halves = simulate(fixed, self.write("cluster.json", cluster))["step_seconds"]
        self.assertLess(halves, faster)
        self.assertAlmostEqual(halves / simulate(fixed, CLUSTER)["step_seconds"], 1, delta=1e-9)

    def test_mixed_clusters_are_refused_where_ranks_must_be_alike(self):
        config = self.write("config.json", GPT)
        for words, plan in ((["mesh.stage is 1 on 128 ranks", "64 A100", "64 V100", "multiple of 2"], plan_of(1, 16, 8, batch=64)),
                            (["stage 2 has ranks 48 to 71, 16 of them in group 0 and 8"], plan_of(4, 3, 8, batch=48)),
                            (["order begins with \"data\"", "\"stage\" must be the first"],
                             plan_of(4, 4, 8, batch=64, order=["data", "stage", "context", "expert", "model"]))):
            self.refuse(1, words, "simulate", config, "--cluster", MIXED, "--plan", self.write("plan.json", plan))
        self.assertEqual(self.simulate(plan_of(1, 8, 8, batch=64), GPT, MIXED)["ranks"], 64)
        self.refuse(1, ["2 groups", "64 A100", "--ranks 64"], "plan", file_of("mlp"), "--cluster", MIXED, "--search", "placement")
        self.refuse(1, ["2 groups", "64 A100", "--ranks 64"], "compile", file_of("mlp"), "--cluster", MIXED, "-o", self.path("package"))

    def test_nesting_without_end_is_refused(self):
        deep = []
        for _ in range(150):
            deep = [deep]
        self.refuse_plan(["nests", "152", "100"], plan_of(something=deep))
        config = self.write("deep.json", dict(GPT, n_layer=deep))
        self.refuse(1, ["nesting", "152", "100"], "simulate", config, "--cluster", CLUSTER)

    def test_what_is_only_simulated_is_refused_by_compile(self):
        config = self.write("config.json", GPT)
        plan = plan_of(batch=2, predicted={"step_seconds": 1.0}, attention="unfused", recompute="full")
        self.refuse(1, ["attention", "can only be simulated", "fused"], "compile", config, "--plan", self.write("plan.json", plan), "--global-batch", "2", "-o",
                    self.path("package"))
        plan = plan_of(data=2, batch=2, micro=1, optimizer_sharding=1, optimizer_states="remainders")
        self.refuse(1, ["optimizer_states", "can only be simulated and exported"], "compile", config, "--plan", self.write("plan.json", plan), "--global-batch",
                    "2", "-o", self.path("package"))
        # The search of operators' strategies does not choose how a step is executed.
        for more, words in (({"recompute": "full"}, ["recompute"]), ({"optimizer_sharding": 1}, ["optimizer_sharding"]),
                            ({"mesh": {"stage": 2}}, ["mesh.stage is 2"]), ({"microbatch": 1, "global_batch": 2}, ["microbatch 1", "2 samples"])):
            self.refuse(1, [*words, "--search whole"], "compile", config, "--constraints", self.write("plan.json", {"kerf": 1, **more}), "--global-batch", "2",
                        "--search", "placement", "-o", self.path("package"))


if __name__ == "__main__":
    main()
