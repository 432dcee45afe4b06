# SPDX-License-Identifier: Apache-2.0
"""What several readers share: a plan's sizes, and the number of parameters that Transformers counts."""
from __future__ import annotations

import functools
import json


def sizes_of(plan: dict) -> dict:
    """Returns the sizes of a plan under short names, with the axes that are absent."""
    mesh = {axis: plan["mesh"].get(axis, 1) for axis in ("stage", "data", "context", "expert", "model")}
    ranks = 1
    for size in mesh.values():
        ranks *= size
    schedule = plan.get("schedule", {})
    return dict(mesh, ranks=ranks, batch=plan["global_batch"], microbatch=plan["microbatch"], chunks=schedule.get("chunks", 1),
                schedule=schedule.get("name", "1f1b"))


def differences(wanted: dict, found: dict) -> list[str]:
    return [f"{name} is {found[name]}, the plan's is {value}" for name, value in wanted.items() if found[name] != value]


@functools.lru_cache(maxsize=None)
def _parameters(text: str) -> int:
    import torch
    from transformers import AutoConfig, AutoModelForCausalLM

    content = json.loads(text)
    config = AutoConfig.for_model(content.pop("model_type"), **content)
    with torch.device("meta"):
        model = AutoModelForCausalLM.from_config(config)
    unread = sum(module.offset * module.embedding_dim for module in model.modules() if hasattr(module, "offset"))
    return sum(parameter.numel() for parameter in model.parameters()) - unread


def parameters_of(model: dict) -> int:
    """Returns how many parameters Transformers' class of the model has. Shared ones count once, and the first rows of
    OPT's table of positions, which stand for padding, do not count."""
    return _parameters(json.dumps(model, sort_keys=True))
