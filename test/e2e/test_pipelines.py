#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Plans with stages, microbatches, recomputation and sharded optimizers give PyTorch's losses, and one another's.

By default a choice of plans on GPT-2; `--all`: every plan on GPT-2 and LLaMA (the other models: test_pipelines_of_models.py).
"""
import itertools
import json
import os
import random
import struct
import sys
import unittest

from images import small_batches, small_net
from support import (FLOAT, INT64, ROOT, SHARED, SHARED_EXPORTS, KerfTest, file_of, golden_of, losses_of, main, onnx_model, onnx_node, onnx_tensor,
                     onnx_value, optimizer_flags, write_npz)

ALL = "--all" in sys.argv
if ALL:
    sys.argv.remove("--all")

TOLERANCE = {"f32": 2e-4, "f64": 1e-6}  # relative, to PyTorch's float64 losses
PLANS_AGREE = 1e-10                     # relative, between any two plans in f64


def plan(stage=1, data=1, model=1, context=1, **more):
    return {"kerf": 1, "mesh": {"stage": stage, "data": data, "context": context, "model": model}, **more}


def schedule(name, **more):
    return {"schedule": {"name": name, **more}}


# Two layers: with four parts the first and the last hold only what stands before and behind the layers.
FOUR = {"stages": [{"layers": []}, {"layers": [0, 0]}, {"layers": [1, 1]}, {"layers": []}]}


def until(*names):
    """Cuts at ops; "*" stands for what the model calls its layers."""
    return {"stages": [{"until": name} for name in names] + [{}]}


def meshes(*of_stages, cut=({"layers": [0, 0]}, {"layers": [1, 1]})):
    """The mesh of each stage, (data, model) or more by name; later chunks say nothing of it."""
    sizes = [mesh if isinstance(mesh, dict) else dict(zip(("data", "model"), mesh)) for mesh in of_stages]
    return {"mesh": {"stage": len(sizes)}, "stages": [{**entry, **({"mesh": sizes[i]} if i < len(sizes) else {})} for i, entry in enumerate(cut)]}


def of_stages(*args, cut=({"layers": [0, 0]}, {"layers": [1, 1]}), **more):
    return {"kerf": 1, **meshes(*args, cut=cut), **more}


PLANS = {
    "microbatches": plan(microbatch=2),
    "microbatches, data 2": plan(data=2, microbatch=1),
    "microbatches, model 2": plan(model=2, microbatch=4),
    "sequence parallel": plan(model=2, sequence_parallel=True),
    "solved": plan(model=2, microbatch=4, layout="solved"),
    "products in turns": plan(model=2, microbatch=4, overlap=["gradients", "products"]),
    "products in turns, 3-D, zero-bubble, recompute, sequence parallel": plan(stage=2, data=2, model=2, microbatch=2, overlap=["tensor", "products"],
                                                                             recompute="full", sequence_parallel=True, **schedule("zero-bubble")),
    "recompute full": plan(recompute="full"),
    "recompute selective": plan(data=2, recompute="selective"),
    "recompute pointwise": plan(data=2, recompute="pointwise"),
    "3-D, zero-bubble, zero 1, sequence parallel, pointwise and full": plan(stage=2, data=2, model=2, microbatch=1, optimizer_sharding=1,
                                                                            sequence_parallel=True, recompute={"0": "pointwise", "1": "full"},
                                                                            **schedule("zero-bubble", variant="h1")),
    "recompute except-attention": plan(data=2, recompute="except-attention"),
    "ring, 1f1b, except-attention": plan(stage=2, context=2, microbatch=1, recompute="except-attention"),
    "ulysses, zero-bubble, except-attention, sequence parallel": plan(stage=2, context=2, model=2, microbatch=1, context_style="ulysses",
                                                                      sequence_parallel=True, recompute="except-attention",
                                                                      **schedule("zero-bubble", variant="h1")),
    "recompute ops, except-attention": plan(data=2, recompute={"0": "except-attention", "1": "pointwise"},
                                            ops={"*attn*c_attn*": {"recompute": False}}),
    "ring, 1f1b, pointwise, ops": plan(stage=2, context=2, microbatch=1, recompute="pointwise", ops={"*ln*": {"recompute": False}}),
    "recompute ops": plan(data=2, model=2, microbatch=2, recompute="full", ops={"*attn*": {"recompute": False}}),
    "recompute ops, none": plan(stage=2, microbatch=2, ops={"*mlp*/dot_general*": {"recompute": False}, "*mlp*": {"recompute": True}}),
    "offload": plan(model=2, microbatch=4, recompute="offload"),
    "offload some, zero-bubble": plan(stage=2, microbatch=1, recompute={"0": "offload", "1": "selective"}, **schedule("zero-bubble", variant="2p")),
    "offload, 1f1b, ring, zero 2": plan(stage=2, context=2, microbatch=1, recompute="offload", optimizer_sharding=2),
    "zero 1": plan(data=2, optimizer_sharding=1),
    "zero 2": plan(data=2, microbatch=2, optimizer_sharding=2),
    "zero 3": plan(data=2, microbatch=2, optimizer_sharding=3),
    "zero 1 on 4": plan(data=4, microbatch=1, optimizer_sharding=1),
    "zero 1 on 2 of 4": plan(data=4, microbatch=1, optimizer_sharding=1, optimizer_sharding_ranks=2),
    "zero 2 on 2 of 4, a part of context": plan(context=4, microbatch=2, optimizer_sharding=2, optimizer_sharding_ranks=2),
    "zero 2 on 4 of 8": plan(data=4, context=2, microbatch=1, optimizer_sharding=2, optimizer_sharding_ranks=4,
                                                    order=["context", "data"]),
    "zero 3 on 2 of 4, 1f1b, recompute": plan(stage=2, data=4, microbatch=1, optimizer_sharding=3, optimizer_sharding_ranks=2, recompute="full"),
    "zero 3, model 2": plan(data=2, model=2, optimizer_sharding=3, recompute="full"),
    "one microbatch, 2 stages": plan(stage=2, microbatch=8),
    "gpipe": plan(stage=2, microbatch=2, **schedule("gpipe")),
    "1f1b": plan(stage=2, microbatch=1, **schedule("1f1b")),
    "1f1b, 4 stages": plan(stage=4, microbatch=1, **FOUR),
    "interleaved": plan(stage=2, microbatch=2, **schedule("interleaved", chunks=2), **FOUR),
    "zero-bubble h1": plan(stage=2, microbatch=2, **schedule("zero-bubble", variant="h1")),
    "zero-bubble 2p": plan(stage=2, microbatch=1, **schedule("zero-bubble", variant="2p")),
    "zero-bubble 2p, few in flight": plan(stage=2, microbatch=1, **schedule("zero-bubble", variant="2p", in_flight=[2, 1])),
    "zero-bubble by-memory": plan(stage=4, microbatch=1, **schedule("zero-bubble", variant="by-memory")),
    "ring": plan(context=4, recompute="selective"),
    "ring, zero 3, sequence parallel": plan(context=2, data=2, model=2, microbatch=2, optimizer_sharding=3, sequence_parallel=True),
    "ring, 1f1b, recompute": plan(stage=2, context=2, model=2, microbatch=1, recompute="full"),
    "ulysses": plan(context=2, microbatch=4, context_style="ulysses"),
    "3-D": plan(stage=2, data=2, model=2, microbatch=1),
    "3-D, solved, zero 1": plan(stage=2, data=2, model=2, microbatch=1, recompute="full", optimizer_sharding=1, layout="solved"),
    "3-D, recompute, zero 1": plan(stage=2, data=2, model=2, microbatch=1, recompute="full", optimizer_sharding=1),
    "3-D, zero-bubble, zero 2, sequence parallel": plan(stage=2, data=2, model=2, microbatch=1, optimizer_sharding=2, sequence_parallel=True,
                                                        **schedule("zero-bubble")),
    "3-D, gpipe, zero 3, selective": plan(stage=2, data=2, model=2, microbatch=1, optimizer_sharding=3, recompute="selective", **schedule("gpipe")),
    "cut in a layer": plan(stage=2, microbatch=2, **until("*.0.*attn*")),
    "cut in a layer, 3-D, recompute, zero 3": plan(stage=2, data=2, model=2, microbatch=1, recompute="full", optimizer_sharding=3,
                                                   **until("*.1.*attn*")),
    "cuts in two layers and in the head, zero-bubble": plan(stage=4, microbatch=2, **until("*.0.*attn*", "*.1.mlp*", "*lm_head*"),
                                                            **schedule("zero-bubble", variant="h1")),
    "two cuts in a layer, interleaved, sequence parallel": plan(stage=2, model=2, microbatch=2, sequence_parallel=True, recompute="selective",
                                                                **until("*.0.*attn*", "*.0.mlp*", "*.1.*attn*"), **schedule("interleaved", chunks=2)),
    "meshes of stages": of_stages((2, 1), (1, 2), microbatch=1),
    "meshes of stages, one microbatch": of_stages((1, 4), (4, 1), microbatch=8),
    "meshes of stages, recompute, zero 1": of_stages((4, 1), (2, 2), microbatch=1, recompute="full", optimizer_sharding=1),
    "meshes of stages, zero 3 on 2, sequence parallel": of_stages((4, 1), (2, 2), microbatch=1, optimizer_sharding=3, optimizer_sharding_ranks=2,
                                                                  sequence_parallel=True),
    "meshes of stages, zero 2, zero-bubble, solved": of_stages((1, 4), (2, 2), microbatch=2, optimizer_sharding=2, layout="solved",
                                                               **schedule("zero-bubble", variant="h1")),
    "meshes of stages, interleaved": of_stages((2, 2), (4, 1), cut=FOUR["stages"], microbatch=2, **schedule("interleaved", chunks=2)),
    "meshes of stages, cut in a layer, ring": of_stages({"data": 2, "context": 2}, {"context": 4}, {"model": 4}, microbatch=1, recompute="selective",
                                                        cut=until("*.0.*attn*", "*.1.mlp*")["stages"]),
    "meshes of stages, stages inside, offload": of_stages({"data": 2, "context": 2}, {"data": 2, "model": 2}, order=["model", "data", "context", "stage"],
                                                          context_style="ulysses", microbatch=4, recompute="offload"),
}
FEW = ["microbatches, data 2", "products in turns", "products in turns, 3-D, zero-bubble, recompute, sequence parallel", "offload, 1f1b, ring, zero 2", "ring", "ring, zero 3, sequence parallel", "recompute ops",
       "recompute ops, none", "3-D, solved, zero 1", "zero 3", "zero 2 on 2 of 4, a part of context", "zero 3 on 2 of 4, 1f1b, recompute", "1f1b, 4 stages", "interleaved", "3-D, zero-bubble, zero 2, sequence parallel", "cut in a layer, 3-D, recompute, zero 3",
       "meshes of stages, one microbatch", "meshes of stages, zero 3 on 2, sequence parallel", "meshes of stages, zero 2, zero-bubble, solved",
       "meshes of stages, interleaved", "meshes of stages, cut in a layer, ring", "cuts in two layers and in the head, zero-bubble", "two cuts in a layer, interleaved, sequence parallel"]


class Pipelines(KerfTest):
    def train(self, model, optimizer, dtype, name, *more):
        golden = golden_of(model)
        step, run = optimizer_flags(golden, optimizer)
        self.succeed("train", file_of(model), "--data", file_of(model, "batches.npz"), "--steps", golden["steps"], "--dtype", dtype,
                     "--plan", self.write("plan.json", PLANS[name]), "--log", self.path("log"), *step, *run, *more)
        losses = losses_of(self.path("log"))
        self.close(losses, golden["losses"][optimizer]["float64"], TOLERANCE[dtype], f"{model} {optimizer} {dtype}, {name}")
        return losses

    def all_plans(self, model, optimizer, dtype):
        reached = {name: self.train(model, optimizer, dtype, name) for name in (PLANS if ALL else FEW)}
        if dtype == "f64":
            for (a, first), (b, second) in itertools.combinations(reached.items(), 2):
                self.close(second, first, PLANS_AGREE, f"{model} {optimizer}: plans {a} and {b}")

    def agree(self, model, data, plans, *more):
        """Losses of these plans are those of one rank."""
        reached = {}
        for name, given in {"one rank": {"kerf": 1, "mesh": {"data": 1, "model": 1}, "schedule": {"name": "1f1b"}}, **plans}.items():
            self.succeed("train", model, "--data", data, "--steps", 3, "--dtype", "f64", "--lr", "0.1", "--plan", self.write("plan.json", given),
                         "--log", self.path("log"), *more)
            reached[name] = losses_of(self.path("log"))
            self.close(reached[name], reached["one rank"], PLANS_AGREE, f"{model}, {name}")
        self.assertNotEqual(reached["one rank"][0], reached["one rank"][2])
        return reached

    def test_models_without_layers(self):
        """A convolutional net with a residual over two cuts, also with statistics of the batch, and a perceptron."""
        data = small_batches(self.path("data.npz"))
        cuts = until("node_maxpool_*", "node_leakyrelu_*", "node_averagepool_*")
        net = self.write("net.onnx", small_net())
        self.agree(net, data, {"4 stages": plan(stage=4, microbatch=1, **cuts),
                               "recomputed, data 2": plan(stage=2, data=2, microbatch=1, recompute="full", optimizer_sharding=2, **until("node_leakyrelu_*")),
                               "interleaved, model 2": plan(stage=2, model=2, microbatch=3, **cuts, **schedule("interleaved", chunks=2)),
                               "zero-bubble": plan(stage=4, microbatch=2, **cuts, **schedule("zero-bubble")),
                               "meshes": of_stages((2, 1), (1, 2), microbatch=1, cut=until("node_leakyrelu_*")["stages"], optimizer_sharding=1)})
        self.agree(self.write("net.onnx", small_net(training=True)), data, {"statistics": plan(stage=4, microbatch=6, **cuts)})
        self.refuse(1, ["needs a sum over the whole batch"], "train", net, "--data", data, "--plan",
                    self.write("plan.json", plan(stage=4, microbatch=1, **cuts)))
        mlp = file_of("mlp")
        self.agree(mlp, file_of("mlp", "batches.npz"), {"3 stages": plan(stage=3, microbatch=1, **until("*gelu*", "mid/*"))})

    def test_a_penalty_of_parameters_alone(self):
        """Its gradient is the same in every microbatch, also where there is only one."""
        nodes = [onnx_node("MatMul", ["x", "w"], ["h"], "node_product"), onnx_node("Mul", ["h", "h"], ["y"], "node_square"),
                 onnx_node("SoftmaxCrossEntropyLoss", ["y", "labels"], ["m"], "node_loss"), onnx_node("Mul", ["v", "v"], ["q"], "node_v"),
                 onnx_node("Squeeze", ["q"], ["s"], "node_squeeze"), onnx_node("Add", ["m", "s"], ["loss"], "node_sum")]
        tensors = [onnx_tensor("w", [4, 3], [0.1 * i for i in range(12)]), onnx_tensor("v", [1], [0.7])]
        model = self.write("penalty.onnx", onnx_model(nodes, tensors, [onnx_value("x", FLOAT, [8, 4]), onnx_value("labels", INT64, [8])],
                                                      [onnx_value("loss", FLOAT, [])]))
        rnd = random.Random(3)
        data = write_npz(self.path("penalty.npz"), {
            "x": ("<f4", [3, 8, 4], struct.pack("<96f", *[rnd.random() for _ in range(96)])),
            "labels": ("<i8", [3, 8], struct.pack("<24q", *[rnd.randrange(3) for _ in range(24)]))})
        cut = until("node_square")
        self.agree(model, data, {"one microbatch": plan(stage=2, microbatch=8, **cut), "four": plan(stage=2, microbatch=2, **cut),
                                 "zero-bubble": plan(stage=2, data=2, microbatch=2, optimizer_sharding=2, **cut, **schedule("zero-bubble"))})

    def test_steps_that_need_whole_groups(self):
        """Statistics of a batch and a product of two sums over it (experts' auxiliary loss) take no microbatches: search and simulator know as training does."""
        data = small_batches(self.path("data.npz"))
        models = {self.write("net.onnx", small_net(training=True)): (data, 6)}
        if "mixtral" in SHARED_EXPORTS:
            models[file_of("mixtral")] = (file_of("mixtral", "batches.npz"), 4)
        for model, (data, batch) in models.items():
            words = ["can't be cut into microbatches; set microbatch to the samples of a model replica"]
            cut = self.write("cut.json", plan(data=2, microbatch=1))
            refused = self.refuse(1, words, "train", model, "--data", data, "--steps", 1, "--plan", cut)
            said = refused.stderr.removeprefix("error: ").strip()
            self.refuse(1, [cut, said], "simulate", model, "--plan", cut)
            self.refuse(1, ["microbatch is 1", said], "plan", model, "--search", "whole", "--ranks", 2, "--constraints", cut)
            self.succeed("simulate", model, "--plan", self.write("whole.json", plan(data=2, microbatch=batch // 2)))
            for mesh in ({"stage": 1}, {"data": 1}):
                self.succeed("plan", model, "--search", "whole", "--ranks", 2, "-o", self.path("plan.json"), "--constraints", self.write("mesh.json", {"kerf": 1, "mesh": mesh}))
                with open(self.path("plan.json")) as file:
                    found = json.load(file)
                self.assertEqual(found["microbatch"] * found["mesh"]["data"] * found["mesh"]["expert"], batch)
                self.succeed("train", model, "--data", data, "--steps", 1, "--ranks", 2, "--plan", self.path("plan.json"))

    @unittest.skipUnless({"resnet", "vit"} <= set(SHARED_EXPORTS), f"no models in {SHARED}")
    def test_gradients_summed_in_pieces(self):
        """A gradient goes on as a sum over microbatches through what a piece, or a layer, does with it: a class token's reshape, a norm's division."""
        resnet, vit = file_of("resnet"), file_of("vit")
        cut = until("resnet.encoder.stages.1.layers.0.layer.0.activation/maximum")
        self.agree(resnet, file_of("resnet", "batches.npz"),
                   {"in a layer": plan(stage=2, microbatch=4, **cut), "data 2, zero 2": plan(stage=2, data=2, microbatch=1, optimizer_sharding=2, **cut),
                    "in the head, model 2": plan(stage=2, model=2, microbatch=4, **until("resnet.pooler/divide"))})
        token = {"stage 2": plan(stage=2, microbatch=2, **until("vit.embeddings.patch_embeddings.projection/add")),
                 "data 2, recompute": plan(stage=2, data=2, microbatch=1, recompute="full", **until("vit.embeddings.patch_embeddings.projection/add"))}
        self.agree(vit, file_of("vit", "batches.npz"), token)
        self.agree(vit, file_of("vit", "batches.npz"), token, "--frozen", "*projection.weight", "--frozen", "*layernorm_before*")

    def test_an_encoder_and_a_decoder(self):
        """What the encoder leaves goes to every part that decodes; both share one table, at their ends and in the head."""
        folder = os.path.join(ROOT, "test", "models", "families", "t5")
        sizes = ["--global-batch", 3, "--sequence", 12, "--optimizer", "adamw", "--clip-norm", 0.5]
        self.agree(os.path.join(folder, "config.json"), os.path.join(folder, "batches.npz"),
                   {"in both": plan(stage=3, microbatch=1, **until("encoder.block.1.layer.0*", "decoder.block.1.layer.1*")),
                    "meshes": of_stages((3, 1), (1, 3), (3, 1), microbatch=1, recompute="full",
                                        cut=until("encoder.block.1.layer.0*", "decoder.block.1.layer.1*")["stages"]),
                    "data 3": plan(stage=2, data=3, microbatch=1, optimizer_sharding=1, recompute="full", **until("decoder.block.0.layer.0*"))}, *sizes)

    def test_sharding_over_a_part_of_the_replicas(self):
        """A gradient is scattered over neighbours for each microbatch, its piece summed over the others once; gathers stay between neighbours."""
        config = self.write("config.json", {"model_type": "gpt2", "n_layer": 2, "n_head": 4, "n_embd": 32, "n_positions": 16, "vocab_size": 64})
        states = {}
        for level, ranks in ((2, 1), (2, 2), (2, 4), (3, 2)):
            given = plan(data=4, microbatch=1, optimizer_sharding=level, optimizer_sharding_ranks=ranks)
            done = self.succeed("compile", config, "--global-batch", 8, "--sequence", 16, "--optimizer", "adamw", "--json", "--plan",
                                self.write("plan.json", given), "-o", self.path("program"))
            states[level, ranks] = json.loads(done.stdout)["memory_bytes"]["states"]
            with open(self.path("program/program.json")) as file:
                program = json.load(file)
            if ranks != 2:
                continue
            self.assertEqual(program["mesh"], [["data", 2], ["data/2", 2], ["microbatch", 2]])
            found = {(i["op"], i["attrs"]["axes"][0], i["task"]["phase"]) for i in program["functions"][-1]["body"]
                     if i.get("attrs", {}).get("stream") == "gradients"}
            self.assertEqual(found, {("reduce_scatter", 1, "backward"), ("all_reduce", 0, "update")})
            gathers = [i["attrs"]["axes"] for f in program["functions"] for i in f["body"] if i["op"] == "all_gather"]
            self.assertTrue(gathers)
            self.assertTrue(all(axes == [1, 1, 2] for axes in gathers))
        self.assertEqual(states[2, 2], states[3, 2])
        for ranks in (2, 4):
            self.assertAlmostEqual(states[2, 1] / states[2, ranks], ranks, delta=0.01)

    def test_meshes_of_stages(self):
        """One program, on axes that all meshes are made of, with a function of the layer for each mesh; tied tables meet once a step."""
        config = self.write("config.json", {"model_type": "gpt2", "n_layer": 3, "n_head": 6, "n_embd": 24, "n_positions": 24, "vocab_size": 61})
        data = self.path("data.npz")
        count = 3 * 12 * 12
        write_npz(data, {name: ("<i8", [3, 12, 12], struct.pack(f"<{count}q", *(i * i % 61 for i in range(count)))) for name in ("input_ids", "labels")})
        sizes = ["--global-batch", 12, "--sequence", 12]
        three = [{"layers": [0, 0]}, {"layers": [1, 1]}, {"layers": [2, 2]}]
        # The second pair's axes do not nest: "model" of the second stage is "data" of the first one.
        self.agree(config, data, {"nested": of_stages((4, 1), (2, 2), {"model": 2, "context": 2}, cut=three, microbatch=1,
                                                      optimizer_sharding=2, optimizer_sharding_ranks=2),
                                  "crossed": of_stages((2, 3), (3, 2), cut=[{"layers": [0, 1]}, {"layers": [2, 2]}], microbatch=3)}, *sizes,
                   "--seed", 5, "--optimizer", "adamw", "--clip-norm", 0.5)
        for name, given, axes in (("2 x 6 and 6 x 2", of_stages((2, 6), (6, 2), cut=[{"layers": [0, 1]}, {"layers": [2, 2]}], microbatch=3),
                                   [["microbatch", 2], ["stage", 2], ["data", 2], ["model|data", 3], ["model", 2]]),
                                  ("2 x 3 and 3 x 2", of_stages((2, 3), (3, 2), cut=[{"layers": [0, 1]}, {"layers": [2, 2]}], microbatch=3),
                                   [["microbatch", 2], ["stage", 2], ["data|model", 2], ["model|data", 3]])):
            self.succeed("compile", config, "--plan", self.write("plan.json", given), "--no-native", "-o", self.path("program"), *sizes)
            with open(self.path("program/program.json")) as file:
                program = json.load(file)
            self.assertEqual(program["mesh"], axes, name)
            self.assertEqual([f["name"] for f in program["functions"]], ["layer", "layer_mesh1", "layer_backward", "layer_mesh1_backward", "main"])
            main = program["functions"][-1]
            of_tables = [i for i in main["body"] if i["op"] in ("all_reduce", "reduce_scatter", "all_gather", "all_to_all", "transfer") and
                         i["task"]["phase"] == "backward" and main["values"][i["in"][0]].count(",") == 1]
            self.assertEqual(of_tables, [], "shares of the table meet once a step, not for each microbatch")

    def agree_stacked(self, plans):
        folder = os.path.join(SHARED, "models", "jax-transformer")
        self.agree(os.path.join(folder, "loss_scan.mlir"), os.path.join(folder, "batches.npz"), plans,
                   "--weights", os.path.join(folder, "weights.npz"), "--optimizer", "adamw")

    @unittest.skipUnless(os.path.isdir(os.path.join(SHARED, "models", "jax-transformer")), f"no models in {SHARED}")
    def test_stacked_parameters(self):
        """One array lives on the stage that uses it first, which need not be the one of the lowest number, with its optimizer's states beside it."""
        self.agree_stacked({"4 stages": plan(stage=4, microbatch=2, **FOUR),
                            "interleaved": plan(stage=2, data=2, microbatch=2, **FOUR, **schedule("interleaved", chunks=2))})

    @unittest.skipUnless(os.path.isdir(os.path.join(SHARED, "models", "jax-transformer")), f"no models in {SHARED}")
    def test_meshes_of_stages_that_share_stacked_parameters(self):
        """A loop's parameters lie in one array, of which each stage makes a part of the gradient: it is summed over microbatches before it is put in place."""
        self.agree_stacked({
            "data 2 and model 2": of_stages((2, 1), (1, 2), microbatch=2),
            "model 4 and data 4, one microbatch": of_stages((1, 4), (4, 1), microbatch=8),
            "zero 2, zero-bubble, recompute": of_stages((4, 1), (2, 2), microbatch=1, optimizer_sharding=2, recompute="full", **schedule("zero-bubble")),
            "zero 3, ring": of_stages({"data": 2, "context": 2}, (2, 2), microbatch=2, optimizer_sharding=3),
            "solved, interleaved": of_stages((2, 2), (4, 1), cut=FOUR["stages"], microbatch=2, layout="solved", **schedule("interleaved", chunks=2))})

    def test_meshes_that_cannot_be(self):
        def refused(words, given):
            self.refuse(1, words, "train", file_of("gpt2"), "--data", file_of("gpt2", "batches.npz"), "--plan", self.write("plan.json", given))
        refused(["stage 1", "2 ranks (data 2)", "4 for each stage (data 4)"], of_stages((4, 1), (2, 1), microbatch=1))
        refused(["1 samples", "4 groups of stage 1"], of_stages((1, 4), (4, 1), microbatch=1))
        refused(["stages[1]", "ranks", "mesh"], plan(stage=2, stages=[{"layers": [0, 0]}, {"layers": [1, 1], "ranks": 2}]))
        refused(["stages[0].mesh", "\"stage\""], of_stages({"stage": 2}, (2, 1)))
        refused(["order", "stage", "first or last"], of_stages((2, 2), (4, 1), microbatch=1, order=["data", "stage", "model"]))
        refused(["optimizer_sharding_ranks is 4", "the 2 ranks", "stage 1"], of_stages((4, 1), (2, 2), microbatch=1, optimizer_sharding=1,
                                                                                      optimizer_sharding_ranks=4))
        self.refuse(1, ["meshes of their own"], "export", file_of("gpt2"), "--to", "megatron", "--plan", self.write("plan.json", of_stages((2, 1), (1, 2))),
                    "-o", self.path("out.sh"))

    def test_frozen(self):
        """Frozen parameters live on a stage as others do; one that several stages read is sent to them."""
        two = plan(stage=2, microbatch=1)
        for frozen in (["--frozen", "*ln_1*", "--frozen", "*c_attn*"], ["--frozen", "lm_head.weight", "--frozen", "*wpe*"]):
            self.agree(file_of("gpt2"), file_of("gpt2", "batches.npz"), {"2 stages": two, "recomputed, data 2": plan(stage=2, data=2, microbatch=2, recompute="full")},
                       *frozen)

    def test_cuts_that_cannot_be(self):
        base = ["train", file_of("gpt2"), "--data", file_of("gpt2", "batches.npz"), "--plan"]
        refused = lambda words, given: self.refuse(1, words, *base, self.write("plan.json", given))
        refused(["until", "nothing_like_it", "no operator"], plan(stage=2, **until("nothing_like_it")))
        refused(["leaves no operator for part 1"], plan(stage=3, **until("*.1.mlp*", "*.0.mlp*")))
        refused(["leaves no operator for the last part"], plan(stage=2, **until("*")))
        refused(["3 entries", "2 stages"], plan(stage=2, **until("*.0.mlp*", "*.1.mlp*")))
        refused(["stage 1", "holds all remaining ops"], plan(stage=2, stages=[{"until": "*.0.mlp*"}, {"until": "*.1.mlp*"}]))
        refused(["stage 0", "no \"until\""], plan(stage=3, stages=[{}, {"until": "*.1.mlp*"}, {}]))
        refused(["stages[1]", "layers", "until"], plan(stage=2, stages=[{"until": "*.0.mlp*"}, {"layers": [1, 1]}]))
        self.refuse(1, ["until", "layers"], "plan", file_of("gpt2"), "--search", "whole", "--ranks", 2, "--constraints",
                    self.write("plan.json", plan(stage=2, **until("*.0.mlp*"))))
        self.refuse(1, ["until", "layers"], "export", file_of("gpt2"), "--to", "megatron", "--plan",
                    self.write("plan.json", plan(stage=2, **until("*.0.mlp*"))), "-o", self.path("out.sh"))

    def test_sixteen_bits(self):
        """16-bit steps give those of one rank within 16-bit rounding; a scale that overflows skips the same steps on every stage."""
        golden = golden_of("gpt2")
        step, run = optimizer_flags(golden, "adamw")
        for dtype, tolerance, more in (("bf16", 2e-3, []), ("f16", 5e-4, []), ("f16", 5e-4, ["--initial-loss-scale", str(2.0 ** 40)])):
            reached = {}
            for name in [None, "3-D, recompute, zero 1", "interleaved", "ring", "meshes of stages, recompute, zero 1", "zero 3 on 2 of 4, 1f1b, recompute"]:
                given = ["--ranks", 1] if name is None else ["--plan", self.write("plan.json", PLANS[name])]
                self.succeed("train", file_of("gpt2"), "--data", file_of("gpt2", "batches.npz"), "--steps", 20, "--dtype", dtype, "--clip-norm", 1,
                             "--log", self.path("log"), *given, *step, *run, *more)
                reached[name] = losses_of(self.path("log"))
            for name in reached:
                self.close(reached[name], reached[None], tolerance, f"{dtype} {more}, {name}")
            self.assertLess(reached[None][-1], reached[None][0])

    def test_memory_of_sixteen_bits(self):
        """Beside what an f32 step holds, a 16-bit step holds one 16-bit copy of each parameter, for all microbatches in flight; optimizer
        sharding changes neither that nor the losses."""
        golden = golden_of("gpt2")
        step, run = optimizer_flags(golden, "adamw")
        config = {"model_type": "gpt2", "n_layer": 4, "n_embd": 64, "n_head": 4, "vocab_size": 97, "n_positions": 32}
        width, weights = config["n_embd"], 2 * 12 * config["n_embd"] ** 2  # of two layers: those of one stage
        for pipeline in schedule("1f1b"), schedule("zero-bubble"):
            reached = {}
            for sharding in 0, 1, 2, 3:
                for dtype in "f32", "bf16":
                    given = plan(stage=2, data=2, microbatch=1, optimizer_sharding=sharding, **pipeline)
                    done = self.succeed("train", self.write("config.json", config), "--global-batch", 8, "--sequence", 32,
                                        "--data", file_of("gpt2", "batches.npz"), "--steps", 3, "--dtype", dtype, "--plan", self.write("plan.json", given),
                                        "--log", self.path("log"), "--json", "--seed", 7, *step, *run)
                    reached[sharding, dtype] = losses_of(self.path("log")), json.loads(done.stdout)["measured"]["arena_bytes"]
                self.close(reached[sharding, "bf16"][0], reached[0, "bf16"][0], 1e-5, f"{pipeline}, sharding {sharding}")
                more = reached[sharding, "bf16"][1] - reached[sharding, "f32"][1]
                self.assertLess(more, 2 * weights * 1.1, f"{pipeline}, sharding {sharding}")

    def test_offloading(self):
        """What waits in the host's memory comes back as it was, and is no longer on the device."""
        golden, reached = golden_of("gpt2"), {}
        step, run = optimizer_flags(golden, "adamw")
        config = {"model_type": "gpt2", "n_layer": 8, "n_embd": 32, "n_head": 4, "vocab_size": 97, "n_positions": 32}
        for mode in ["none", {"0-6": "offload"}, "full"]:
            done = self.succeed("train", self.write("config.json", config), "--global-batch", 8, "--sequence", 32, "--data", file_of("gpt2", "batches.npz"),
                                "--steps", 3, "--plan", self.write("plan.json", plan(microbatch=8, recompute=mode, **schedule("1f1b"))),
                                "--log", self.path("log"), "--json", "--seed", 7, *step, *run)
            measured = json.loads(done.stdout)["measured"]
            reached[str(mode)] = losses_of(self.path("log")), measured["arena_bytes"], measured["host_bytes"]
        (kept, whole, none), (back, less, host), (_, least, _) = reached.values()
        self.assertEqual(back, kept)
        self.assertEqual(none, 0)
        self.assertGreater(host, 0)
        # Of the seven layers that are offloaded two are on the device.
        self.assertLess(less, whole - host * 0.6)
        self.assertGreater(less, least)

    def test_clipping_across_stages(self):
        for model in ["gpt2", "llama"] if ALL else ["gpt2"]:
            golden = golden_of(model)
            step, run = optimizer_flags(golden, "adamw")
            reached = {}
            for name, given in {"1": plan(), "pipeline": PLANS["3-D, recompute, zero 1"], "zero 3": PLANS["zero 3"]}.items():
                self.succeed("train", file_of(model), "--data", file_of(model, "batches.npz"), "--steps", 5, "--dtype", "f64", "--clip-norm", 0.5,
                             "--plan", self.write("plan.json", {**given, "microbatch": given.get("microbatch", 8)}), "--log", self.path("log"), *step, *run)
                reached[name] = losses_of(self.path("log"))
            for name in ["pipeline", "zero 3"]:
                self.close(reached[name], reached["1"], PLANS_AGREE, f"{model} clipped, {name}")


def add_case(model, optimizer, dtype):
    def test(self):
        self.all_plans(model, optimizer, dtype)
    setattr(Pipelines, f"test_{model}_{optimizer}_{dtype}", test)


for model, optimizer, dtype in itertools.product(["gpt2", "llama"] if ALL else ["gpt2"], ["sgd", "adamw"] if ALL else ["adamw"], ["f64", "f32"] if ALL else ["f64"]):
    add_case(model, optimizer, dtype)

if __name__ == "__main__":
    main()
