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
from ..errors import InputError
from ..model import Model
from ..plans import Plan

Axes = Sequence[Sequence[str]]


def mesh(plan: Plan, devices: Optional[Sequence[Any]] = None) -> Mesh:
    """Returns the mesh of a plan: its axes of more than one rank, in the plan's order, over `devices` or all devices."""
    sizes = {axis: plan.mesh[axis] for axis in plan.order if plan.mesh[axis] > 1} or {"data": 1}
    found = list(jax.devices() if devices is None else devices)
    if len(found) < plan.ranks:
        raise InputError(f"the plan has {plan.ranks} ranks, but there are {len(found)} devices; plan for ranks={len(found)}, or give more devices")
    return Mesh(np.array(found[:plan.ranks]).reshape(tuple(sizes.values())), tuple(sizes), axis_types=(jax.sharding.AxisType.Auto,) * len(sizes))


def check_mesh(plan: Plan, given: Mesh) -> None:
    """Raises where a mesh has not the axes of the plan."""
    wanted = {axis: size for axis, size in plan.mesh.items() if size > 1}
    has = {axis: size for axis, size in given.shape.items() if size > 1}
    if wanted != has:
        raise InputError(f"the mesh has the axes {has}, but the plan has {wanted}; use kerf.jax.mesh(plan)")


def model_of(plan: Plan, model: Optional[Model]) -> Model:
    """Returns the captured model of a plan."""
    its = model or plan.model
    if its is None or not its.in_memory:
        raise InputError("the plan has no captured model, because it was read from a file; give model=kerf.jax.capture(...)")
    return its


def placements(plan: Plan, model: Model) -> dict[str, Any]:
    """Returns the layouts of the arguments and operators of a model under a plan."""
    return json.loads(_core.placements(model.source(), plan.text, json.dumps(model.settings), None))


def dimensions(shape: Sequence[int], sizes: Sequence[int], axes: Axes, ranks: dict[str, int]) -> tuple[Optional[list[Any]], str]:
    """Returns the mesh axes of each dimension of `shape`, or None and the reason why a PartitionSpec cannot say them.

    `axes` are the axes that cut `sizes`, which have the elements of `shape` in the same order.
    """
    found: list[Any] = []
    at = 0
    for dim, size in enumerate(shape):
        names: list[str] = []
        inner, whole = 1, False  # whether a more significant part of the dimension is not cut to single elements
        while at < len(sizes) and inner * sizes[at] <= size and (inner < size or sizes[at] == 1):
            shards = math.prod(ranks.get(axis, 0) for axis in axes[at])
            if any(":" in axis for axis in axes[at]):
                return None, f"dimension {dim} is cut by a part of an axis, {', '.join(axes[at])}"
            if shards > 1 and whole:
                return None, f"dimension {dim} of {size} elements is cut in its middle, in parts of {sizes[at]}"
            if sizes[at] % max(shards, 1):
                return None, f"dimension {dim} has {sizes[at]} elements, which {shards} ranks do not divide"
            names += axes[at]
            whole |= sizes[at] > max(shards, 1)
            inner *= sizes[at]
            at += 1
        if inner != size:
            return None, f"the program joins dimension {dim} with others: {list(shape)} became {list(sizes)}"
        found.append(tuple(names) if len(names) > 1 else names[0] if names else None)
    return found, ""


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
