# SPDX-License-Identifier: Apache-2.0
"""Reads a plan as the settings that PyTorch needs: sizes of the mesh, the cut of each parameter, and what PyTorch cannot do."""
from __future__ import annotations

import dataclasses
import fnmatch
import json
import math
import re
from typing import Any, Optional

import torch
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh

from ..checks import instance
from ..errors import InputError
from ..model import Model
from ..plans import Layout, Plan
from .recompute import SAVED


@dataclasses.dataclass(frozen=True)
class Row:
    """One feature of a plan, the PyTorch calls that run it, and where it runs: "gloo, nccl", or "" where it is refused."""

    feature: str
    call: str
    backends: str
    limit: str


BOTH = "gloo, nccl"
SUPPORT = (
    Row("mesh.data", "all_reduce of gradients after the backward pass", BOTH, "the batch's first dimension is cut"),
    Row("mesh.model", "distribute_tensor over the axis, redistribute after each product", BOTH, "no active dropout"),
    Row("fused query, key and value", "DTensor of reordered columns", BOTH, "nn.Linear and Conv1D outside pipelines; else DTensor gathers them"),
    Row("sequence_parallel", "redistribute to Shard(1) after products that sum", BOTH, "dimension 1 is the sequence"),
    Row("optimizer_sharding 1", "fully_shard(reshard_after_forward=False)", BOTH, "runs as level 2"),
    Row("optimizer_sharding 2", "fully_shard(reshard_after_forward=False)", BOTH, "dimension 0 is cut"),
    Row("optimizer_sharding 3", "fully_shard(reshard_after_forward=True)", BOTH, "dimension 0 is cut; not with several stages"),
    Row("optimizer_sharding_ranks", "fully_shard on a mesh (replicate, shard)", BOTH, ""),
    Row("microbatch", "sum of gradients over microbatches", BOTH, ""),
    Row("recompute full", "torch.utils.checkpoint of a layer", BOTH, ""),
    Row("recompute selective", "torch.utils.checkpoint that saves matrix products of parameters", BOTH,
        "also recomputes pointwise ops; refused in a zero-bubble schedule, with a warning full"),
    Row("recompute pointwise", "torch.utils.checkpoint that saves matrix products and attention", BOTH,
        "refused in a zero-bubble schedule, with a warning full"),
    Row("recompute except-attention", "torch.utils.checkpoint that saves attention", BOTH,
        "refused in a zero-bubble schedule, with a warning full"),
    Row("stages", "torch.export, one graph for each stage, PipelineStage", BOTH, "dense tensors of fixed shapes"),
    Row("stages until an op", "the exported graph is cut at the op", BOTH, "recompute has one value; each part is recomputed as a whole"),
    Row("schedule gpipe, 1f1b, interleaved", "ScheduleGPipe, Schedule1F1B, ScheduleInterleaved1F1B", BOTH,
        "as zero-bubble where PyTorch's need more microbatches"),
    Row("schedule zero-bubble", "the order of Kerf's tasks as a CSV", BOTH, "all variants"),
    Row("recompute offload", "saved_tensors_hooks with copies in the host's memory", BOTH, "of each layer"),
    Row("convolutions cut along model", "", "", "refused; with a warning they are whole on each rank"),
    Row("compression", "", "", "refused; with a warning gradients are summed as they are"),
    Row("strategies in ops", "the exported graph on DTensors, redistribute before and after each op that the plan names", BOTH,
        "gradients of weights follow DTensor; not with stages, sharded optimizers or sequence_parallel"),
    Row("recompute in ops", "create_selective_checkpoint_contexts by op", BOTH, "as strategies in ops"),
    Row("parameters cut along data by a placement plan", "DTensor, Shard on the axis data", BOTH, "as strategies in ops"),
    Row("mesh.context", "distribute_tensor of the sequence; attention gathers keys and values", BOTH,
        "dimension 1 of the batch is the sequence"),
    Row("mesh.expert", "all_gather of tokens, local experts, reduce_scatter", BOTH,
        "experts as Transformers 5 stores them"),
    Row("stages with meshes of their own", "a DeviceMesh for each stage; samples are gathered where a stage ends", BOTH,
        "values between stages have samples first; not with mesh.expert"),
)


@dataclasses.dataclass(frozen=True)
class Placement:
    """The placement of one parameter: `dimension` is cut along the axis model (None: it is whole), within each of `blocks` equal blocks."""

    name: str
    shape: tuple[int, ...]
    dimension: Optional[int] = None
    blocks: int = 1
    data: Optional[int] = None  # the dimension that a plan of the search over placements cuts along data
    expert: bool = False  # whether dimension 0 is cut along expert


@dataclasses.dataclass(frozen=True)
class Settings:
    """The decisions of a plan that are not placements of parameters."""

    mesh: tuple[tuple[str, int], ...]  # axes of more than one rank, the outermost first
    batch: Optional[int]
    microbatch: Optional[int]
    level: int
    shard_ranks: int
    sequence_parallel: bool
    recompute: Any
    schedule: str
    chunks: int
    stages: tuple[tuple[int, ...], ...]  # first and last layer of each part; empty: evenly
    layers: int  # number of layers that the plan counts; 0: unknown
    refused: tuple[str, ...]
    notes: tuple[str, ...]
    by_op: bool = False  # whether the exported graph runs on DTensors, each op by its own strategy
    until: tuple[str, ...] = ()  # names of the ops after which the parts of the pipeline but the last end
    apart: int = 0  # the number of stages that have meshes of their own; 0: all stages have one mesh

    def size(self, axis: str) -> int:
        """Returns the number of ranks along an axis."""
        return dict(self.mesh).get(axis, 1)

    @property
    def groups(self) -> int:
        """The number of groups of ranks that have different samples."""
        return self.size("data") * self.size("expert")


@dataclasses.dataclass(frozen=True)
class Job:
    """A plan, its settings, and the model that it was made for, if the user gave it."""

    plan: Plan
    settings: Settings
    model: Optional[Model]


def settings(plan: Plan, stage_number: Optional[int] = None) -> Settings:
    """Reads the decisions of a plan, and lists by name those that PyTorch cannot run.

    Where stages have meshes of their own, they are those of one stage, and without its number those of the first stage."""
    content = plan.to_dict()
    order = plan.order or ("stage", "data", "context", "expert", "model")
    sizes, microbatch, apart = own_mesh(content, plan.mesh, stage_number or 0)
    refused: list[str] = []
    notes: list[str] = []
    if apart:
        check_apart(order, sizes, refused)
    _check_axes(content, sizes, refused, notes)
    level = content.get("optimizer_sharding", 0)
    stage, data = sizes.get("stage", 1), sizes.get("data", 1)
    if isinstance(level, list):
        if len(set(level)) > 1:
            refused.append(f"optimizer_sharding differs between stages: {level}; give one value")
        level = max(level)
    if level == 1 and data > 1:
        notes.append("optimizer_sharding 1 runs as 2: fully_shard shards gradients together with optimizer states")
    if content.get("compression"):
        refused.append(f"compression of the gradients of {', '.join(content['compression'])}, which PyTorch sums as they are; remove the key compression")
    if level == 3 and stage > 1:
        refused.append(f"optimizer_sharding 3 with mesh.stage {stage}; give optimizer_sharding 2")
    recompute = content.get("recompute", "none")
    by_op = _by_op(content, sizes, level, refused, notes)
    schedule = content.get("schedule", {})
    name, chunks = schedule.get("name", "1f1b"), schedule.get("chunks", 1)
    for mode in SAVED:
        if name == "zero-bubble" and stage > 1 and mode in modes(recompute):
            refused.append(f"recompute {mode} in a zero-bubble schedule: both halves of a backward pass recompute, and PyTorch keeps what it saved for "
                           "one of them; give recompute full, or the schedule 1f1b")
            recompute = json.loads(json.dumps(recompute).replace(f'"{mode}"', '"full"'))
    until, parts = _stages(content, stage, chunks, refused)
    if until and not isinstance(recompute, str):
        refused.append("recompute by layers or stages with stages that end at ops; give recompute one value")
    shard_ranks = content.get("optimizer_sharding_ranks", data)
    if data % shard_ranks:
        raise InputError(f"optimizer_sharding_ranks is {shard_ranks}, which does not divide mesh.data {data}")
    counted = max((entry["layers"][-1] + 1 for entry in content.get("stages", []) if entry.get("layers")), default=0)
    level = 0 if shard_ranks == 1 else level
    used = tuple((axis, sizes[axis]) for axis in order if sizes.get(axis, 1) > 1)
    if apart and stage_number is None:
        for one in (settings(plan, number) for number in range(1, stage)):
            refused += [text for text in one.refused if text not in refused]
    return Settings(used, content.get("global_batch"), microbatch, level, shard_ranks, bool(content.get("sequence_parallel", False)),
                    recompute, name, chunks, parts, counted, tuple(refused), tuple(notes), by_op, until, stage if apart else 0)


def modes(recompute: Any) -> list[str]:
    """Returns the modes in a plan's key recompute: one for all layers, a list by stage, or an object by layers."""
    return [recompute] if isinstance(recompute, str) else list(recompute.values() if isinstance(recompute, dict) else recompute)


def own_mesh(content: dict[str, Any], sizes: dict[str, int], stage: int) -> tuple[dict[str, int], Optional[int], bool]:
    """Returns the sizes of the mesh and the microbatch of a stage, and whether stages have meshes of their own."""
    count, microbatch = sizes.get("stage", 1), content.get("microbatch")
    entries = content.get("stages", []) if count > 1 else []
    given = {entry.get("stage", number % count): entry["mesh"] for number, entry in enumerate(entries) if entry.get("mesh")}
    if not given:
        return sizes, microbatch, False
    whole = {axis: size for axis, size in sizes.items() if axis != "stage"}
    base = whole if any(size > 1 for size in whole.values()) else given.get(0, {})
    own = given.get(stage, base)
    before, groups = (one.get("data", 1) * one.get("expert", 1) for one in (base, own))
    if microbatch is not None:
        if microbatch * before % groups:
            raise InputError(f"a microbatch has {microbatch * before} samples, which data times expert of stage {stage}, {groups}, has to divide")
        microbatch = microbatch * before // groups
    return {"stage": count, **own}, microbatch, True


def check_apart(order: tuple[str, ...], sizes: dict[str, int], refused: list[str]) -> None:
    """Refuses meshes of single stages that PyTorch does not run."""
    used = [axis for axis in order if sizes.get(axis, 1) > 1]
    if "stage" not in (used[0], used[-1]):
        refused.append(f"stages with mesh, where stage is between the axes {', '.join(used)}; make it the first or the last of the plan's order")
    if sizes.get("expert", 1) > 1:
        refused.append(f"stages with mesh together with mesh.expert {sizes['expert']}, whose ranks exchange tokens of one mesh; give mesh.expert 1")


def stage_of(read: Settings, rank: int, ranks: int) -> int:
    """Returns the stage of a rank; the axis stage is the first or the last one where stages have meshes of their own."""
    stages = read.size("stage")
    return rank * stages // ranks if read.mesh[0][0] == "stage" else rank % stages


def _check_axes(content: dict[str, Any], sizes: dict[str, int], refused: list[str], notes: list[str]) -> None:
    """Refuses axes that PyTorch does not run, alone or together."""
    for axis, size in sizes.items():
        if size > 1 and axis not in ("stage", "data", "model", "context", "expert"):
            refused.append(f"mesh.{axis} is {size}; give the plan mesh.{axis} 1")
    sharded = content.get("optimizer_sharding", 0) not in (0, [0]) and sizes.get("data", 1) > 1
    if sharded and all(sizes.get(axis, 1) > 1 for axis in ("context", "expert", "model")):
        refused.append("mesh.context, mesh.expert and mesh.model together with optimizer_sharding, because fully_shard takes parameters that are cut "
                       "along two axes at most; give optimizer_sharding 0")
    for axis in ("context", "expert"):
        if sizes.get(axis, 1) > 1 and content.get("optimizer_sharding", 0) not in (0, [0]):
            notes.append(f"fully_shard shards over data, and the plan over data and {axis}")
    if sizes.get("context", 1) > 1:
        notes.append("attention gathers keys and values along context; the plan passes them around the ranks, or moves heads")


def _by_op(content: dict[str, Any], sizes: dict[str, int], level: int, refused: list[str], notes: list[str]) -> bool:
    """Returns whether the ops of the plan run by their own strategies, and says so where they cannot."""
    ops = content.get("ops", {})
    cut = any("data" in axes for name, dims in content.get("arguments", {}).items() for axes in dims[1:] if not name.startswith("@"))
    pinned = any("recompute" in pin for pin in ops.values())
    model = sizes.get("model", 1) > 1 and any(pin.get("strategy") for pin in ops.values())
    others = [f"mesh.{axis} {sizes[axis]}" for axis in ("stage", "context", "expert") if sizes.get(axis, 1) > 1]
    others += [f"optimizer_sharding {level}"] if level and sizes.get("data", 1) > 1 else []
    others += ["sequence_parallel"] if content.get("sequence_parallel") else []
    if pinned and others:
        refused.append(f"recompute in ops with {others[0]}; give the plan's key recompute")
    if model and others:
        notes.append(f"with {others[0]} DTensor chooses the strategies of ops: results are equal, the traffic may differ from the plan's")
    return bool(pinned or model or cut) and not others


def _stages(content: dict[str, Any], stage: int, chunks: int, refused: list[str]) -> tuple[tuple[str, ...], tuple[tuple[int, ...], ...]]:
    """Returns the ops after which parts of a pipeline end, or the layers of each part."""
    parts: list[tuple[int, ...]] = [()] * (stage * chunks)
    entries = content.get("stages", []) if stage > 1 else []
    if any("until" in entry for entry in entries):
        if len(entries) != len(parts) or any("until" not in entry for entry in entries[:-1]) or "until" in entries[-1]:
            raise InputError(f"stages has {len(entries)} entries, of them {sum('until' in one for one in entries)} with until; {len(parts)} parts "
                             f"need {len(parts)} entries, all but the last with until")
        return tuple(entry["until"] for entry in entries[:-1]), ()
    for number, entry in enumerate(entries):
        where = entry.get("chunk", number // stage) * stage + entry.get("stage", number % stage)
        if where >= len(parts):
            raise InputError(f"stages: entry {number} is part {where}, but {stage} stages of {chunks} chunks have {len(parts)} parts")
        parts[where] = tuple(entry["layers"]) if entry.get("layers") else ()
    given = sum(1 for part in parts if part)
    if entries and given < len(parts):
        refused.append(f"stages states the layers of {given} of {len(parts)} parts; state all")
    return (), tuple(parts) if given == len(parts) and entries else ()


def device_mesh(plan: Plan, device_type: Optional[str] = None) -> DeviceMesh:
    """Returns the mesh of a plan with its axes of more than one rank; data is two axes where optimizer sharding covers a part of it.

    Where stages have meshes of their own, it is that of this rank's stage."""
    instance(plan, Plan, "plan is a kerf.Plan")
    if device_type is not None:
        instance(device_type, str, 'device_type is a text such as "cpu"')
    read, ranks = settings(plan), torch.distributed.get_world_size()
    kind = device_type or ("cuda" if torch.cuda.is_available() else "cpu")
    made = [_device_mesh(settings(plan, number), kind, ranks) for number in range(read.apart or 1)]  # every rank makes all of them
    return made[stage_of(read, torch.distributed.get_rank(), ranks) if read.apart else 0]


def _device_mesh(read: Settings, kind: str, ranks: int) -> DeviceMesh:
    axes: list[tuple[str, int]] = []
    for axis, size in read.mesh:
        if axis == "data" and read.level and 1 < read.shard_ranks < size:
            axes += [("replicate", size // read.shard_ranks), ("data", read.shard_ranks)]
        else:
            axes.append((axis, size))
    axes = axes or [("data", 1)]
    if ranks != math.prod(size for _, size in axes):
        raise InputError(f"the plan is for {math.prod(size for _, size in axes)} ranks, but {ranks} processes run; start as many as the plan has")
    return init_device_mesh(kind, tuple(size for _, size in axes), mesh_dim_names=tuple(axis for axis, _ in axes))


def _placement(name: str, layout: Layout, read: Settings, refused: list[str]) -> Placement:
    found: list[tuple[int, int]] = []
    data, expert = None, False
    for dimension, sizes in enumerate(layout.folds):
        for position, size in enumerate(sizes):
            # Where stages have meshes of their own, an axis such as "data|model" is data in some and model in others. Only model cuts there.
            axes = {"model" if "model" in axis.split("/")[0].split("|") else axis for axis in layout.axes[size]}
            if "model" in axes:
                found.append((dimension, math.prod(layout.sizes[one] for one in sizes[:position])))
            others = axes & {"data", "expert", "context"}
            if others == {"expert"} and (dimension, position) == (0, 0):
                expert = True
            elif others == {"data"} and read.by_op:
                data = dimension
            elif others and read.level < 3:
                refused.append(f"parameter {name} is cut along {', '.join(sorted(axes))} without optimizer_sharding 3")
    if len(found) > 1:
        refused.append(f"parameter {name} is cut along model in {len(found)} dimensions")
    return Placement(name, layout.shape, *(found[0] if found else (None, 1)), data, expert)


def settings_of(plan: Plan, module: torch.nn.Module, stage: Optional[int] = None) -> Settings:
    """Reads the decisions of a plan for a module. One with convolutions runs as a whole and not op by op: DTensor cannot cut them."""
    read = settings(plan, stage)
    if not read.by_op or not any(isinstance(one, torch.nn.modules.conv._ConvNd) for one in module.modules()):
        return read
    refused = list(read.refused)
    if any("recompute" in pin for pin in plan.to_dict().get("ops", {}).values()):
        refused.append("recompute in ops of a module with convolutions; give the plan's key recompute")
    note = "DTensor chooses the strategies of ops in a module with convolutions: results are equal, the traffic may differ from the plan's"
    return dataclasses.replace(read, by_op=False, refused=tuple(refused), notes=(*read.notes, note))


def placements(plan: Plan, module: torch.nn.Module, model: Optional[Model] = None) -> tuple[dict[str, Placement], list[str]]:
    """Returns the placement of each parameter of a module by its name, and the placements that PyTorch cannot run."""
    instance(plan, Plan, "plan is a kerf.Plan")
    instance(module, torch.nn.Module, "module is a torch.nn.Module")
    layouts, read, refused = plan.layouts(model), settings_of(plan, module), []
    names: dict[int, list[str]] = {}
    for name, parameter in module.named_parameters(remove_duplicate=False):
        names.setdefault(id(parameter), []).append(name)
    convolutions = {id(one) for owner in module.modules() if isinstance(owner, torch.nn.modules.conv._ConvNd) for one in owner.parameters()}
    result = {}
    for name, parameter in module.named_parameters():
        known = next((alias for one in names[id(parameter)] for alias in (one, one.replace(".mlp.", ".block_sparse_moe.")) if alias in layouts), None)
        if known is None:
            raise InputError(f"the plan has no parameter {name} of the module; its parameters begin with {', '.join(list(layouts)[:3])}. "
                             "Plan an export of this module")
        if tuple(parameter.shape) != layouts[known].shape:
            raise InputError(f"parameter {name} has the shape {tuple(parameter.shape)} in the module and {layouts[known].shape} in the plan")
        result[name] = _placement(name, layouts[known], read, refused)
        if id(parameter) in convolutions and result[name].dimension is not None:
            refused.append(f"parameter {name} of a convolution is cut along model, for which DTensor has no rule; without this it is whole")
            result[name] = Placement(name, tuple(parameter.shape))
    return result, refused


def recompute_mode(value: Any, layer: int, name: str, stage: int, stages: int) -> str:
    """Returns the recomputation of a layer: "none", "selective", "pointwise", "except-attention", "full" or "offload"."""
    if isinstance(value, str):
        return value
    if isinstance(value, list):
        if len(value) != stages:
            raise InputError(f"recompute has {len(value)} values for {stages} stages")
        return value[stage]
    for key, mode in value.items():
        numbers = re.fullmatch(r"(\d+)(?:-(\d+))?", key)
        if numbers and int(numbers[1]) <= layer <= int(numbers[2] or numbers[1]):
            return mode
        if not numbers and (fnmatch.fnmatchcase(name, key) or fnmatch.fnmatchcase(str(layer), key)):
            return mode
    return "none"
