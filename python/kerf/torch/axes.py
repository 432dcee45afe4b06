# SPDX-License-Identifier: Apache-2.0
"""Placements of DTensors by the names of axes: a plan cuts values along `context` and `model`, and a mesh has one of these axes or both."""
from __future__ import annotations

from typing import Any, cast

import torch
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor import DTensor, Replicate

INNER = ("context", "model")  # the axes along which the values of one sample are cut


def inner_mesh(mesh: DeviceMesh) -> DeviceMesh | None:
    """Returns the part of a mesh that cuts the values of one sample, or None where the plan has no such axis."""
    names = tuple(name for name in mesh.mesh_dim_names or () if name in INNER)
    return mesh[names] if names else None


def spread_mesh(mesh: DeviceMesh) -> DeviceMesh:
    """Returns the part of a mesh on which the parameters of experts lie: the axis expert and those of `inner_mesh`."""
    return mesh[tuple(name for name in mesh.mesh_dim_names or () if name in ("expert", *INNER))]


def places(mesh: DeviceMesh, **given: Any) -> list[Any]:
    """Returns the placements along all axes of a mesh: those that are given by name, and Replicate() along the others."""
    return [given.get(name, Replicate()) for name in mesh.mesh_dim_names or ()]


def along(value: DTensor, axis: str) -> Any:
    """Returns the placement of a value along an axis, which is Replicate() where the mesh of the value has no such axis."""
    return next((place for name, place in zip(value.device_mesh.mesh_dim_names or (), value.placements) if name == axis), Replicate())


def moved(value: DTensor, **given: Any) -> DTensor:
    """Returns a value with the given placements along some axes; along the others it keeps its own, and sums stay unsummed.

    Where nothing moves, the gradient still does: terms of a sum are summed here, once for all uses of the result."""
    names = value.device_mesh.mesh_dim_names or ()
    wanted = [given.get(name, place) for name, place in zip(names, value.placements)]
    return cast(DTensor, value.redistribute(placements=wanted))


def summed(value: DTensor, place: Any) -> DTensor:
    """Returns a lookup in a table whose rows the axis model cuts, with the placement `place` along that axis.

    The second call sums a gradient whose ranks hold terms of a sum: DTensor cannot give such terms to the lookup."""
    return moved(moved(value, model=place), model=place)


def part_of(value: DTensor, wanted: list[Any], grads: list[Any]) -> torch.Tensor:
    """Returns the part of this rank of a value with the placements `wanted`. Its gradient has the placements `grads`, and gets the order
    of elements that DTensor expects."""
    local = value.redistribute(placements=wanted).contiguous().to_local(grad_placements=grads)  # type: ignore[attr-defined]
    if local.requires_grad:
        local.register_hook(lambda one: one.contiguous())
    return local
