# SPDX-License-Identifier: Apache-2.0
"""Stages with meshes of their own: where a stage ends its ranks gather the samples of a microbatch, and the next stage's ranks take theirs."""
from __future__ import annotations

from typing import Any, cast

import torch
import torch.distributed as dist
from torch.distributed._functional_collectives import all_gather_tensor, wait_tensor
from torch.distributed.device_mesh import DeviceMesh

from ..errors import InputError

SAMPLES = ("replicate", "data", "expert")  # the axes whose ranks have different samples, the outermost first


def data_rank(mesh: DeviceMesh) -> int:
    """Returns the number of this rank among those that have different samples."""
    rank = 0
    for axis in SAMPLES:
        if axis in (mesh.mesh_dim_names or ()):
            rank = rank * mesh[axis].size() + mesh.get_local_rank(axis)
    return rank


def _gather(value: torch.Tensor, mesh: DeviceMesh) -> torch.Tensor:
    for axis in reversed(SAMPLES):
        if axis in (mesh.mesh_dim_names or ()):
            value = wait_tensor(all_gather_tensor(value.contiguous(), 0, mesh[axis]))
    return value


def _take(value: torch.Tensor, mesh: DeviceMesh) -> torch.Tensor:
    count = 1
    for axis in SAMPLES:
        count *= mesh[axis].size() if axis in (mesh.mesh_dim_names or ()) else 1
    rows = value.shape[0] // count
    return value.narrow(0, data_rank(mesh) * rows, rows).contiguous()


class _Gathered(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, value: torch.Tensor, mesh: DeviceMesh) -> torch.Tensor:
        ctx.mesh = mesh
        return _gather(value, mesh)

    @staticmethod
    def backward(ctx: Any, *grads: torch.Tensor) -> Any:
        return _take(grads[0], ctx.mesh), None  # every rank gets the whole gradient from the next stage


class _Taken(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, value: torch.Tensor, mesh: DeviceMesh) -> torch.Tensor:
        ctx.mesh = mesh
        return _take(value, mesh)

    @staticmethod
    def backward(ctx: Any, *grads: torch.Tensor) -> Any:
        return _gather(grads[0], ctx.mesh), None


def gather_samples(value: torch.Tensor, mesh: DeviceMesh) -> torch.Tensor:
    """Returns a value of all samples of a microbatch, of which each rank of a stage has a part."""
    return _Gathered.apply(value, mesh)  # type: ignore[no-any-return]


def take_samples(value: torch.Tensor, mesh: DeviceMesh) -> torch.Tensor:
    """Returns the part of this rank of a value of all samples of a microbatch."""
    return _Taken.apply(value, mesh)  # type: ignore[no-any-return]


def lines_of(mesh: DeviceMesh) -> list[list[int]]:
    """Returns the ranks of each pipeline, in the order of its stages."""
    axis = (mesh.mesh_dim_names or ()).index("stage")
    return mesh.mesh.movedim(axis, -1).reshape(-1, mesh.mesh.shape[axis]).tolist()  # type: ignore[no-any-return]


def pipeline_group(mesh: DeviceMesh, apart: bool) -> dist.ProcessGroup:
    """Returns the process group of this rank's pipeline. Stages that are `apart` have meshes of their own, and need a common group."""
    if not apart:
        return mesh["stage"].get_group()
    groups = [(line, cast(dist.ProcessGroup, dist.new_group(line))) for line in lines_of(mesh)]  # every rank makes all groups
    return next(group for line, group in groups if dist.get_rank() in line)


def check_samples_first(shapes: list[torch.Size], more: list[torch.Size], samples: int) -> None:
    """Checks that the values between two stages have samples in their first dimension: `more` are their shapes with one sample more."""
    for one, other in zip(shapes, more):
        if not one or one[0] * (samples + 1) != other[0] * samples or one[1:] != other[1:]:
            raise InputError(f"a value of shape {tuple(one)} passes between stages with meshes of their own, and its first dimension does not count "
                             "samples: cut the pipeline elsewhere, or give all stages one mesh")
