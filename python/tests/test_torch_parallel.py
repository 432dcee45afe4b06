#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Losses of kerf.torch.parallelize equal those of one process: float64, 4 steps of SGD with momentum, to 1e-10.

KERF_ALL=1 runs all models and plans, and prints for each the difference, the collectives and what is refused by name."""
import contextlib
import datetime
import json
import multiprocessing
import os
import socket
import sys
import tempfile
import time
import traceback
import unittest

try:
    import torch
    import torch.distributed as dist
    import torch.distributed.checkpoint
except ImportError as absent:
    raise unittest.SkipTest("torch is not installed") from absent

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import parallel_models  # noqa: E402

import kerf  # noqa: E402
import kerf.torch  # noqa: E402

ALL = bool(os.environ.get("KERF_ALL"))
TWO = [  # model, layers, decisions of the plan, and a factor of the gradients
    ("gpt2", 2, {"mesh": {"data": 2}, "optimizer_sharding": 3, "microbatch": 2, "recompute": "selective"}, 1),
    ("gpt2", 2, {"mesh": {"model": 2}, "recompute": "full"}, 1),
    ("gpt2", 2, {"mesh": {"data": 2}, "optimizer_sharding": 2, "microbatch": 2, "recompute": "pointwise"}, 1),
    ("gpt2", 2, {"mesh": {"model": 2}, "recompute": "except-attention"}, 1),
    ("gpt2", 2, {"mesh": {"stage": 2}, "microbatch": 4, "schedule": {"name": "1f1b"}}, 1),
    ("gpt2", 2, {"mesh": {"data": 2}, "optimizer_sharding": 0}, 1.01),
    ("masked", 2, {"mesh": {"data": 2}, "optimizer_sharding": 0, "microbatch": 2}, 1),
    ("gpt2", 2, {"mesh": {"model": 2}, "sequence_parallel": True}, 1),
    ("fused", 2, {"mesh": {"context": 2}}, 1),
    ("gpt2", 2, {"search": "none", "mesh": {"stage": 2}, "microbatch": 2, "schedule": {"name": "zero-bubble", "variant": "2p"},
                 "stages": [{"until": "transformer.h.0.attn*"}, {}]}, 1),
    ("gpt2", 2, {"search": "placement", "mesh": {"model": 2}}, 1),
]
CHECKPOINTS = (0, 1, 2, len(TWO) - 1)  # sharded over data, reordered columns along model, in stages, on the exported graph
MORE_OF_TWO = [(name, 2, plan, 1) for name in ("llama", "bert", "vit", "mixtral", "resnet", "mixer") for plan in (
    {}, {"mesh": {"model": 2}}, {"mesh": {"data": 2}, "optimizer_sharding": 2, "microbatch": 2, "recompute": "full"},
    {"mesh": {"stage": 2}, "microbatch": 2, "schedule": {"name": "gpipe"}})] + [("gpt2", 2, plan, 1) for plan in (
        {}, {"mesh": {"model": 2}, "sequence_parallel": False, "layout": "megatron"},
        {"mesh": {"data": 2}, "optimizer_sharding": 2, "microbatch": 2}, {"mesh": {"data": 2}, "optimizer_sharding": 1, "microbatch": 2},
        {"mesh": {"data": 2}, "optimizer_sharding": 1, "recompute": {"1": "full"}},
        {"mesh": {"data": 2}, "optimizer_sharding": 0, "microbatch": 1}, {"mesh": {"context": 2}}, {"mesh": {"data": 2}, "recompute": "offload"},
        {"mesh": {"model": 2}, "recompute": "offload"}, {"mesh": {"stage": 2}, "microbatch": 8},
        {"search": "none", "mesh": {"stage": 2}, "microbatch": 2, "recompute": "full", "schedule": {"name": "gpipe"},
         "stages": [{"until": "transformer.h.1.mlp.c_fc/dot_general"}, {}]},
        {"search": "placement", "mesh": {"data": 2},
         "edit": {"transformer.h.*.mlp.c_fc.weight": [[], ["data"]], "transformer.wpe.weight": [["data"], []]}},
        {"mesh": {"data": 2}, "optimizer_sharding": 0, "ops": {"transformer.h.*.mlp*/gelu": {"recompute": True}}},
        {"mesh": {"model": 2}, "microbatch": 4, "sequence_parallel": False, "recompute": "full",
         "ops": {"transformer.h.*.mlp.c_fc/dot_general": {"strategy": {"m0": ["data"], "n": ["model"]}, "recompute": False}}},
        {"mesh": {"stage": 2}, "microbatch": 2, "schedule": {"name": "zero-bubble", "variant": "h1"}},
        {"mesh": {"stage": 2}, "microbatch": 2, "schedule": {"name": "zero-bubble", "variant": "2p"}})] + [
            ("llama", 2, {"mesh": {"context": 2}, "microbatch": 4}, 1),
            ("experts", 2, {"mesh": {"expert": 2}, "optimizer_sharding": 0, "microbatch": 2}, 1)] + [
            ("llama", 4, {"mesh": {"model": 2}, "sequence_parallel": cut, "layout": "megatron"}, 1) for cut in (False, True)]
UNTIL = {"gpt2": "transformer.h.0.attn*", "llama": "model.layers.0.self_attn*", "bert": "bert.encoder.layer.0.attention*",
         "vit": "vit.layers.0.attention*", "mixtral": "model.layers.0.self_attn*", "resnet": "resnet.encoder.stages.0.layers.1*",
         "mixer": "blocks.0.t2*"}  # in the middle of a layer
POINTWISE = {"gpt2": "transformer.h.*/gelu", "llama": "model.layers.*.act_fn/*", "bert": "bert.encoder.layer.*/gelu",
             "vit": "vit.layers.*/gelu", "mixtral": "model.layers.*/rms_norm", "resnet": "resnet.*/maximum", "mixer": "blocks.*/gelu"}
TEXT = ("llama", "bert", "mixtral")  # models of sequences, which alone have plans with sequence_parallel or mesh.context
ROWS = [(name, 2, plan, 1) for name in ("llama", "bert", "vit", "mixtral", "resnet", "mixer") for plan in (
    {"mesh": {"data": 2}, "optimizer_sharding": 3, "microbatch": 2, "recompute": "selective"}, {"mesh": {"data": 2}, "optimizer_sharding": 0},
    {"mesh": {"model": 2}, "sequence_parallel": name in TEXT, "recompute": "offload"}, {"search": "placement", "mesh": {"model": 2}},
    {"mesh": {"stage": 2}, "microbatch": 2, "schedule": {"name": "zero-bubble", "variant": "h1"}, "recompute": "full"})] + [
        (name, 2, {"mesh": {"context": 2}}, 1) for name in TEXT] + [
            (name, 2, plan, 1) for name in ("gpt2", "llama", "bert", "vit", "mixtral", "resnet", "mixer") for plan in (
                {"mesh": {"data": 2}, "optimizer_sharding": 1, "recompute": {"1": "full"}},
                {"mesh": {"stage": 2}, "microbatch": 2, "schedule": {"name": "1f1b"}, "recompute": "selective"},
                {"mesh": {"stage": 2}, "microbatch": 2, "schedule": {"name": "zero-bubble", "variant": "1p"}},
                {"search": "none", "mesh": {"stage": 2}, "microbatch": 2, "schedule": {"name": "gpipe"}, "stages": [{"until": UNTIL[name]}, {}]},
                {"mesh": {"data": 2}, "optimizer_sharding": 0, "ops": {POINTWISE[name]: {"recompute": True}}})]
APART = (  # stages with meshes of their own
    {"search": "none", "mesh": {"stage": 2, "data": 2}, "microbatch": 2, "optimizer_sharding": 0,
     "stages": [{"layers": [0, 0]}, {"layers": [1, 1], "mesh": {"model": 2}}]},
    {"search": "none", "mesh": {"stage": 2}, "order": ["data", "model", "stage"], "microbatch": 2, "optimizer_sharding": 2, "recompute": "full",
     "schedule": {"name": "gpipe"}, "stages": [{"layers": [0, 0], "mesh": {"model": 2}}, {"layers": [1, 1], "mesh": {"data": 2}}]})
PAIRS = ({"mesh": {"data": 4}, "optimizer_sharding": 3, "optimizer_sharding_ranks": 2},
         {"mesh": {"data": 2, "model": 2}, "optimizer_sharding": 2, "microbatch": 2},
         {"mesh": {"data": 2, "stage": 2}, "microbatch": 1, "optimizer_sharding": 2, "schedule": {"name": "1f1b"}, "recompute": "full"},
         {"mesh": {"model": 2, "stage": 2}, "microbatch": 2, "schedule": {"name": "gpipe"}, "recompute": "selective"})
FOUR = [("gpt2", 2, plan, 1) for plan in (
    {"mesh": {"data": 2, "model": 2}, "optimizer_sharding": 3, "microbatch": 1}, {"mesh": {"data": 2, "model": 2}, "sequence_parallel": True},
    {"search": "placement", "mesh": {"data": 2, "model": 2}}, {"mesh": {"data": 2, "context": 2}, "optimizer_sharding": 2, "microbatch": 2},
    {"mesh": {"data": 4}, "optimizer_sharding": 3, "optimizer_sharding_ranks": 2}, {"mesh": {"model": 4}},
    {"mesh": {"data": 2, "stage": 2}, "microbatch": 1, "optimizer_sharding": 2, "schedule": {"name": "1f1b"}, "recompute": "full"},
    {"mesh": {"model": 2, "stage": 2}, "microbatch": 2, "schedule": {"name": "gpipe"}, "recompute": "selective"})] + [
        ("experts", 2, {"mesh": {"data": 2, "expert": 2}, "optimizer_sharding": 0, "recompute": "full"}, 1),
        ("experts", 2, {"mesh": {"data": 2, "expert": 2}, "optimizer_sharding": 2}, 1),
        ("gpt2", 2, {"mesh": {"model": 2, "stage": 2}, "microbatch": 2, "sequence_parallel": True}, 1)] + [
            (name, 2, plan, 1) for name in ("gpt2", "fused", "llama") for plan in (
                {"mesh": {"context": 2, "model": 2}, "sequence_parallel": name == "llama"},
                {"mesh": {"context": 2, "stage": 2}, "microbatch": 2, "schedule": {"name": "1f1b"}})] + [
            ("experts", 2, {"mesh": {"expert": 2, "model": 2}, "sequence_parallel": True, "microbatch": 2, "optimizer_sharding": 0}, 1),
            ("experts", 2, {"mesh": {"expert": 2, "context": 2}}, 1),
            ("experts", 2, {"mesh": {"expert": 2, "stage": 2}, "microbatch": 2, "recompute": "full"}, 1)] + [
                (name, 2, plan, 1) for name in ("gpt2", "llama", "bert", "vit", "mixtral", "mixer") for plan in APART] + [
                    (name, 2, plan, 1) for name in ("llama", "bert", "vit", "mixtral", "resnet", "mixer") for plan in PAIRS]
EIGHT = [*((name, 4, {"mesh": {"data": 2, "model": 2, "stage": 2}, "microbatch": 2, "schedule": {"name": "interleaved", "chunks": 2},
                      "recompute": "full", "optimizer_sharding": 0, "sequence_parallel": False}, 1)
           for name in ("gpt2", "llama", "bert", "vit", "mixtral", "resnet", "mixer")),
         ("experts", 2, {"mesh": {"expert": 2, "model": 2, "stage": 2}, "microbatch": 2}, 1),
         ("experts", 2, {"mesh": {"expert": 2, "context": 2, "model": 2}, "optimizer_sharding": 0}, 1),
         ("llama", 2, {"mesh": {"context": 2, "model": 2, "stage": 2}, "microbatch": 4, "recompute": "selective", "schedule": {"name": "1f1b"}}, 1)]

MEGATRON = [  # plans whose bytes PyTorch moves too
    *(("gpt2", plan) for plan in (
        {"mesh": {"model": 2}, "sequence_parallel": True}, {"mesh": {"model": 2}, "sequence_parallel": False, "layout": "megatron"},
        {"mesh": {"data": 2}, "optimizer_sharding": 0, "microbatch": 1}, {"mesh": {"data": 2}, "optimizer_sharding": 1, "microbatch": 2},
        {"mesh": {"data": 2}, "optimizer_sharding": 2, "microbatch": 2},
        {"mesh": {"data": 2}, "optimizer_sharding": 3, "microbatch": 2, "recompute": "selective"},
        {"mesh": {"stage": 2}, "microbatch": 4, "schedule": {"name": "1f1b"}},
        {"mesh": {"data": 2, "model": 2}, "sequence_parallel": True}, {"mesh": {"data": 2, "model": 2}, "optimizer_sharding": 3, "microbatch": 1})),
    *(("llama", {"mesh": {"model": 2}, "sequence_parallel": cut, "layout": "megatron"}) for cut in (False, True))]


def train(module, batches, step, parameters, factor=1):
    """Returns the losses of four steps of SGD with momentum."""
    optimizer, losses = torch.optim.SGD(parameters, lr=0.1, momentum=0.9, foreach=False), []
    for batch in batches:
        losses.append(float(step(parallel_models.double(batch))))
        for one in optimizer.param_groups[0]["params"]:
            if factor != 1:
                one.grad.mul_(factor)
        optimizer.step()
        optimizer.zero_grad()
    return losses


def alone(name, layers):
    """Returns the losses and the trained parameters of one process."""
    module, batches = parallel_models.make(name, layers)
    module.double()

    def step(batch):
        loss = module(**batch)
        loss.backward()
        return loss.detach()

    return train(module, batches, step, module.parameters()), {key: value.detach() for key, value in module.named_parameters()}


def start(function, args, ranks):
    """Runs a function in processes that are forked from one that has imported all modules, because imports take longer than most plans."""
    models = [f"transformers.models.{name}.modeling_{name}" for name in ("llama", "bert", "vit", "mixtral", "resnet")]
    lazy = ["kerf.torch.pipeline", "kerf.torch.placed", "torch._dynamo", "torch.distributed.tensor.debug", "networkx"]  # imported by the first use
    multiprocessing.set_forkserver_preload(["kerf.torch", "torch.distributed.checkpoint", *lazy, *(models if ALL else [])])
    torch.multiprocessing.start_processes(function, args, nprocs=ranks, start_method="forkserver")


def free_port():
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return found.getsockname()[1]


def worker(*args):
    with parallel_models.all_in_double():
        run_all(*args)


def forget_meshes():
    """Clears the caches in which PyTorch keeps meshes: the mesh of the next case may be equal to one of an earlier case, whose groups are gone."""
    from torch.distributed.tensor import _redistribute, debug

    debug._clear_sharding_prop_cache()
    _redistribute._gen_transform_infos.cache_clear()


def run_all(rank, ranks, port, cases, folder, first):
    """Runs all cases on one of the processes, and writes the results of rank 0. A case that fails ends this process, and with it all others,
    which would wait for it; `first` is the number of the first case."""
    torch.set_num_threads(1)
    store = dist.TCPStore("127.0.0.1", port, ranks, rank == 0, timeout=datetime.timedelta(seconds=600))
    results = []
    for number, case in enumerate(cases, first):
        begin = time.monotonic()
        # Groups of a case end with it: each of them has threads of its own.
        dist.init_process_group("gloo", store=dist.PrefixStore(str(number), store), rank=rank, world_size=ranks,
                                timeout=datetime.timedelta(seconds=600))
        try:
            results.append(run_case(case, os.path.join(folder, f"checkpoint{number}") if number in CHECKPOINTS else None))
        except (kerf.InputError, NotImplementedError) as error:  # the same on all ranks
            results.append({"refused": str(error)})
        except Exception as error:
            with contextlib.suppress(FileExistsError), open(os.path.join(folder, "failed"), "x") as file:  # others fail because of this one
                file.write(f"{number} {''.join(traceback.format_exception(error))}")
            raise
        dist.destroy_process_group()
        forget_meshes()
        if rank == 0:
            if ALL:
                print(f"{time.monotonic() - begin:6.1f} s case {number} {case[0]}", flush=True)
            with open(os.path.join(folder, "results.json"), "w") as file:
                json.dump(results, file)


def run_case(case, checkpoint):
    """Trains a module under a plan, and returns the losses and what was counted."""
    from torch.distributed.tensor.debug import CommDebugMode

    name, layers, text, factor = case
    module, batches = parallel_models.make(name, layers)
    module.double()
    counted = ALL and kerf.Plan(text).mesh.get("stage", 1) == 1 and name not in ("resnet", "experts")  # CommDebugMode fails on others
    counts = CommDebugMode() if counted else contextlib.nullcontext()
    parallel = kerf.torch.parallelize(module, kerf.Plan(text), batch=parallel_models.double(batches[0]), loss=lambda m, **batch: m(**batch),
                                      unsupported="warn" if name in ("vit", "resnet") else "raise",
                                      count=(lambda batch: (batch["labels"][:, 1:] != -100).sum()) if name == "masked" else None)
    parallel.load_state_dict(parallel.state_dict())  # changes nothing, as the losses show
    with counts:
        traffic = parallel.traffic(parallel_models.double(batches[0]))
    losses = train(module, batches, parallel.step, parallel.parameters(), factor)
    if checkpoint:
        torch.distributed.checkpoint.save(parallel.state_dict(), checkpoint_id=checkpoint)
    found = counts.get_comm_counts() if isinstance(counts, CommDebugMode) else {}
    return {"losses": losses, "notes": parallel.notes, "table": str(traffic), "calls": sum(one.calls for one in traffic.measured),
            "traffic": [traffic.sent_bytes(), traffic.planned and traffic.planned_bytes()],
            "collectives": {str(key).rsplit(".", 1)[-1]: value for key, value in found.items()}}


def attention_worker(rank, port):
    """Compares attention with a learned mask, its rows cut along context and its heads along model, with that of one process."""
    from torch.distributed.tensor import DTensor, Replicate, Shard, distribute_tensor

    from kerf.torch.context import attention

    torch.set_num_threads(1)
    os.environ.update(RANK=str(rank), WORLD_SIZE="4", MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
    dist.init_process_group("gloo", timeout=datetime.timedelta(seconds=120))
    mesh = dist.device_mesh.init_device_mesh("cpu", (2, 2), mesh_dim_names=("context", "model"))
    function = torch.nn.functional.scaled_dot_product_attention
    random = torch.Generator().manual_seed(3)
    whole = [torch.randn(*shape, generator=random, dtype=torch.double).requires_grad_() for shape in (*[(2, 4, 6, 8)] * 3, (4, 6, 6))]
    weights = torch.randn(2, 4, 6, 8, generator=random, dtype=torch.double)
    (function(*whole) * weights).sum().backward()
    for cut in ([Shard(2), Shard(1)], [Replicate(), Replicate()]):
        for mask in ([Replicate(), Replicate()], [Replicate(), Shard(0)]):
            parts = [distribute_tensor(one.detach(), mesh, places, src_data_rank=None).requires_grad_()
                     for one, places in zip(whole, (cut, cut, cut, mask))]
            out = attention(function, *parts)
            assert isinstance(out, DTensor)
            (out * distribute_tensor(weights, mesh, out.placements, src_data_rank=None)).sum().full_tensor().backward()
            for one, part in zip(whole, parts):
                assert (part.grad.full_tensor() - one.grad).abs().max() < 1e-12, (cut, mask, one.shape)
    dist.destroy_process_group()


def make_plan(path, ranks, plan):
    """Returns the plan that a search finds under constraints, or the constraints as the plan where the search does not take them.

    `edit` has arguments of the found plan that are written by hand: no search cuts parameters along data."""
    plan = dict(plan)
    edit = plan.pop("edit", {})
    search = plan.pop("search", "whole" if plan else "placement")
    if search == "none":
        return kerf.Plan({**plan, "job": {"model": path, "options": {"optimizer": "sgd"}}})
    model = kerf.Model.load(path, global_batch=8, sequence=32) if path.endswith(".json") else path
    found = kerf.plan(model, ranks=ranks, all_ranks=True, optimizer="sgd", progress=False, constraints=plan or None, search=search)
    return kerf.Plan({**found.to_dict(), "arguments": {**found.to_dict()["arguments"], **edit}}) if edit else found


class Parallelize(unittest.TestCase):
    def run_cases(self, ranks, cases):
        """Plans the cases, runs them in `ranks` processes, and returns the results and the folder of the checkpoint."""
        folder = tempfile.mkdtemp()
        models = {key: parallel_models.export(*key, folder) for key in dict.fromkeys((name, layers) for name, layers, _, _ in cases)}
        plans = [(name, layers, make_plan(models[name, layers], ranks, plan).text, factor) for name, layers, plan, factor in cases]
        results = []
        while len(results) < len(cases):
            files = {name: os.path.join(folder, name) for name in ("results.json", "failed")}
            for path in filter(os.path.exists, files.values()):
                os.remove(path)
            try:
                start(worker, (ranks, free_port(), plans[len(results):], folder, len(results)), ranks)
            except (torch.multiprocessing.ProcessRaisedException, torch.multiprocessing.ProcessExitedException):
                if not os.path.exists(files["failed"]):
                    raise
            first = len(results)
            if os.path.exists(files["results.json"]):
                with open(files["results.json"]) as file:
                    results += json.load(file)
            if os.path.exists(files["failed"]):  # the next cases can run all the same; this one fails the test
                with open(files["failed"]) as file:
                    number, text = file.read().split(" ", 1)
                results = [*results[:int(number)], {"failed": text}]
            self.assertGreater(len(results), first)
        return results, folder

    def check(self, ranks, cases):
        results, folder = self.run_cases(ranks, cases)
        self.assertEqual(len(results), len(cases))
        with parallel_models.all_in_double():
            wanted = {key: alone(*key) for key in dict.fromkeys((name, layers) for name, layers, _, _ in cases)}
        for (name, layers, plan, factor), result in zip(cases, results):
            with self.subTest(name=name, plan=plan):
                self.assertNotIn("failed", result)
            if "failed" in result:
                continue
            if "refused" in result:
                print(f"{ranks} ranks {name} {plan}: refused: {result['refused'][:300]}")
                self.assertTrue(ALL, result["refused"])
                continue
            difference = max(abs(a - b) / abs(b) for a, b in zip(result["losses"], wanted[name, layers][0]))
            if ALL:
                with self.subTest("calls", name=name, plan=plan):
                    self.assertIn(sum(result["collectives"].values()), (0, result["calls"]))
                print(f"{ranks} ranks {name} {plan}: {difference:.1e} {result['notes']}\n{result['collectives']}\n{result['table']}", flush=True)
            if (name, plan) in MEGATRON:  # the plan is for float32, and the module in float64
                with self.subTest("traffic", name=name, plan=plan):
                    sent, planned = result["traffic"]
                    self.assertLess(abs(sent / (2 * planned) - 1), 0.05, result["table"])
            if (name, plan) == ("gpt2", {"search": "placement", "mesh": {"model": 2}}):  # 1.7 times where only results of ops are placed
                with self.subTest("traffic", name=name, plan=plan):
                    sent, planned = result["traffic"]
                    self.assertLess(sent / (2 * planned), 1.5, result["table"])
            with self.subTest(name=name, plan=plan, factor=factor):
                self.assertTrue(difference < 1e-10 if factor == 1 else difference > 1e-6, f"{result['losses']} instead of {wanted[name, layers][0]}")
        return folder, wanted

    def test_two_processes(self):
        folder, wanted = self.check(2, TWO)
        for number in CHECKPOINTS:
            state = {key: torch.zeros_like(value) for key, value in wanted["gpt2", 2][1].items()}
            torch.distributed.checkpoint.load(state, checkpoint_id=os.path.join(folder, f"checkpoint{number}"), no_dist=True)
            for name, value in wanted["gpt2", 2][1].items():
                self.assertLess(float((state[name] - value).abs().max()), 1e-10, f"{number} {name}")

    @unittest.skipUnless(ALL, "KERF_ALL=1 runs all models")
    def test_all_models_in_two_processes(self):
        self.check(2, MORE_OF_TWO)

    @unittest.skipUnless(ALL, "KERF_ALL=1 runs all models")
    def test_rows_of_the_table_for_all_models(self):
        self.check(2, ROWS)

    @unittest.skipUnless(ALL, "KERF_ALL=1 runs four processes")
    def test_four_processes(self):
        self.check(4, FOUR)

    @unittest.skipUnless(ALL, "KERF_ALL=1 runs eight processes")
    def test_eight_processes(self):
        self.check(8, EIGHT)

    @unittest.skipUnless(ALL, "KERF_ALL=1 runs four and eight processes")
    def test_learned_masks_of_attention(self):
        start(attention_worker, (free_port(),), 4)

    def test_page_has_the_table_of_what_is_supported(self):
        with open(os.path.join(parallel_models.ROOT, "docs", "parallelize.md")) as file:
            rows = [line for line in file.read().splitlines() if line.startswith("| ")]
        for row in kerf.torch.SUPPORT:
            self.assertIn(f"| {row.feature} | {row.call} | {row.backends} | {row.limit} |", rows)

    def test_refusals_have_names(self):
        from kerf.torch.placement import settings

        for plan, message in (
                ({"mesh": {"data": 2, "expert": 2, "context": 2, "model": 2}, "optimizer_sharding": 2},
                 "mesh.context, mesh.expert and mesh.model together with optimizer_sharding"),
                ({"mesh": {"stage": 2, "data": 2}, "stages": [{"layers": [0, 0]}, {"layers": [1, 1], "mesh": {"expert": 2}}]},
                 "stages with mesh together with mesh.expert 2"),
                ({"mesh": {"data": 2}, "compression": {"*": {"codec": "int8"}}}, "compression of the gradients of *"),
                ({"mesh": {"stage": 2}, "ops": {"*gelu": {"recompute": True}}}, "recompute in ops with mesh.stage 2"),
                ({"mesh": {"stage": 2}, "recompute": ["full", "none"], "stages": [{"until": "*attn*"}, {}]}, "stages that end at ops"),
                ({"mesh": {"stage": 2}, "recompute": ["none", "selective"], "schedule": {"name": "zero-bubble"}}, "selective in a zero-bubble schedule"),
                ({"mesh": {"stage": 2}, "recompute": "pointwise", "schedule": {"name": "zero-bubble"}}, "pointwise in a zero-bubble schedule"),
                ({"mesh": {"stage": 2}, "optimizer_sharding": 3}, "optimizer_sharding 3 with mesh.stage 2")):
            with self.subTest(plan=plan):
                self.assertTrue(any(message in one for one in settings(kerf.Plan(plan)).refused), settings(kerf.Plan(plan)).refused)
        with self.assertRaisesRegex(kerf.InputError, "3 entries, of them 2 with until; 2 parts need 2"):
            settings(kerf.Plan({"mesh": {"stage": 2}, "stages": [{"until": "a"}, {"until": "b"}, {}]}))

    def test_names_of_ops_in_an_exported_graph(self):
        from kerf.torch.graph import Shell, by_ops, constant_nodes, matches

        module, batches = parallel_models.make("gpt2")
        graph = torch.export.export(Shell(module, lambda m, **batch: m(**batch)), (), batches[0], strict=False).module()
        nodes = list(graph.graph.nodes)
        found = [node for node in nodes if node.op == "call_function" and matches(node, "transformer.h.1.mlp.c_fc/dot_general")]
        self.assertEqual(len(found), 1)
        self.assertTrue(matches(found[0], f"node_{found[0].name}") and not matches(found[0], "transformer.h.0.mlp.c_fc/dot_general"))
        part = by_ops(nodes, ("transformer.h.0.attn*", "transformer.h.1.mlp.c_fc/*"), constant_nodes(graph))
        self.assertEqual([part[found[0]], part[next(node for node in nodes if "layer_norm" in node.name)]], [1, 0])
        with self.assertRaisesRegex(kerf.InputError, "matches no op"):
            by_ops(nodes, ("transformer.h.7*",), constant_nodes(graph))

    def test_losses_that_are_no_mean_are_refused(self):
        batch = {"x": torch.randn(4, 3, dtype=torch.double)}
        from kerf.torch.checks import check_mean

        with self.assertRaisesRegex(kerf.InputError, "the loss of two samples is"):
            check_mean(torch.nn.Linear(3, 3).double(), lambda m, x: m(x).sum(), batch, None)
        check_mean(torch.nn.Linear(3, 3).double(), lambda m, x: m(x).mean(), batch, None)


if __name__ == "__main__":
    unittest.main()
