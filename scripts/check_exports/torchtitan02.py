# SPDX-License-Identifier: Apache-2.0
"""Reads a TOML file for TorchTitan 0.2. Only the last version of TorchTitan fits into the environment, so the file is held
against the fields of TorchTitan 0.2.2's configuration classes (torchtitan/config/job_config.py)."""
from __future__ import annotations

import tomllib

from .common import differences, parameters_of, sizes_of

FIELDS = {
    "model": "name flavor converters",
    "training": "seq_len local_batch_size global_batch_size max_norm mixed_precision_param mixed_precision_reduce",
    "parallelism": "data_parallel_replicate_degree data_parallel_shard_degree fsdp_reshard_after_forward tensor_parallel_degree "
                   "pipeline_parallel_degree module_fqns_per_model_part pipeline_parallel_schedule pipeline_parallel_microbatch_size "
                   "context_parallel_degree context_parallel_rotate_method expert_parallel_degree expert_tensor_parallel_degree "
                   "enable_async_tensor_parallel",
    "activation_checkpoint": "mode selective_ac_option", "compile": "enable", "optimizer": "name beta1 beta2 eps weight_decay",
}
PARAMETERS = {  # of the flavors, counted from the sizes in torchtitan/models/*/__init__.py of 0.2.2
    ("llama3", "8B"): 8_030_261_248, ("llama3", "70B"): 70_553_706_496, ("qwen3", "8B"): 8_190_735_360, ("qwen3", "1.7B"): 1_720_574_976,
    ("qwen3", "30B-A3B"): 30_532_122_624,
}


def check(path, plan, model, case):
    job = tomllib.loads(path.read_text())
    wrong = [f"no field {section}.{key}" for section, values in job.items() for key in values if key not in FIELDS.get(section, "").split()]
    p, training, sizes = job["parallelism"], job["training"], sizes_of(plan)
    found = {"stage": p["pipeline_parallel_degree"], "context": p["context_parallel_degree"], "model": p["tensor_parallel_degree"],
             "data": p["data_parallel_replicate_degree"] * p["data_parallel_shard_degree"] // sizes["expert"], "batch": training["global_batch_size"],
             "microbatch": p.get("pipeline_parallel_microbatch_size", training["local_batch_size"])}
    wrong += differences({name: sizes[name] for name in found}, found)
    counted, wanted = PARAMETERS[job["model"]["name"], job["model"]["flavor"]], parameters_of(model)
    if counted != wanted:
        wrong.append(f"{counted:,} parameters, Transformers has {wanted:,}")
    return wrong
