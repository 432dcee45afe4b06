# SPDX-License-Identifier: Apache-2.0
"""Reads a plan as the settings that PyTorch needs: sizes of the mesh, the cut of each parameter, and what PyTorch cannot do."""
from __future__ import annotations

import dataclasses
import fnmatch
import math
import re
from typing import Any, Optional

import torch
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh

from ..errors import InputError
from ..model import Model
from ..plans import Layout, Plan


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
    Row("sequence_parallel", "redistribute to Shard(1) after products that sum", BOTH, "dimension 1 is the sequence; not in pipelines"),
    Row("optimizer_sharding 1", "fully_shard(reshard_after_forward=False)", BOTH, "runs as level 2"),
    Row("optimizer_sharding 2", "fully_shard(reshard_after_forward=False)", BOTH, "dimension 0 is cut"),
    Row("optimizer_sharding 3", "fully_shard(reshard_after_forward=True)", BOTH, "dimension 0 is cut; not with several stages"),
    Row("optimizer_sharding_ranks", "fully_shard on a mesh (replicate, shard)", BOTH, ""),
    Row("microbatch", "sum of gradients over microbatches", BOTH, ""),
    Row("recompute full", "torch.utils.checkpoint of a layer", BOTH, ""),
    Row("recompute selective", "torch.utils.checkpoint that saves matrix products of parameters", BOTH, "also recomputes pointwise ops"),
    Row("stages", "torch.export, one graph for each stage, PipelineStage", BOTH, "cuts at layers; dense tensors of fixed shapes"),
    Row("schedule gpipe, 1f1b, interleaved", "ScheduleGPipe, Schedule1F1B, ScheduleInterleaved1F1B", BOTH, "at least as many microbatches as stages"),
    Row("schedule zero-bubble", "ScheduleInterleavedZeroBubble", BOTH, "variant h1 only"),
    Row("recompute offload", "", "", "refused"),
    Row("convolutions cut along model", "", "", "refused; with a warning they are whole on each rank"),
    Row("recompute in ops", "", "", "refused"),
    Row("mesh.context", "", "", "refused"),
    Row("mesh.expert", "", "", "refused"),
    Row("stages with meshes of their own, or until an op", "", "", "refused"),
    Row("parameters cut along data by a placement plan", "", "", "refused"),
    Row("strategies in ops", "DTensor chooses them", BOTH, "a note says so; results are equal, traffic may differ"),
)


@dataclasses.dataclass(frozen=True)
class Placement:
    """The placement of one parameter: `dimension` is cut along the axis model (None: it is whole), within each of `blocks` equal blocks."""

    name: str
    shape: tuple[int, ...]
    dimension: Optional[int] = None
    blocks: int = 1


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

    def size(self, axis: str) -> int:
        """Returns the number of ranks along an axis."""
        return dict(self.mesh).get(axis, 1)


def settings(plan: Plan) -> Settings:
    """Reads the decisions of a plan, and lists by name those that PyTorch cannot run."""
    content = plan.to_dict()
    order = plan.order or ("stage", "data", "context", "expert", "model")
    sizes = plan.mesh
    refused, notes = [], []
    for axis, size in sizes.items():
        if size > 1 and axis not in ("stage", "data", "model"):
            refused.append(f"mesh.{axis} is {size}; give the plan mesh.{axis} 1")
    level = content.get("optimizer_sharding", 0)
    stage, data = sizes.get("stage", 1), sizes.get("data", 1)
    if isinstance(level, list):
        if len(set(level)) > 1:
            refused.append(f"optimizer_sharding differs between stages: {level}; give one value")
        level = max(level)
    if level == 1 and data > 1:
        notes.append("optimizer_sharding 1 runs as 2: fully_shard shards gradients together with optimizer states")
    if level == 3 and stage > 1:
        refused.append(f"optimizer_sharding 3 with mesh.stage {stage}; give optimizer_sharding 2")
    if content.get("sequence_parallel") and stage > 1:
        refused.append(f"sequence_parallel with mesh.stage {stage}; give sequence_parallel false")
    recompute = content.get("recompute", "none")
    values = list(recompute.values()) if isinstance(recompute, dict) else recompute if isinstance(recompute, list) else [recompute]
    if "offload" in values:
        refused.append('recompute "offload"; give "full", "selective" or "none"')
    if any("recompute" in pin for pin in content.get("ops", {}).values()):
        refused.append("recompute in ops; give the plan's key recompute")
    if content.get("ops"):
        notes.append("DTensor chooses the strategies of ops: results are equal, the traffic may differ from the plan's")
    schedule = content.get("schedule", {})
    name, chunks = schedule.get("name", "1f1b"), schedule.get("chunks", 1)
    if stage > 1 and name == "zero-bubble" and schedule.get("variant", "h1") != "h1":
        refused.append(f"zero-bubble variant {schedule['variant']}; give variant h1")
    parts: list[tuple[int, ...]] = [()] * (stage * chunks)
    entries = content.get("stages", []) if stage > 1 else []
    for number, entry in enumerate(entries):
        if "until" in entry or "mesh" in entry:
            refused.append("stages with " + ("until" if "until" in entry else "mesh") + "; give layers")
            continue
        where = entry.get("chunk", number // stage) * stage + entry.get("stage", number % stage)
        if where >= len(parts):
            raise InputError(f"stages: entry {number} is part {where}, but {stage} stages of {chunks} chunks have {len(parts)} parts")
        parts[where] = tuple(entry["layers"]) if entry.get("layers") else ()
    given = sum(1 for part in parts if part)
    if entries and given < len(parts):
        refused.append(f"stages states the layers of {given} of {len(parts)} parts; state all")
    shard_ranks = content.get("optimizer_sharding_ranks", data)
    if data % shard_ranks:
        raise InputError(f"optimizer_sharding_ranks is {shard_ranks}, which does not divide mesh.data {data}")
    counted = max((entry["layers"][-1] + 1 for entry in content.get("stages", []) if entry.get("layers")), default=0)
    level = 0 if shard_ranks == 1 else level
    used = tuple((axis, sizes[axis]) for axis in order if sizes.get(axis, 1) > 1)
    return Settings(used, content.get("global_batch"), content.get("microbatch"), level, shard_ranks, bool(content.get("sequence_parallel", False)),
                    recompute, name, chunks, tuple(parts) if given == len(parts) and entries else (), counted, tuple(refused), tuple(notes))


def device_mesh(plan: Plan, device_type: Optional[str] = None) -> DeviceMesh:
    """Returns the mesh of a plan with its axes of more than one rank; data is two axes where optimizer sharding covers a part of it."""
    read = settings(plan)
    kind = device_type or ("cuda" if torch.cuda.is_available() else "cpu")
    axes: list[tuple[str, int]] = []
    for axis, size in read.mesh:
        if axis == "data" and read.level and 1 < read.shard_ranks < size:
            axes += [("replicate", size // read.shard_ranks), ("data", read.shard_ranks)]
        else:
            axes.append((axis, size))
    axes = axes or [("data", 1)]
    ranks = torch.distributed.get_world_size()
    if ranks != math.prod(size for _, size in axes):
        raise InputError(f"the plan is for {math.prod(size for _, size in axes)} ranks, but {ranks} processes run; start as many as the plan has")
    return init_device_mesh(kind, tuple(size for _, size in axes), mesh_dim_names=tuple(axis for axis, _ in axes))


def _placement(name: str, layout: Layout, level: int, refused: list[str]) -> Placement:
    found: list[tuple[int, int]] = []
    for dimension, sizes in enumerate(layout.folds):
        for position, size in enumerate(sizes):
            if "model" in layout.axes[size]:
                found.append((dimension, math.prod(layout.sizes[one] for one in sizes[:position])))
            if level < 3 and set(layout.axes[size]) & {"data", "expert", "context"}:
                refused.append(f"parameter {name} is cut along {', '.join(layout.axes[size])} without optimizer_sharding 3")
    if len(found) > 1:
        refused.append(f"parameter {name} is cut along model in {len(found)} dimensions")
    return Placement(name, layout.shape, *found[0]) if found else Placement(name, layout.shape)


def placements(plan: Plan, module: torch.nn.Module, model: Optional[Model] = None) -> tuple[dict[str, Placement], list[str]]:
    """Returns the placement of each parameter of a module by its name, and the placements that PyTorch cannot run."""
    layouts, level, refused = plan.layouts(model), settings(plan).level, []
    names: dict[int, list[str]] = {}
    for name, parameter in module.named_parameters(remove_duplicate=False):
        names.setdefault(id(parameter), []).append(name)
    convolutions = {id(one) for owner in module.modules() if isinstance(owner, torch.nn.modules.conv._ConvNd) for one in owner.parameters()}
    result = {}
    for name, parameter in module.named_parameters():
        known = next((alias for alias in names[id(parameter)] if alias in layouts), None)
        if known is None:
            raise InputError(f"the plan has no parameter {name} of the module; its parameters begin with {', '.join(list(layouts)[:3])}. "
                             "Plan an export of this module")
        if tuple(parameter.shape) != layouts[known].shape:
            raise InputError(f"parameter {name} has the shape {tuple(parameter.shape)} in the module and {layouts[known].shape} in the plan")
        result[name] = _placement(name, layouts[known], level, refused)
        if id(parameter) in convolutions and result[name].dimension is not None:
            refused.append(f"parameter {name} of a convolution is cut along model, for which DTensor has no rule; without this it is whole")
            result[name] = Placement(name, tuple(parameter.shape))
    return result, refused


def recompute_mode(value: Any, layer: int, name: str, stage: int, stages: int) -> str:
    """Returns the recomputation of a layer: "none", "selective" or "full"."""
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
