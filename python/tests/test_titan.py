#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Models of TorchTitan 0.3 train under kerf.torch.titan_parallelize_fn on four processes as on one, recompute what the plan says,
and refuse jobs whose settings are not the plan's. The jobs are those that kerf export writes."""
import dataclasses
import importlib.util
import json
import multiprocessing
import os
import socket
import subprocess
import sys
import tempfile
import types
import unittest
import warnings

if any(importlib.util.find_spec(package) is None for package in ("torch", "torchtitan", "datasets")):
    raise unittest.SkipTest("torch and torchtitan 0.3 are not installed")

import torch  # noqa: E402
import torch.distributed as dist  # noqa: E402
import torchtitan.tools.utils  # noqa: E402

torchtitan.tools.utils.device_type = "cpu"  # TorchTitan takes the GPU that a machine without one does not have
import torchtitan.distributed.parallel_dims  # noqa: E402
import torchtitan.models.common.attention  # noqa: E402
import torchtitan.models.common.config_utils as config_utils  # noqa: E402
from torchtitan.config import ParallelismConfig, TrainingConfig  # noqa: E402

torchtitan.distributed.parallel_dims.device_type = "cpu"
import kerf  # noqa: E402
import kerf.torch  # noqa: E402

MODEL = {"model_type": "llama", "vocab_size": 64, "hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 4, "num_attention_heads": 4,
         "num_key_value_heads": 2, "max_position_embeddings": 16, "rms_norm_eps": 1e-5, "hidden_act": "silu"}
ORDER = ["stage", "data", "expert", "context", "model"]
PLANS = [  # the decisions of a plan on four ranks, and how often each layer runs in a microbatch
    ({"mesh": {"data": 2, "model": 2}, "sequence_parallel": True, "optimizer_sharding": 3, "recompute": {"0-1": "full", "2": "selective"}}, (2, 2, 2, 1)),
    ({"mesh": {"data": 4}, "optimizer_sharding": 2, "optimizer_sharding_ranks": 2, "recompute": {"1-2": "full"}}, (1, 2, 2, 1)),
    ({"mesh": {"data": 2, "model": 2}, "sequence_parallel": False, "optimizer_sharding": 2, "recompute": "none"}, (1, 1, 1, 1)),
    ({"mesh": {"data": 2, "stage": 2}, "optimizer_sharding": 2, "schedule": {"name": "1f1b"}, "recompute": ["full", "none"]}, (2, 2, 1, 1)),
]
RANKS, SAMPLES, LENGTH, STEPS = 4, 8, 16, 4
ALL = bool(os.environ.get("KERF_ALL"))


def job_of(folder, number, decisions):
    """Plans the model as plan<number>.json, and exports the plan to TorchTitan 0.3 as the module job<number>.py."""
    config, path = os.path.join(folder, "config.json"), os.path.join(folder, f"plan{number}.json")
    with open(config, "w") as file:
        json.dump(MODEL, file)
    kerf.plan(kerf.Model.from_config(MODEL, global_batch=SAMPLES, sequence=LENGTH), "dgx-a100", ranks=4, dtype="f32", optimizer=kerf.AdamW(),
              progress=False, constraints={"order": ORDER, "microbatch": 1, **decisions}).save(path)
    subprocess.run([os.environ.get("KERF", "kerf"), "export", config, "--plan", path, "--to", "torchtitan-0.3", "--sequence", str(LENGTH),
                    "-o", os.path.join(folder, f"job{number}.py")], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def parts_of(job, plan, count):
    """Builds the model of a job as TorchTitan's Trainer does, under the plan. Returns its parts, its schedule, and the axes of ranks."""
    from torchtitan.distributed import ParallelDims
    from torchtitan.distributed import utils

    dims = ParallelDims.from_config(job.parallelism, dist.get_world_size())
    utils.set_spmd_backend(job.parallelism.spmd_backend)
    spec = dataclasses.replace(job.model_spec, parallelize_fn=kerf.torch.titan_parallelize_fn(plan))
    spec.model.update_from_config(config=job)
    with torch.device("meta"):
        model = spec.model.build()
    given = {"parallel_dims": dims, "training": job.training, "parallelism": job.parallelism, "compile_config": job.compile,
             "ac_config": job.activation_checkpoint, "dump_folder": ""}
    if dims.pp > 1:
        schedule, parts, _, _ = spec.pipelining_fn(model, **given, device=torch.device("cpu"), model_config=spec.model,
                                                   parallelize_fn=spec.parallelize_fn, loss_fn=loss_of)
    else:
        schedule, parts = None, [spec.parallelize_fn(model, **given)]
    for part in parts:
        part.to_empty(device="cpu")
        with torch.no_grad():
            part.init_weights()
        for one in part.modules():
            if hasattr(one, "set_force_sum_reduction_for_comms"):
                one.set_force_sum_reduction_for_comms(True)  # gloo has no scaled sums
        for name, layer in part.layers.named_children():
            layer.attention_norm.register_forward_pre_hook(lambda *_, number=int(name): count.append(number))
    return parts, schedule, dims


def loss_of(logits, labels, **_):
    from torchtitan.components.loss import cross_entropy_loss

    return cross_entropy_loss(logits, labels, global_vocab_size=MODEL["vocab_size"]) / (SAMPLES * LENGTH), None


def batches():
    return torch.randint(0, MODEL["vocab_size"], (STEPS, SAMPLES, LENGTH + 1), generator=torch.Generator().manual_seed(1))


def reference(job, values):
    """Returns the losses of one process, whose model begins with the same values."""
    with torch.device("meta"):
        model = job.model_spec.model.build()
    model.to_empty(device="cpu")
    with torch.no_grad():
        model.init_weights()
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            parameter.copy_(values[name])
    optimizer, losses = torch.optim.SGD(model.parameters(), lr=1.0, momentum=0.9), []
    for batch in batches():
        loss = torch.nn.functional.cross_entropy(model(batch[:, :-1]).flatten(0, 1), batch[:, 1:].flatten())
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.item())
    return losses


def train(parts, schedule, dims, scale):
    """Trains as TorchTitan's train_step does, and returns the losses on the rank that has them."""
    from torchtitan.distributed import utils

    context = utils.get_spmd_context(parallel_dims=dims)
    optimizer = torch.optim.SGD([one for part in parts for one in part.parameters()], lr=1.0, momentum=0.9, foreach=False)
    groups, losses = dims.dp_replicate * dims.dp_shard, []
    rank = dims.get_mesh("batch").get_local_rank()
    for batch in batches():
        rows = batch[rank * SAMPLES // groups:(rank + 1) * SAMPLES // groups]
        pieces, total = [(one[:, :-1], one[:, 1:]) for one in rows.split(1)], torch.zeros(())
        with context():
            if schedule:
                found = []
                has = [stage for stage in schedule._stages] if hasattr(schedule, "_stages") else [schedule._stage]
                schedule.step(arg_mbs=[(one,) for one, _ in pieces] if any(one.is_first for one in has) else None, kwarg_mbs=[{} for _ in pieces],
                              target_mbs=[label for _, label in pieces] if any(one.is_last for one in has) else None, losses=found,
                              return_outputs=False)
                total = sum(found, total).detach()
            else:
                for one, label in pieces:
                    loss = loss_of(parts[0](one), label)[0]
                    (loss * scale).backward()
                    total = total + loss.detach()
        optimizer.step()
        optimizer.zero_grad()
        dist.all_reduce(total, group=dims.get_mesh("loss").get_group())
        losses.append(total.item())
    return losses


def worker(rank, port, folder, number, scale):
    """One of four processes. The last one, which has the losses of pipelines, writes what was found."""
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port), RANK=str(rank), WORLD_SIZE=str(RANKS), LOCAL_RANK=str(rank))
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    dist.init_process_group("gloo")
    # The kernels of FlexAttention on CPUs need a compiler.
    config_utils.get_attention_config = lambda _: torchtitan.models.common.attention.ScaledDotProductAttention.Config()
    sys.path.insert(0, folder)
    exported, ran = importlib.import_module(f"job{number}"), []
    parts, schedule, dims = parts_of(exported.job(), kerf.Plan.load(os.path.join(folder, f"plan{number}.json")), ran)
    with torch.no_grad():
        mine = {name: one.full_tensor() if hasattr(one, "full_tensor") else one.clone() for part in parts for name, one in part.named_parameters()}
    everyone = [None] * RANKS
    dist.all_gather_object(everyone, mine)
    losses = train(parts, schedule, dims, scale)
    runs = [None] * RANKS
    dist.all_gather_object(runs, ran)
    if rank == RANKS - 1:
        wanted = reference(exported.job(), {name: one for values in everyone for name, one in values.items()})
        microbatches = STEPS * SAMPLES // (dims.dp_replicate * dims.dp_shard)
        with open(os.path.join(folder, f"found{number}.json"), "w") as file:
            json.dump({"losses": losses, "reference": wanted,
                       "runs": [max(one.count(layer) for one in runs) // microbatches for layer in range(MODEL["num_hidden_layers"])]}, file)
    dist.destroy_process_group()


class Titan(unittest.TestCase):
    def run_case(self, decisions, scale=1.0):
        with tempfile.TemporaryDirectory() as folder, socket.socket() as free:
            job_of(folder, 0, decisions)
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
            free.close()
            multiprocessing.set_forkserver_preload(["test_titan"])
            torch.multiprocessing.start_processes(worker, (port, folder, 0, scale), nprocs=RANKS, start_method="forkserver")
            with open(os.path.join(folder, "found0.json")) as file:
                return json.load(file)

    def difference(self, found):
        return max(abs(one - other) / other for one, other in zip(found["losses"], found["reference"], strict=True))

    def test_losses_and_recomputation_are_those_of_the_plan(self):
        for decisions, runs in PLANS if ALL else PLANS[:1]:
            with self.subTest(plan=decisions):
                found = self.run_case(decisions)
                self.assertLess(self.difference(found), 2e-6, found)
                self.assertEqual(tuple(found["runs"]), runs)

    def test_jobs_with_other_settings_are_refused(self):
        plan = {"mesh": {"data": 2, "model": 2}, "global_batch": 8, "microbatch": 1, "optimizer_sharding": 2, "sequence_parallel": True}
        right = {"tp": 2, "dp_shard": 2, "enable_sequence_parallel": True, "local_batch_size": 1, "global_batch_size": 8}
        self.assertEqual(self.parallelized(plan, **right), "never")
        self.assertEqual(self.parallelized({**plan, "optimizer_sharding": 3}, **right), "always")
        with self.assertWarnsRegex(kerf.Warning, "optimizer_sharding is 0, but TorchTitan shards over 2 ranks"):
            self.assertEqual(self.parallelized({**plan, "optimizer_sharding": 0}, **right), "default")
        for changes, message in (
                ({"tp": 1}, "tensor_parallel_degree is 1 in the job, but 2 in the plan"),
                ({"pp": 2}, "pipeline_parallel_degree is 2 in the job, but 1 in the plan"),
                ({"dp_replicate": 2}, "data_parallel_replicate_degree times data_parallel_shard_degree is 4 in the job, but 2 in the plan"),
                ({"dp_shard": 1, "dp_replicate": 2}, "data_parallel_shard_degree times context_parallel_degree is 1 in the job, but 2 in the plan"),
                ({"ep": 2}, "expert_parallel_degree is 2 in the job, but 1 in the plan"),
                ({"enable_sequence_parallel": False}, "enable_sequence_parallel is False in the job, but True in the plan"),
                ({"local_batch_size": 2}, "local_batch_size is 2 in the job, but 1 in the plan"),
                ({"global_batch_size": -1}, "global_batch_size is 2 in the job, but 8 in the plan")):
            with self.subTest(changes=changes), self.assertRaisesRegex(kerf.InputError, message):
                self.parallelized(plan, **{**right, **changes})

    def test_plans_that_torchtitan_cannot_run_are_refused(self):
        for changes, message in (
                ({"compression": {"*": {"codec": "int8"}}}, "compresses the gradients of \\*"),
                ({"ops": {"a*": {"recompute": True}}}, "strategies or recomputation of single ops"),
                ({"mesh": {"stage": 2}, "stages": [{"layers": [0, 1], "mesh": {"data": 2}}, {"layers": [2, 3], "mesh": {"model": 2}}]}, "meshes of their own"),
                ({"mesh": {"stage": 2}, "optimizer_sharding": [1, 2]}, "optimizer_sharding differs between stages: \\[1, 2\\]"),
                ({"schedule": {"name": "zero-bubble", "variant": "h1"}, "recompute": "full"}, "recomputes in a zero-bubble schedule")):
            with self.subTest(changes=changes), self.assertRaisesRegex(kerf.InputError, message):
                kerf.torch.titan_parallelize_fn(changes)
        kerf.torch.titan_parallelize_fn({"mesh": {"stage": 2}, "schedule": {"name": "zero-bubble", "variant": "h1"}, "recompute": ["none", "none"]})
        with self.assertWarnsRegex(kerf.Warning, "ranks lie as model, data"):
            kerf.torch.titan_parallelize_fn({"mesh": {"data": 2, "model": 2}, "order": ["model", "data", "stage", "context", "expert"]})
        with self.assertRaisesRegex(TypeError, "parallelize_fn is a function"):
            kerf.torch.titan_parallelize_fn({}, "parallelize_llama")
        with self.assertRaisesRegex(kerf.InputError, "no module .*parallelize with a function for Linear; give parallelize_fn="):
            self.parallelized({}, model=torch.nn.Linear(1, 1), own=None)

    def parallelized(self, plan, model=None, own=lambda model, parallelism, **_: parallelism, **settings):
        """Calls the function of a plan with settings of a job; returns fsdp_reshard_after_forward as TorchTitan's function gets it."""
        dims = types.SimpleNamespace(**{"pp": 1, "cp": 1, "tp": 1, "dp_replicate": 1, "dp_shard": 1, "ep": 1, **settings})
        parallelism = ParallelismConfig(enable_sequence_parallel=settings.get("enable_sequence_parallel", True))
        training = TrainingConfig(local_batch_size=settings.get("local_batch_size", 8), global_batch_size=settings.get("global_batch_size", -1))
        return kerf.torch.titan_parallelize_fn(plan, own)(model, parallel_dims=dims, training=training, parallelism=parallelism, compile_config=None,
                                                          ac_config=None, dump_folder="").fsdp_reshard_after_forward

    def test_a_wrong_scale_of_gradients_is_seen(self):
        self.assertGreater(self.difference(self.run_case(PLANS[0][0], 1.01)), 1e-4)


if __name__ == "__main__":
    unittest.main()
