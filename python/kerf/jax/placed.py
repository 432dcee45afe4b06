# SPDX-License-Identifier: Apache-2.0
"""The shardings of a plan as those of JAX: meshes, shardings of arguments, and constraints inside a function."""
from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Sequence
from typing import Any, Optional

import jax
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from .. import _core
from ..checks import instance
from ..errors import InputError
from ..model import Model
from ..plans import Plan

Axes = Sequence[Sequence[str]]


def mesh(plan: Plan, devices: Optional[Sequence[Any]] = None) -> Mesh:
    """Returns the mesh of a plan: its axes of more than one rank, in the plan's order, over `devices` or all devices."""
    instance(plan, Plan, "plan is a kerf.Plan")
    sizes = {axis: plan.mesh[axis] for axis in plan.order if plan.mesh[axis] > 1} or {"data": 1}
    found = list(jax.devices() if devices is None else devices)
    for one in found:
        instance(one, jax.Device, "devices is a list of jax devices")
    if len(found) < plan.ranks:
        raise InputError(f"the plan has {plan.ranks} ranks, but there are {len(found)} devices; plan for ranks={len(found)}, or give more devices")
    return Mesh(np.array(found[:plan.ranks]).reshape(tuple(sizes.values())), tuple(sizes), axis_types=(jax.sharding.AxisType.Auto,) * len(sizes))


def check_mesh(plan: Plan, given: Mesh) -> None:
    """Raises where a mesh has not the axes of the plan."""
    instance(plan, Plan, "plan is a kerf.Plan")
    instance(given, Mesh, "mesh is a jax.sharding.Mesh")
    wanted = {axis: size for axis, size in plan.mesh.items() if size > 1}
    has = {axis: size for axis, size in given.shape.items() if size > 1}
    if wanted != has:
        raise InputError(f"the mesh has the axes {has}, but the plan has {wanted}; use kerf.jax.mesh(plan)")


def model_of(plan: Plan, model: Optional[Model]) -> Model:
    """Returns the captured model of a plan."""
    instance(plan, Plan, "plan is a kerf.Plan")
    if model is not None:
        instance(model, Model, "model is a kerf.Model")
    its = plan.model if model is None else model
    if its is None or not its.in_memory:
        raise InputError("the plan has no captured model, because it was read from a file; give model=kerf.jax.capture(...)")
    return its


def placements(plan: Plan, model: Model) -> dict[str, Any]:
    """Returns the layouts of the arguments and operators of a model under a plan."""
    return json.loads(_core.placements(model.source(), plan.text, json.dumps(model.settings), None))


def dimensions(shape: Sequence[int], sizes: Sequence[int], axes: Axes, ranks: dict[str, int]) -> tuple[Optional[list[Any]], str]:
    """Returns the mesh axes of each dimension of `shape`, or None and the reason why a PartitionSpec cannot say them.

    `axes` are the axes that cut `sizes`, which have the elements of `shape` in the same order, or are its dimensions in
    another order where that order is plain because all sizes differ.
    """
    parts = [name for names in axes for name in names if ":" in name]
    if parts:
        return None, f"a dimension is cut by a part of an axis, {', '.join(parts)}"
    if list(shape) != list(sizes) and sorted(shape) == sorted(sizes):
        if len(set(sizes)) < len(sizes):
            return None, f"the program has the dimensions {list(shape)} in another order, {list(sizes)}"
        order = [list(sizes).index(size) for size in shape]
        sizes, axes = [sizes[i] for i in order], [axes[i] for i in order]
    cuts: list[list[str]] = [[] for _ in shape]
    size_at = 0
    for first, count, many in groups(shape, sizes):  # dimensions first .. first + count - 1 have `many` of the sizes
        rest = list(shape[first:first + count])
        dim, inside = first, 1  # elements of dimension `dim` that earlier sizes have passed
        open_part = False  # whether an earlier size keeps several elements on a rank
        for size, names in zip(sizes[size_at:size_at + many], axes[size_at:size_at + many]):
            shards = math.prod(ranks[axis] for axis in names)
            if size % shards:
                return None, f"dimension {dim} has {size} elements, which {shards} ranks do not divide"
            while dim < first + count - 1 and inside == shape[dim]:
                dim, inside, open_part = dim + 1, 1, False
            if shards > 1 and open_part:
                return None, f"dimension {dim} of {shape[dim]} elements is cut in its middle, in parts of {size}"
            if shards > 1 and inside == 1 and size > shape[dim] and shape[dim] % shards:
                return None, f"dimension {dim} has {shape[dim]} elements, which {shards} ranks do not divide"
            if shards > 1 and inside > 1 and inside * size > shape[dim]:
                return None, f"the program cuts across the dimensions {rest}, which it has as {list(sizes)}"
            cuts[dim] += names
            open_part |= size > shards
            left = size
            while left > 1 and dim < first + count:
                step = min(left, shape[dim] // inside)
                if left % step:
                    return None, f"the program joins the dimensions {rest} to {list(sizes)}"
                left, inside = left // step, inside * step
                if inside == shape[dim] and dim < first + count - 1:
                    dim, inside, open_part = dim + 1, 1, False
                elif left > 1:
                    return None, f"the program joins the dimensions {rest} to {list(sizes)}"
        size_at += many
    return [tuple(names) if len(names) > 1 else names[0] if names else None for names in cuts], ""


def ops_of(equation: Any, ops: list[Any]) -> list[Any]:
    """Returns the operators of an equation without the broadcasts of single numbers, which the text has beside other operators."""
    if equation.primitive.name == "broadcast_in_dim":
        return ops
    return [op for op in ops if not op["operands"] or any(math.prod(one["shape"]) > 1 for one in op["operands"]) or math.prod(op["shape"]) == 1]


def groups(shape: Sequence[int], sizes: Sequence[int]) -> list[tuple[int, int, int]]:
    """Returns the shortest runs of dimensions whose elements are those of a run of sizes: first dimension, numbers of both."""
    found = []
    dim, at = 0, 0
    while dim < len(shape):
        first, start, ours, theirs = dim, at, shape[dim], 1
        dim += 1
        while ours != theirs:
            if ours < theirs:
                ours, dim = ours * shape[dim], dim + 1
            else:
                theirs, at = theirs * sizes[at], at + 1
        found.append((first, dim - first, at - start))
    return found


@dataclasses.dataclass(frozen=True)
class Leaf:
    """The sharding of one array of the arguments."""

    name: str
    shape: tuple[int, ...]
    spec: PartitionSpec
    replaced_by: Optional[int]  # the index of the result that replaces the array


def leaves(plan: Plan, model: Model, layouts: dict[str, Any]) -> list[Leaf]:
    """Returns the shardings of the arrays of the arguments, in order. Raises where a PartitionSpec cannot say one."""
    (signature,) = json.loads(model.signature).values()
    ranks = {axis: size for axis, size in layouts["mesh"]}
    found = []
    for one in signature["arguments"]:
        layout = layouts["arguments"].get(one["name"])  # an argument that the loss does not need is replicated
        spec: Optional[list[Any]] = []
        if layout is not None:
            spec, why = dimensions(one["shape"], layout["sizes"], layout["axes"], ranks)
            if spec is None:
                raise InputError(f"argument '{one['name']}': {why}, which no PartitionSpec can say; reshape the array, or plan with "
                                 f"constraints={{'arguments': {{'{one['name']}': {[[] for _ in layout['sizes']]}}}}}")
        found.append(Leaf(one["name"], tuple(one["shape"]), PartitionSpec(*spec), one.get("aliases_result")))
    return found


def shardings(plan: Plan, mesh: Mesh, *args: Any, model: Optional[Model] = None, **kwargs: Any) -> Any:
    """Returns the shardings of the arguments of a captured function under a plan, as a tuple of trees like `args`.

    With keyword arguments, returns that tuple and a dictionary like `kwargs`. `jax.device_put(args, shardings(...))` puts
    the arguments where the plan wants them.
    """
    check_mesh(plan, mesh)
    its = model_of(plan, model)
    found = leaves(plan, its, placements(plan, its))
    tree = like(found, mesh, args, kwargs)
    return tree if kwargs else tree[0]


def like(found: list[Leaf], mesh: Mesh, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Returns the shardings as a tree like the arguments. Raises where the arguments have other shapes."""
    flat, structure = jax.tree.flatten((args, kwargs))
    if len(flat) != len(found):
        raise InputError(f"the arguments have {len(flat)} arrays, but the captured function has {len(found)}; give the same arguments")
    for leaf, one in zip(flat, found):
        if tuple(np.shape(leaf)) != one.shape:
            raise InputError(f"'{one.name}' has the shape {tuple(np.shape(leaf))}, but {one.shape} was planned; capture and plan again")
    return jax.tree.unflatten(structure, [NamedSharding(mesh, one.spec) for one in found])
