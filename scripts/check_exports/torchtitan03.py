# SPDX-License-Identifier: Apache-2.0
"""Reads a module of TorchTitan 0.3 with its ConfigManager, and builds the model on the device "meta"."""
from __future__ import annotations

import sys

import torch
import torchtitan.components.quantization.float8
from torchtitan.config import ConfigManager
from torchtitan.distributed import ParallelDims

from .common import differences, parameters_of, sizes_of
from .pipeline_order import check_order

torchtitan.components.quantization.float8.has_cuda_capability = lambda *_: True  # no GPU here


def check(path, plan, model, case):
    sys.path.insert(0, str(path.parent))
    try:
        config = ConfigManager().parse_args(["--module", path.stem, "--config", "job"])
    finally:
        sys.path.pop(0)
        sys.modules.pop(path.stem, None)
    p, training, sizes = config.parallelism, config.training, sizes_of(plan)
    dims = ParallelDims(dp_replicate=p.data_parallel_replicate_degree, dp_shard=p.data_parallel_shard_degree, cp=p.context_parallel_degree,
                        tp=p.tensor_parallel_degree, pp=p.pipeline_parallel_degree, ep=p.expert_parallel_degree, world_size=sizes["ranks"])
    if training.seq_len % dims.seq_len_divisor:
        return [f"the sequence {training.seq_len} is no multiple of {dims.seq_len_divisor}"]
    config.model_spec.model.update_from_config(config=config)
    with torch.device("meta"):
        built = config.model_spec.model.build()
    experts = "num_experts" in model or "num_local_experts" in model or "n_routed_experts" in model
    found = {"stage": p.pipeline_parallel_degree, "context": p.context_parallel_degree, "model": p.tensor_parallel_degree,
             "data": p.data_parallel_replicate_degree * p.data_parallel_shard_degree // (sizes["expert"]), "batch": training.global_batch_size,
             "microbatch": p.pipeline_parallel_microbatch_size if sizes["stage"] > 1 else training.local_batch_size,
             "expert": p.expert_parallel_degree if experts else sizes["expert"]}
    wrong = differences({name: sizes[name] for name in found}, found)
    parts = p.module_fqns_per_model_part or [[]]
    if len(parts) != sizes["stage"] * sizes["chunks"]:
        wrong.append(f"{len(parts)} parts, not {sizes['stage']} x {sizes['chunks']}")
    if p.module_fqns_per_model_part:
        modules = {name for name, _ in built.named_modules()}
        wrong += [f"no module {name}" for part in parts for name in part if name not in modules]
    if p.pipeline_parallel_schedule_csv:
        microbatches = plan["global_batch"] // plan["microbatch"] // (sizes["data"] * sizes["expert"])
        wrong += check_order(p.pipeline_parallel_schedule_csv, sizes["stage"], sizes["chunks"], microbatches)
    elif p.pipeline_parallel_schedule == "1F1B" and sizes["schedule"] == "zero-bubble":
        wrong.append("no order of tasks for a zero-bubble schedule")
    counted, wanted = sum(one.numel() for one in built.parameters()), parameters_of(model)
    if counted != wanted:
        wrong.append(f"{counted:,} parameters, Transformers has {wanted:,}")
    return wrong
