# SPDX-License-Identifier: Apache-2.0
"""A plan as the settings of Hugging Face's libraries: Transformers, Accelerate and Trainer.

    config = kerf.hf.transformers_config(plan, LlamaForCausalLM)   # a DistributedConfig
    model = LlamaForCausalLM.from_pretrained(path, distributed_config=config)

A plan that a library cannot run raises kerf.InputError with the decision in question. A difference that leaves the
numbers of the training alone is a kerf.Warning.
"""
from __future__ import annotations

import re
import warnings
from typing import TYPE_CHECKING, Any, Optional

from .errors import InputError, Warning
from .model import Model
from .plans import Layout, Plan, PlanLike, as_plan

if TYPE_CHECKING:
    from accelerate.parallelism_config import ParallelismConfig
    from torch import nn
    from transformers.distributed.configuration_utils import DistributedConfig

    from .hf_callback import PlanCallback


def _refuse_axes(plan: Plan, library: str, **reasons: str) -> None:
    for axis, reason in reasons.items():
        size = plan.mesh.get(axis, 1)
        if size > 1:
            raise InputError(f"mesh.{axis} is {size}, but {library} {reason}; plan with constraints={{'mesh': {{'{axis}': 1}}}}")


def _one_value(plan: Plan, key: str, default: Any) -> Any:
    """Returns the value of a key that plans may give stage by stage, in a plan of one stage."""
    value = plan.to_dict().get(key, default)
    return value[0] if isinstance(value, list) and value and not isinstance(default, list) else value


def _shards(plan: Plan) -> tuple[int, int]:
    """Returns over how many data ranks states are sharded, and how many copies of the shards there are."""
    data = plan.mesh.get("data", 1)
    if _one_value(plan, "optimizer_sharding", 0) == 0:
        return 1, data
    shards = plan.to_dict().get("optimizer_sharding_ranks") or data
    if data % shards:
        raise InputError(f"optimizer_sharding_ranks is {shards}, which does not divide the {data} data ranks")
    return shards, data // shards


def _check_order(plan: Plan) -> None:
    order = [axis for axis in plan.order if plan.mesh.get(axis, 1) > 1]
    if order and order != [axis for axis in ("data", "context", "model") if axis in order]:
        raise InputError(f"the plan's order of axes is {', '.join(order)}, but ranks are always numbered data, context, model (outermost first); "
                         "plan with constraints={'order': ['stage', 'data', 'expert', 'context', 'model']}")


def _pattern(name: str) -> str:
    return re.sub(r"(^|\.)\d+(?=\.|$)", r"\1*", name)


def _cut(name: str, layout: Layout) -> Optional[int]:
    """Returns the dimension of a parameter that the axis model cuts; None: no dimension is cut."""
    cut = [(dim, place) for dim, sizes in enumerate(layout.folds) for place, size in enumerate(sizes) if "model" in layout.axes[size]]
    if not cut:
        return None
    dim, place = cut[0]
    if len(cut) > 1 or any(layout.sizes[size] > 1 for size in layout.folds[dim][:place]):
        raise InputError(f"the plan cuts {name} of shape {list(layout.shape)} in the middle of dimension {dim}, which Transformers cannot; "
                         "plan with constraints={'layout': 'megatron'}, or export the model with its projections apart")
    return dim


def _cuts_by_module(module: nn.Module, layouts: dict[str, Layout]) -> dict[str, Optional[int]]:
    """Returns for each pattern of a module with a weight the dimension of the weight that the plan cuts."""
    import torch

    same: dict[int, list[str]] = {}  # the names of each parameter: tied ones have several
    for name, parameter in module.named_parameters(remove_duplicate=False):
        same.setdefault(id(parameter), []).append(name)
    found: dict[str, Optional[int]] = {}
    for names in same.values():
        name = next((one for one in names if one in layouts), None)
        if name is None:
            raise InputError(f"the plan has no parameter {names[0]}: it was made for another model, or under other names")
        dim = _cut(name, layouts[name])
        for one in names:
            path, _, leaf = one.rpartition(".")
            if leaf == "bias":
                continue  # it goes with its weight
            owner = module.get_submodule(path)
            if leaf != "weight" or not isinstance(owner, (torch.nn.Linear, torch.nn.Embedding)):
                if dim is None:
                    continue
                raise InputError(f"the plan cuts {one} of a {type(owner).__name__}, but Transformers cuts Linear and Embedding only; "
                                 "plan with constraints={'layout': 'megatron'}")
            key = _pattern(path)
            if key in found and found[key] != dim:
                raise InputError(f"the plan cuts {one} by {dim}, and another layer's by {found[key]}; Transformers has one rule for all layers")
            found[key] = dim
    return found


def _styles(module: Any, cuts: dict[str, Optional[int]]) -> dict[str, str]:
    """Returns Transformers' style for each module. Blocks that the plan cuts as the model's own rules do keep these rules, under
    which values stay cut between modules; every other module takes and returns whole values."""
    import torch

    rules = {name: style for name, style in module.tp_plan.items() if name in cuts}
    dimension = {"colwise": 0, "rowwise": 1}
    blocks: dict[str, bool] = {}
    for name, style in rules.items():
        block = name.rpartition(".")[0]
        blocks[block] = blocks.get(block, True) and cuts[name] == dimension.get(style, -1)
    styles: dict[str, str] = {}
    for name, dim in cuts.items():
        embedding = any(isinstance(one, torch.nn.Embedding) for path, one in module.named_modules() if _pattern(path) == name)
        if name in rules and blocks[name.rpartition(".")[0]]:
            styles[name] = rules[name]
        elif dim is not None:
            styles[name] = ("embedding_rowwise", "embedding_colwise")[dim] if embedding else ("colwise_rep", "rowwise_rep")[dim]
        elif name in module.tp_plan:
            styles[name] = "replicate"
    for name, style in module.tp_plan.items():  # norms inside of a block, experts, routers
        if name not in cuts:
            styles[name] = style if blocks.get(name.rpartition(".")[0]) else "replicate"
    return styles


def transformers_config(plan: PlanLike, module: Any, *, model: Optional[Model] = None) -> DistributedConfig:
    """Returns the DistributedConfig of Transformers that trains by the plan.

    `module` is the model, which may be on the device meta; its parameters have the names of the planned model. `model` is the
    planned kerf.Model where the plan does not know it. Pipelines, context and expert parallelism are refused.
    """
    from transformers.distributed.configuration_utils import DistributedConfig

    its = as_plan(plan)
    _refuse_axes(its, "Transformers", stage="trains without pipelines", context="has no context parallelism",
                 expert="numbers expert ranks across data and model")
    _check_order(its)
    shards, copies = _shards(its)
    tensor = its.mesh.get("model", 1)
    level = _one_value(its, "optimizer_sharding", 0)
    if shards > 1 and level in (1, 2):
        warnings.warn(f"optimizer_sharding is {level}: FSDP 2 shards the parameters too between steps, and gathers them once a step", Warning, stacklevel=2)
    fsdp_plan = None if level == 3 or copies * shards == 1 else {name: "keep_full_weight" for name in module.fsdp_plan}
    tp_plan = _styles(module, _cuts_by_module(module, its.layouts(model))) if tensor > 1 else None
    options = its.to_dict().get("job", {}).get("options", {})
    return DistributedConfig(tp_size=tensor, tp_plan=tp_plan, fsdp_size=shards, dp_replicate_size=copies, fsdp_plan=fsdp_plan,
                             fsdp_mixed_precision=options.get("dtype") == "bf16")


def parallelism_config(plan: PlanLike) -> ParallelismConfig:
    """Returns the ParallelismConfig of Accelerate for the plan, as Accelerator and TrainingArguments take it.

    Accelerate wants FSDP 2 beside it. How tensors are cut is decided by the model's own rules, or transformers_config.
    """
    from accelerate.parallelism_config import ParallelismConfig

    its = as_plan(plan)
    _refuse_axes(its, "Accelerate", stage="trains without pipelines", expert="has no axis for experts")
    _check_order(its)
    content = its.to_dict()
    ulysses = content.get("context_style") == "ulysses"
    context, tensor = its.mesh.get("context", 1), its.mesh.get("model", 1)
    if ulysses and context > 1 and tensor > 1:
        raise InputError(f"context_style is ulysses with mesh.context {context} and mesh.model {tensor}, but Accelerate runs Ulysses by DeepSpeed, "
                         "which has no tensor parallelism there; plan with constraints={'context_style': 'ring'}")
    shards, copies = _shards(its)
    if shards == 1 and copies > 1 and (tensor > 1 or context > 1):
        warnings.warn(f"optimizer_sharding is 0 beside mesh.model {tensor} and mesh.context {context}: Accelerate combines these with FSDP only, "
                      f"so states are sharded over the {copies} data ranks", Warning, stacklevel=2)
        shards, copies = copies, 1
    return ParallelismConfig(dp_replicate_size=copies, dp_shard_size=shards, tp_size=tensor,
                             cp_size=1 if ulysses else context, sp_size=context if ulysses else 1)


def plan_callback(plan: PlanLike) -> PlanCallback:
    """Returns a callback for Trainer(callbacks=[...]) that compares the training with the plan.

    When the training begins, arguments of Trainer that contradict the plan raise kerf.InputError. Each log of Trainer gets
    the median seconds of the steps since the last log and the peak of memory, beside those that the plan predicts.
    """
    from .hf_callback import PlanCallback

    return PlanCallback(as_plan(plan))


def training_arguments(plan: PlanLike) -> dict[str, Any]:
    """Returns the plan's settings of Trainer, as keyword arguments of TrainingArguments.

    They are the batch, gradient accumulation, recomputation, the type, and AdamW's constants. The learning rate is not among them.
    """
    its = as_plan(plan)
    _refuse_axes(its, "Trainer", stage="trains without pipelines")
    content = its.to_dict()
    missing = [key for key in ("global_batch", "microbatch") if not content.get(key)]
    if missing:
        raise InputError(f"the plan has no {missing[0]}, which Trainer needs; plans of kerf.plan for a config.json have it")
    samples, micro = content["global_batch"], content["microbatch"]
    ranks = its.mesh.get("data", 1) * its.mesh.get("expert", 1)
    if samples % (ranks * micro):
        raise InputError(f"global_batch {samples} is not a multiple of {ranks} data ranks times microbatch {micro}")
    recompute = _one_value(its, "recompute", "none")
    if recompute not in ("none", "full"):
        raise InputError(f"recompute is {recompute!r}, but Trainer recomputes all layers or none; plan with constraints={{'recompute': 'full'}}")
    options = content.get("job", {}).get("options", {})
    settings: dict[str, Any] = {"per_device_train_batch_size": micro, "gradient_accumulation_steps": samples // (ranks * micro),
                                "gradient_checkpointing": recompute == "full", "bf16": options.get("dtype") == "bf16",
                                "fp16": options.get("dtype") == "f16"}
    if options.get("optimizer") == "adamw":
        names = {"beta1": "adam_beta1", "beta2": "adam_beta2", "eps": "adam_epsilon", "weight_decay": "weight_decay"}
        settings |= {"optim": "adamw_torch"} | {theirs: float(options[ours]) for ours, theirs in names.items() if ours in options}
        if settings.get("weight_decay", 0) > 0 and not options.get("no_decay"):
            warnings.warn("Trainer decays neither biases nor norms, which the plan's AdamW does", Warning, stacklevel=2)
    if options:  # Trainer clips at a norm of 1 where nothing is said
        settings["max_grad_norm"] = float(options.get("clip_norm", 0))
    return settings
