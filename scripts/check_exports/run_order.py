# SPDX-License-Identifier: Apache-2.0
"""Runs the order of a pipeline's tasks that kerf export wrote for TorchTitan: PyTorch's runtime trains a step of a small model with
one process a part of the machine, and each gradient is compared with that of a single process.

  python -m check_exports.run_order job.schedule.csv                  one process a stage
  python -m check_exports.run_order job.schedule.csv --inside fsdp    two processes a stage, which shard the parameters
  python -m check_exports.run_order job.schedule.csv --inside tensor  two processes a stage, tensor and sequence parallelism
"""
from __future__ import annotations

import argparse
import copy
import re

import torch
import torch.distributed as dist
import torch.multiprocessing
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.pipelining import PipelineStage
from torch.distributed.pipelining.schedules import _PipelineScheduleRuntime
from torch.distributed.tensor import DTensor, Shard
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, SequenceParallel, parallelize_module

WIDTH, TOKENS, TOLERANCE = 16, 6, 1e-5


class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm, self.up, self.down = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, 2 * WIDTH), nn.Linear(2 * WIDTH, WIDTH)

    def forward(self, x):
        return x + self.down(nn.functional.silu(self.up(self.norm(x))))


def loss_of(output, target):
    return ((output - target) ** 2).sum()


def placed(part, inside, mesh):
    """Returns a part of the model with parameters that are cut over the ranks of a stage."""
    for layer in part:
        if inside == "fsdp":
            fully_shard(layer, mesh=mesh, reshard_after_forward=False)
        elif inside == "tensor":
            parallelize_module(layer, mesh, {"norm": SequenceParallel(), "up": ColwiseParallel(input_layouts=Shard(1)),
                                             "down": RowwiseParallel(output_layouts=Shard(1))})
    return fully_shard(part, mesh=mesh, reshard_after_forward=False) if inside == "fsdp" else part


def work(rank, path, stages, parts, microbatches, inside, port):
    across = 1 if inside == "none" else 2
    dist.init_process_group("gloo", init_method=f"tcp://127.0.0.1:{port}", rank=rank, world_size=stages * across)
    mesh = init_device_mesh("cpu", (stages, across), mesh_dim_names=("stage", "inside"))
    stage, its = mesh.get_local_rank("stage"), mesh.get_local_rank("inside")
    torch.manual_seed(0)
    whole = [nn.Sequential(Layer(), Layer()) for _ in range(parts)]
    groups = across if inside == "fsdp" else 1  # ranks with samples of their own
    samples, targets = (torch.randn(groups, microbatches, TOKENS, WIDTH) for _ in range(2))
    x, target = samples[its % groups], targets[its % groups]
    if inside == "tensor":
        x, target = x.chunk(across, 1)[its], target.chunk(across, 1)[its]
    mine = {part: placed(copy.deepcopy(whole[part]), inside, mesh["inside"]) for part in range(stage, parts, stages)}
    runtime = _PipelineScheduleRuntime([PipelineStage(module, part, parts, torch.device("cpu"), group=mesh.get_group("stage"))
                                        for part, module in mine.items()], n_microbatches=microbatches, loss_fn=loss_of, scale_grads=False)
    runtime._load_csv(path)
    runtime.step(*([x] if stage == 0 else []), **({"target": target} if stage == stages - 1 else {}))
    for one, wanted in zip(samples, targets):
        for part in whole:
            one = part(one)
        loss_of(one, wanted).backward()
    worst = 0.0
    for part, module in mine.items():
        for found, wanted in zip(module.parameters(), whole[part].parameters()):
            gradient = found.grad.full_tensor() if isinstance(found.grad, DTensor) else found.grad
            expected = wanted.grad / groups  # FSDP takes the mean
            worst = max(worst, ((gradient - expected).abs().max() / expected.abs().max()).item())
    print(f"stage {stage}, rank {its}: gradients differ by at most {worst:.1e}", flush=True)
    dist.destroy_process_group()
    if not worst < TOLERANCE:
        raise SystemExit(f"gradients of stage {stage} differ")


def main():
    parser = argparse.ArgumentParser(prog="check_exports.run_order")
    parser.add_argument("path", help="the order's file")
    parser.add_argument("--inside", choices=("none", "fsdp", "tensor"), default="none", help="what cuts the parameters of a stage")
    parser.add_argument("--port", type=int, default=29517, help="a free port of this machine")
    given = parser.parse_args()
    with open(given.path) as file:
        rows = [re.findall(r"(\d+)([FBIW])(\d+)", line) for line in file]
    parts = 1 + max(int(part) for row in rows for part, _, _ in row)
    microbatches = 1 + max(int(number) for row in rows for _, _, number in row)
    ranks = len(rows) * (1 if given.inside == "none" else 2)
    torch.multiprocessing.spawn(work, (given.path, len(rows), parts, microbatches, given.inside, given.port), nprocs=ranks)


if __name__ == "__main__":
    main()
