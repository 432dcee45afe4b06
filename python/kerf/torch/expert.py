# SPDX-License-Identifier: Apache-2.0
"""Expert parallelism: each rank of the axis expert holds a part of the experts, and gets the tokens of all ranks for them."""
from __future__ import annotations

import copy
import functools
import inspect
from typing import Any, cast

import torch
from torch.distributed._functional_collectives import all_gather_tensor_autograd, reduce_scatter_tensor_autograd
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor import DTensor, Shard, distribute_tensor

from ..errors import InputError

ARGUMENTS = ["hidden_states", "top_k_index", "top_k_weights"]


def spread(module: torch.nn.Module, names: set[str], mesh: DeviceMesh) -> None:
    """Gives each rank its part of the experts whose parameters have these names: dimension 0 of these parameters counts the experts."""
    for path, owner in module.named_modules():
        own = {leaf: parameter for leaf, parameter in owner._parameters.items()
               if parameter is not None and f"{path}.{leaf}".lstrip(".") in names}
        if not own:
            continue
        if len(own) != len(owner._parameters) or list(inspect.signature(owner.forward).parameters) != ARGUMENTS:
            raise InputError(f"mesh.expert cuts {', '.join(own)} of {path}, whose forward takes {inspect.signature(owner.forward)}: only "
                             f"modules whose parameters are all cut, and that take {', '.join(ARGUMENTS)}, can be spread; give the plan "
                             "mesh.expert 1")
        sizes = {parameter.shape[0] for parameter in own.values()}
        if len(sizes) != 1 or next(iter(sizes)) % mesh.size():
            raise InputError(f"the parameters of {path} have {sorted(sizes)} experts, which mesh.expert {mesh.size()} has to divide")
        for leaf, parameter in own.items():
            part = distribute_tensor(parameter.detach(), mesh, [Shard(0)], src_data_rank=None)
            owner._parameters[leaf] = torch.nn.Parameter(part, requires_grad=parameter.requires_grad)
        inner = copy.copy(owner)  # computes with the local experts, which `owner` holds as parts of DTensors
        inner.__dict__["_parameters"] = dict(owner._parameters)
        owner.forward = functools.partial(_forward, owner, inner, next(iter(sizes)) // mesh.size(), mesh)  # type: ignore[method-assign]


def _forward(owner: torch.nn.Module, inner: torch.nn.Module, count: int, mesh: DeviceMesh, hidden_states: torch.Tensor,
             top_k_index: torch.Tensor, top_k_weights: torch.Tensor) -> torch.Tensor:
    """Gathers the tokens of all ranks, computes what the local experts add to them, and sums these terms for the tokens of each rank."""
    tokens, index, weights = (all_gather_tensor_autograd(one.contiguous(), 0, mesh) for one in (hidden_states, top_k_index, top_k_weights))
    first = mesh.get_local_rank() * count
    own = (index >= first) & (index < first + count)
    local: dict[str, Any] = {leaf: cast(DTensor, parameter).to_local() for leaf, parameter in owner._parameters.items()}
    out = torch.func.functional_call(inner, local, (tokens, torch.where(own, index - first, 0), torch.where(own, weights, 0)))
    return reduce_scatter_tensor_autograd(out, "sum", 0, mesh)
