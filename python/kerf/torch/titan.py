# SPDX-License-Identifier: Apache-2.0
"""kerf.torch.titan_parallelize_fn: trains a model of TorchTitan 0.3 under a plan.

TorchTitan calls the `parallelize_fn` of a model's specification for each part of the model. The degrees, the batch and the
schedule are settings of the job, which `kerf export --to torchtitan-0.3` writes. The function made here checks that they
are the plan's, and adds what no setting of TorchTitan says: recomputation by layer, by stage, and by offloading.
"""
from __future__ import annotations

import dataclasses
import importlib
import warnings
from collections.abc import Callable
from typing import Any, Optional

import torch

from ..checks import callable_
from ..errors import InputError
from ..errors import Warning as KerfWarning
from ..plans import Plan, PlanLike, as_plan
from .placement import modes, recompute_mode
from .recompute import recompute

ORDER = ["stage", "data", "expert", "context", "model"]  # of TorchTitan's axes, the outermost first


@dataclasses.dataclass(frozen=True)
class _Recomputation:
    """The plan's recomputation, in the form of TorchTitan's policies: `build(...).apply(model)`."""

    value: Any
    stage: int
    stages: int

    def build(self, **settings: Any) -> _Recomputation:
        """Returns the policy itself, which has no other settings."""
        return self

    def apply(self, model: torch.nn.Module) -> None:
        """Recomputes each layer of a part of the model as the plan says. Layers are numbered in the whole model."""
        for number, layer in model.get_submodule("layers").named_children():
            recompute(layer, recompute_mode(self.value, int(number), f"layers.{number}", self.stage, self.stages))


def titan_parallelize_fn(plan: PlanLike, parallelize_fn: Optional[Callable[..., torch.nn.Module]] = None) -> Callable[..., torch.nn.Module]:
    """Returns a `parallelize_fn` for the ModelSpec of a model of TorchTitan 0.3, under which the model is trained as the plan says.

    `parallelize_fn` is TorchTitan's own function for the model; by default it is the one beside the model's class. The job whose
    settings are not the plan's is refused with both values. A difference that leaves the numbers alone is a kerf.Warning.
    """
    read = as_plan(plan)
    if parallelize_fn is not None:
        callable_(parallelize_fn, "parallelize_fn")
    content = read.to_dict()
    _refuse(content, read)

    def parallelize(model: torch.nn.Module, *, parallel_dims: Any, training: Any, parallelism: Any, compile_config: Any, ac_config: Any,
                    dump_folder: str) -> torch.nn.Module:
        _check(content, read, parallel_dims, training, parallelism)
        stages = read.mesh.get("stage", 1)
        stage = parallel_dims.get_mesh("pp").get_local_rank() if stages > 1 else 0
        level = _level(content)
        if level:
            parallelism = dataclasses.replace(parallelism, fsdp_reshard_after_forward="always" if level == 3 else "never")
        own = parallelize_fn or _own(model)
        policy = _Recomputation(content.get("recompute", "none"), stage, stages)
        return own(model, parallel_dims=parallel_dims, training=training, parallelism=parallelism, compile_config=compile_config,
                   ac_config=policy, dump_folder=dump_folder)

    return parallelize


def _level(content: dict[str, Any]) -> int:
    level = content.get("optimizer_sharding", 0)
    return max(level) if isinstance(level, list) else level


def _refuse(content: dict[str, Any], plan: Plan) -> None:
    """Refuses the decisions that TorchTitan has no way to run, and warns of those that it runs in another way."""
    level, order = content.get("optimizer_sharding", 0), [axis for axis in plan.order if plan.mesh.get(axis, 1) > 1]
    if content.get("compression"):
        raise InputError(f"the plan compresses the gradients of {', '.join(content['compression'])}, which FSDP sums as they are; plan without "
                         "the key compression")
    if any(pin.get("strategy") or "recompute" in pin for pin in content.get("ops", {}).values()):
        raise InputError("the plan has strategies or recomputation of single ops in its key ops, but TorchTitan cuts all layers of a model alike; "
                         "plan with search=\"whole\"")
    if any("mesh" in entry for entry in content.get("stages", [])):
        raise InputError("stages of the plan have meshes of their own, but TorchTitan has one mesh for all stages; plan without meshes in stages")
    if isinstance(level, list) and len(set(level)) > 1:
        raise InputError(f"optimizer_sharding differs between stages: {level}; plan with constraints={{'optimizer_sharding': {max(level)}}}")
    if content.get("schedule", {}).get("name") == "zero-bubble" and set(modes(content.get("recompute", "none"))) != {"none"}:
        raise InputError("the plan recomputes in a zero-bubble schedule, in which PyTorch would recompute for each half of a backward pass; plan "
                         "with constraints={'recompute': 'none'} or {'schedule': {'name': '1f1b'}}")
    if order != [axis for axis in ORDER if axis in order]:
        warnings.warn(f"the plan's ranks lie as {', '.join(order)} (outermost first), and TorchTitan's as {', '.join(ORDER)}: groups of ranks use "
                      "other links than planned", KerfWarning, stacklevel=3)
    if _level(content) == 1:
        warnings.warn("optimizer_sharding 1 runs as 2: FSDP shards gradients and parameters together with optimizer states", KerfWarning, stacklevel=3)


def _check(content: dict[str, Any], plan: Plan, dims: Any, training: Any, parallelism: Any) -> None:
    """Refuses a job whose settings are not those of the plan."""
    mesh = {axis: plan.mesh.get(axis, 1) for axis in ORDER}
    level, samples = _level(content), mesh["data"] * mesh["expert"]
    pairs = [("pipeline_parallel_degree", dims.pp, mesh["stage"]),
             ("context_parallel_degree", dims.cp, mesh["context"]),
             ("tensor_parallel_degree", dims.tp, mesh["model"]),
             ("data_parallel_replicate_degree times data_parallel_shard_degree", dims.dp_replicate * dims.dp_shard, samples)]
    if dims.ep > 1:  # in a model without experts the plan's axis expert is one more axis of samples
        pairs.append(("expert_parallel_degree", dims.ep, mesh["expert"]))
    ranks = content.get("optimizer_sharding_ranks") or samples * mesh["context"]
    if level and samples > 1:
        pairs.append(("data_parallel_shard_degree times context_parallel_degree", dims.dp_shard * dims.cp, ranks))
    if mesh["model"] > 1:
        pairs.append(("enable_sequence_parallel", parallelism.enable_sequence_parallel, bool(content.get("sequence_parallel", False))))
    if content.get("microbatch"):
        name = "pipeline_parallel_microbatch_size" if mesh["stage"] > 1 else "local_batch_size"
        pairs.append((name, getattr(parallelism if mesh["stage"] > 1 else training, name), content["microbatch"]))
    if content.get("global_batch"):
        batch = training.global_batch_size if training.global_batch_size > 0 else training.local_batch_size * samples
        pairs.append(("global_batch_size", batch, content["global_batch"]))
    for name, given, wanted in pairs:
        if given != wanted:
            raise InputError(f"{name} is {given} in the job, but {wanted} in the plan; take the settings that kerf export --to torchtitan-0.3 writes")
    if not level and dims.dp_shard * dims.cp > 1:
        warnings.warn(f"optimizer_sharding is 0, but TorchTitan shards over {dims.dp_shard * dims.cp} ranks of data and context: less memory, "
                      "a gather more", KerfWarning, stacklevel=3)


def _own(model: torch.nn.Module) -> Callable[..., torch.nn.Module]:
    """Returns TorchTitan's function for a model: the only parallelize_* of the module `parallelize` beside the class of the model."""
    name = type(model).__module__.rpartition(".")[0] + ".parallelize"
    try:
        module = importlib.import_module(name)
    except ImportError as error:
        raise InputError(f"there is no module {name} with a function for {type(model).__name__}; give parallelize_fn=") from error
    found = [one for key, one in vars(module).items() if key.startswith("parallelize_") and getattr(one, "__module__", "") == name]
    if len(found) != 1:
        raise InputError(f"the module {name} has {len(found)} functions parallelize_*, not one; give parallelize_fn=")
    return found[0]
