#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""kerf export --to mindspeed and --to mindspore: the arguments are those that Megatron-LM and MindSpeed take together, and the Python module gives
primitives the layouts of the plan. With MindSpore installed, its own classes and its parser of strategy files take the module's results."""
import importlib.util
import json
import os
import sys
import types

from support import CLUSTERS, KerfTest, main
from test_export import A100, LLAMA, MIXTRAL, arguments
from trainer_arguments import FLAG, MEGATRON_LM, check_megatron_lm, parser_of

NPUS = os.path.join(CLUSTERS, "ascend-910b.json")
# MindSpeed (commit 010c43dfee81), mindspeed/features_manager; --use-flash-attn: Megatron-LM core_r0.12.0. NOT_THERE is in neither, or for NVIDIA's
# libraries.
MINDSPEED = MEGATRON_LM | {
    "--use-flash-attn": FLAG, "--context-parallel-algo": ("megatron_cp_algo", "hybrid_cp_algo", "hybrid_adaptive_cp_algo"), "--use-ascend-mc2": FLAG,
    "--use-fused-rmsnorm": FLAG, "--use-fused-swiglu": FLAG, "--use-fused-rotary-pos-emb": FLAG}
NOT_THERE = {"--tp-comm-overlap", "--use-megatron-fsdp", "--pipeline-model-parallel-layout", "--fp8-format", "--attention-backend", "--cp-comm-type",
             "--data-parallel-sharding-strategy"}


class Layout:
    """In the place of mindspore.parallel.Layout: the same arguments, and the same result of to_dict."""

    def __init__(self, device_matrix, alias_name):
        self.matrix, self.names, self.map = device_matrix, alias_name, None

    def __call__(self, *cuts):
        made = Layout(self.matrix, self.names)
        number = lambda name: -1 if name == "None" else len(self.names) - 1 - self.names.index(name)
        made.map = tuple(tuple(map(number, cut)) if isinstance(cut, tuple) else number(cut) for cut in cuts)
        return made

    def to_dict(self):
        return {"device_matrix": self.matrix, "tensor_map": self.map}


class Wrapped:
    def __init__(self, network, *given, **more):
        self.network, self.given, self.calls = network, (given, more), {}

    def __getattr__(self, name):
        return lambda **given: self.calls.__setitem__(name, given)


class Primitive:
    def shard(self, operands, results):
        self.maps = [one.to_dict()["tensor_map"] for one in operands]
        self.results = results and [one.to_dict()["tensor_map"] for one in results]
        return self


class Cell:
    def __init__(self):
        self.calls = []
        self.attention = self

    def recompute(self):
        self.calls.append("recompute")

    def offload(self):
        self.calls.append("offload")


class ExportToNpus(KerfTest):
    def export(self, target, plan, config=LLAMA, *more, cluster=NPUS):
        return self.succeed("export", self.write("config.json", config), "--plan", self.write("plan.json", plan), "--cluster", cluster, "--dtype", "bf16",
                            "--optimizer", "adamw", "--to", target, *more)

    def mindspeed(self, plan, ranks, config=LLAMA):
        given = arguments(self.export("mindspeed", plan, config).stdout)
        words = [word for name, value in given.items() for word in ([name] if value is True else [name, value])]
        self.assertEqual(NOT_THERE & set(given), set())
        check_megatron_lm(parser_of(MINDSPEED).parse_args(words), ranks)
        return given

    def test_mindspeed_takes_what_is_planned_for_it(self):
        config = self.write("config.json", LLAMA)
        for pins in ({}, {"mesh": {"stage": 2, "model": 2}}, {"mesh": {"context": 2}}, {"mesh": {"model": 4}, "sequence_parallel": True}):
            self.succeed("plan", config, "--for", "mindspeed", "--cluster", NPUS, "--ranks", 16, "--global-batch", 64, "--sequence", 4096, "--dtype", "bf16",
                         "--optimizer", "adamw", "--budget", 4, "--top", 0, "--constraints", self.write("pins.json", dict(pins, kerf=1)), "-o", self.path("found.json"))
            with open(self.path("found.json"), encoding="utf-8") as file:
                found = json.load(file)
            answer = json.loads(self.succeed("export", config, "--plan", self.path("found.json"), "--cluster", NPUS, "--dtype", "bf16", "--optimizer", "adamw",
                                             "--to", "mindspeed", "--json").stdout)
            lost = [one for one in answer["decisions"] if one["kind"] == "differs" and not one["key"].startswith(("model.", "optimizer."))]
            self.assertEqual(lost, [], pins)
            given = arguments(answer["config"])
            self.assertEqual(int(given.get("--tensor-model-parallel-size", 1)), found["mesh"].get("model", 1))
            self.assertEqual(given["--transformer-impl"], "local")
            self.assertIn("mindspeed.megatron_adaptor", answer["config"])

    def test_mindspeed_in_the_place_of_nvidias_libraries(self):
        plan = {"kerf": 1, "mesh": {"data": 4, "model": 4}, "global_batch": 64, "microbatch": 2, "sequence_parallel": True, "optimizer_sharding": 1,
                "overlap": ["gradients", "parameters", "tensor", "products"]}
        given = self.mindspeed(plan, 16)
        for flag in ("--use-ascend-mc2", "--use-flash-attn", "--use-fused-rmsnorm", "--use-fused-swiglu", "--use-fused-rotary-pos-emb", "--bf16"):
            self.assertIs(given.get(flag), True, flag)
        ring = self.mindspeed({"kerf": 1, "mesh": {"data": 4, "context": 4}, "global_batch": 64}, 16)
        self.assertEqual(ring["--context-parallel-algo"], "megatron_cp_algo")
        for changed, note in (({"mesh": {"data": 4, "context": 4}, "context_style": "ulysses"}, "no Ulysses alone"),
                              ({"mesh": {"data": 16}, "optimizer_sharding": 3}, "shards only the states")):
            self.assertIn(note, self.export("mindspeed", {"kerf": 1, "global_batch": 64, **changed}).stderr)

    def test_what_npus_do_not_run(self):
        plan = self.write("plan.json", {"kerf": 1, "mesh": {"data": 8}, "global_batch": 64})
        for target in ("mindspeed", "mindspore"):
            self.refuse(1, ["rule npus", "A100", "clusters/ascend-910b.json"], "export", self.write("config.json", LLAMA), "--plan", plan, "--cluster", A100,
                        "--dtype", "bf16", "--optimizer", "adamw", "--to", target)
        context = self.write("context.json", {"kerf": 1, "mesh": {"data": 4, "context": 2}, "global_batch": 64})
        self.refuse(1, ["no-context-axis", "mesh.context is 2"], "export", self.path("config.json"), "--plan", context, "--cluster", NPUS, "--dtype",
                    "bf16", "--optimizer", "adamw", "--to", "mindspore")
        overlapped = self.write("experts.json", {"kerf": 1, "mesh": {"model": 4, "data": 2}, "sequence_parallel": True, "overlap": ["products"],
                                                 "global_batch": 64})
        self.refuse(1, ["mc2-without-experts"], "export", self.write("mixtral.json", MIXTRAL), "--plan", overlapped, "--cluster", NPUS, "--dtype", "bf16",
                    "--optimizer", "adamw", "--to", "mindspeed")

    def module(self, plan, real=False, config=LLAMA):
        """The exported module, on MindSpore or on the classes above in its place."""
        self.export("mindspore", plan, config, "-o", self.path("job.py"))
        names = {"__name__": "job"}
        stand_in = {"mindspore": {}, "mindspore.parallel": {"Layout": Layout}, "mindspore.parallel.auto_parallel": {"AutoParallel": Wrapped},
                    "mindspore.parallel.nn": {"Pipeline": Wrapped}}
        kept = {name: sys.modules.get(name) for name in stand_in}
        try:
            if not real:
                for name, content in stand_in.items():
                    sys.modules[name] = types.ModuleType(name)
                    sys.modules[name].__dict__.update(content)
            exec(compile(self.read("job.py"), "job.py", "exec"), names)
        finally:
            if not real:
                for name, was in kept.items():
                    sys.modules.pop(name)
                    if was:
                        sys.modules[name] = was
        return types.SimpleNamespace(**names)

    PLAN = {"kerf": 1, "mesh": {"stage": 2, "data": 2, "model": 4}, "global_batch": 64, "microbatch": 2, "sequence_parallel": True, "optimizer_sharding": 2,
            "recompute": "full", "schedule": {"name": "1f1b"}, "stages": [{"layers": [0, 8]}, {"layers": [9, 15]}]}

    def test_mindspore(self):
        job = self.module(self.PLAN)
        self.assertEqual((job.STAGES, job.DATA, job.EXPERT, job.MODEL, job.MICROBATCHES), (2, 2, 1, 4, 16))
        self.assertEqual(job.STAGES_OF_LAYERS, [0] * 9 + [1] * 7)
        # Axes are counted from the innermost: 0 is mp, 1 is ep, 2 is dp, -1 no cut.
        self.assertEqual(job.shard(Primitive(), "column").maps, [((2, 1), -1), (0, -1)])
        row = job.shard(Primitive(), "row")
        self.assertEqual((row.maps, row.results), ([((2, 1), 0), (-1, 0)], [((2, 1, 0), -1)]))
        self.assertEqual(job.shard(Primitive(), "attention").maps, [((2, 1), 0, -1, -1)] * 3)
        cells, network = self.network()
        wrapped = job.parallel(network, list(cells), first=["embedding"], last=["head"])
        self.assertTrue(all(cell.calls == ["recompute"] for cell in cells.values()))
        self.assertTrue(network.trainable_params()[0].parallel_optimizer)
        self.assertEqual(wrapped.calls, {"pipeline": {"stages": 2, "interleave": False, "scheduler": "1f1b"},
                                         "hsdp": {"shard_size": -1, "threshold": 0, "optimizer_level": "level2"}})
        config = wrapped.network.given[1]["stage_config"]
        self.assertEqual((config["embedding"], config["layers.8"], config["layers.9"], config["head"]), (0, 0, 1, 1))
        with self.assertRaisesRegex(ValueError, "16 layers, and 15 are given"):
            job.parallel(network, list(cells)[1:])
        cells, network = self.network()
        plain = self.module({"kerf": 1, "mesh": {"data": 8}, "global_batch": 64})
        self.assertIs(plain.parallel(network, list(cells)).network, network)
        self.assertEqual(plain.shard(Primitive(), "row").maps, [((2, 1), 0), (-1, 0)])
        self.assertFalse(hasattr(network.trainable_params()[0], "parallel_optimizer"))

    @staticmethod
    def network():
        cells, parameters = {f"layers.{i}": Cell() for i in range(16)}, [types.SimpleNamespace()]
        return cells, types.SimpleNamespace(cells_and_names=lambda: cells.items(), trainable_params=lambda: parameters)

    def test_mindspore_schedules_and_layers(self):
        """Chunks come back to their stage, other schedules than 1F1B are set as interleaved ones, and each layer recomputes as planned."""
        plan = {"kerf": 1, "mesh": {"stage": 2, "data": 2}, "global_batch": 64, "microbatch": 2,
                "schedule": {"name": "interleaved", "chunks": 2}, "recompute": {"0-3": "full", "4": "selective", "5": "offload"}}
        job = self.module(plan)
        self.assertEqual((job.CHUNKS, job.STAGES_OF_LAYERS), (2, [0] * 4 + [1] * 4 + [0] * 4 + [1] * 4))
        cells, network = self.network()
        wrapped = job.parallel(network, list(cells))
        self.assertEqual([cell.calls for cell in cells.values()], [["recompute"]] * 5 + [["offload"]] + [[]] * 10)
        self.assertEqual(wrapped.calls, {"pipeline": {"stages": 2, "interleave": True, "scheduler": "1f1b"}})
        gpipe = self.module(dict(plan, schedule={"name": "gpipe"}))
        self.assertEqual(gpipe.parallel(network, list(cells)).calls, {"pipeline": {"stages": 2, "interleave": True, "scheduler": "gpipe"}})
        zero_bubble = self.export("mindspore", dict(plan, schedule={"name": "zero-bubble", "variant": "h1"}))
        self.assertIn("zero_bubble_v", zero_bubble.stdout)
        few = self.write("few.json", dict(plan, global_batch=4, mesh={"stage": 4, "data": 2}, microbatch=1, schedule={"name": "1f1b"}))
        self.refuse(1, ["microbatches-of-stages", "2", "4"], "export", self.write("config.json", LLAMA), "--plan", few, "--cluster", NPUS, "--dtype", "bf16",
                    "--optimizer", "adamw", "--to", "mindspore")

    EXPERTS = {"kerf": 1, "mesh": {"data": 2, "expert": 4, "model": 2}, "global_batch": 64, "optimizer_sharding": 1, "sequence_parallel": True}

    def test_mindspore_experts(self):
        job = self.module(self.EXPERTS, config=MIXTRAL)
        self.assertEqual((job.DATA, job.EXPERT, job.MODEL), (2, 4, 2))
        first, second = job.shard(Primitive(), "experts_column"), job.shard(Primitive(), "experts_row")
        self.assertEqual(first.maps, [(1, 2, -1), (1, -1, 0)])
        self.assertEqual((second.maps, second.results), ([(1, 2, 0), (1, 0, -1)], [(1, 2, -1)]))
        self.assertEqual(job.shard(Primitive(), "norm").maps, [((2, 1, 0), -1), (-1,)])
        # Experts are shared by the two ranks of dp, which lie 8 apart; others by all ranks with the same part.
        self.assertEqual([job.optimizer_shards(job.PARAMETERS[role]) for role in ("experts_column", "column")], [(8, -1), (2, -1)])
        self.assertEqual(job.optimizer_shards(("None",)), (1, -1))

    def test_mindspore_itself(self):
        if importlib.util.find_spec("mindspore") is None:
            self.skipTest("needs the Python package mindspore")
        from mindspore import Parameter, Tensor, dtype, nn, ops
        from mindspore.parallel._auto_parallel_context import auto_parallel_context
        from mindspore.parallel._tensor import _extract_layout_item

        job = self.module(self.PLAN, real=True)
        for role, primitive in (("column", ops.MatMul(transpose_b=True)), ("row", ops.MatMul(transpose_b=True)), ("embedding", ops.Gather()),
                                ("norm", ops.RmsNorm()), ("softmax", ops.Softmax()), ("scores", ops.BatchMatMul())):
            self.assertIn("in_layout", job.shard(primitive, role).attrs)
        read = self.written(job, {"layers.0.wq.weight": ((2048, 2048), "column"), "layers.0.wo.weight": ((2048, 2048), "row"), "norm": ((2048,), None)})
        self.assertEqual({name: (entry[0], entry[1], entry[4], entry[5], entry[6]) for name, entry in read.items()},
                         {"layers.0.wq.weight": ([2, 1, 4], [0, -1], 4, -1, [0]), "layers.0.wo.weight": ([2, 1, 4], [-1, 0], 4, -1, [0]),
                          "norm": ([2, 1, 4], [-1], 1, -1, [0])})
        experts = self.module(self.EXPERTS, real=True, config=MIXTRAL)
        for role in ("experts_column", "experts_row"):
            self.assertIn("in_layout", experts.shard(ops.BatchMatMul(), role).attrs)
        read = self.written(experts, {"w1": ((8, 4096, 14336), "experts_column"), "w2": ((8, 14336, 4096), "experts_row")})
        self.assertEqual(read["w1"][:2] + read["w1"][4:6], [[2, 4, 2], [1, -1, 0], 8, -1])
        # The number of ranks that share a part, as MindSpore counts them: 2 of dp.
        self.assertEqual([int(_extract_layout_item(read[name])[3]) for name in ("w1", "w2")], [2, 2])

        class Layer(nn.Cell):
            def __init__(self):
                super().__init__()
                self.attention = nn.ReLU()
                self.weight = Parameter(Tensor([1.0], dtype.float32))

        class Network(nn.Cell):
            def __init__(self):
                super().__init__()
                self.layers = nn.CellList([Layer() for _ in range(16)])

        for plan in (self.PLAN, dict(self.PLAN, schedule={"name": "gpipe"}),
                     {"kerf": 1, "mesh": {"stage": 2, "data": 2}, "global_batch": 64, "microbatch": 2, "optimizer_sharding": 3,
                      "schedule": {"name": "interleaved", "chunks": 2}, "recompute": {"0-3": "full", "4": "selective"}}):
            job, network = self.module(plan, real=True), Network()
            wrapped = job.parallel(network, [f"layers.{i}" for i in range(16)])
            self.assertEqual([layer.pipeline_stage for layer in network.layers], job.STAGES_OF_LAYERS)
            scheduler, interleave = wrapped._pipeline_scheduler, wrapped._pipeline_interleave
            auto_parallel_context().set_pipeline_config({"pipeline_interleave": interleave, "pipeline_scheduler": scheduler})  # it refuses wrong pairs

    def written(self, job, parameters):
        """The strategy file of these parameters, as MindSpore reads it."""
        from mindspore.parallel._parallel_serialization import _build_searched_strategy, _convert_to_list

        job.write_strategy(self.path("strategy.json"), parameters)
        return _convert_to_list(_build_searched_strategy(self.path("strategy.json")))


if __name__ == "__main__":
    main()
