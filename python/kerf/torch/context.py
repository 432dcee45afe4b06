# SPDX-License-Identifier: Apache-2.0
"""Attention on DTensors: the sequence is cut along the axis context and the heads along model, and each rank gathers keys and values."""
from __future__ import annotations

from typing import Any

import torch
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor import DTensor, Partial, Replicate, Shard, distribute_tensor

from ..errors import InputError
from .axes import along, moved, part_of, places
from .checks import Batch


def cut_sequence(batch: Batch, mesh: DeviceMesh) -> dict[str, Any]:
    """Cuts dimension 1 of the tensors of a batch, which is the sequence, along the axis context of `mesh`.

    A tensor whose dimension 1 the ranks do not divide stays whole, and so does a batch on a mesh without this axis."""
    if "context" not in (mesh.mesh_dim_names or ()):
        return dict(batch)
    ranks = mesh["context"].size()
    cut = {name for name, value in batch.items() if value.dim() > 1 and value.shape[1] % ranks == 0}
    if not cut:
        raise InputError(f"mesh.context {ranks} cuts dimension 1 of the batch, but it divides that of none of its tensors: "
                         f"{ {name: tuple(value.shape) for name, value in batch.items()} }")
    wanted = places(mesh, context=Shard(1))
    return {name: distribute_tensor(value, mesh, wanted, src_data_rank=None) if name in cut else value for name, value in batch.items()}


def gather_operand(value: Any) -> Any:
    """Gathers the second operand of a product along the axis context, where one of its two matrix dimensions is cut."""
    if not isinstance(value, DTensor):
        return value
    place = along(value, "context")
    return moved(value, context=Replicate()) if isinstance(place, Shard) and place.dim >= value.dim() - 2 else value


def product(function: Any, left: Any, right: Any) -> Any:
    """Computes a product of two values, of which the second one may be keys or values of attention."""
    return function(left, gather_operand(right) if isinstance(left, DTensor) else right)


def attention(function: Any, query: Any, key: Any, value: Any, attn_mask: Any = None, dropout_p: float = 0.0, is_causal: bool = False,
              scale: Any = None, enable_gqa: bool = False) -> torch.Tensor:
    """Computes scaled_dot_product_attention on each rank: of its samples, its heads and its part of the sequence, with all keys and values.

    Heads are those of a cut along model, if all of query, key and value have it. DTensor has no rule for PyTorch's kernel for CPUs."""
    three = (query, key, value)
    if not all(isinstance(one, DTensor) for one in three):
        return function(query, key, value, attn_mask, dropout_p, is_causal, scale=scale, enable_gqa=enable_gqa)
    mesh, rows, columns = query.device_mesh, query.shape[-2], key.shape[-2]
    queries, others, grads = [], [], []
    for position, axis in enumerate(mesh.mesh_dim_names or ()):
        own = [one.placements[position] for one in three]
        if axis == "context":
            queries.append(Shard(query.dim() - 2))
            others.append(Replicate())
            grads.append(Partial())
            continue
        kept = own[0] if own[0] == own[1] == own[2] and isinstance(own[0], Shard) and own[0].dim < query.dim() - 2 else Replicate()
        for found in (queries, others, grads):
            found.append(kept)
    local = part_of(query, queries, queries)
    keys, values = (part_of(one, others, grads) for one in three[1:])
    if isinstance(attn_mask, DTensor):  # a learned mask gets the gradients of all ranks whose rows or heads differ
        apart = [Partial() if isinstance(one, Shard) else Replicate() for one in queries]
        attn_mask = attn_mask.redistribute(placements=[Replicate()] * mesh.ndim).to_local(grad_placements=apart)
    first = 0
    if "context" in (mesh.mesh_dim_names or ()):
        ranks, here = mesh["context"].size(), mesh.get_local_rank("context")
        first = sum(part.shape[0] for part in torch.arange(rows).chunk(ranks)[:here])
        if is_causal:
            attn_mask, is_causal = torch.ones(rows, columns, dtype=torch.bool, device=local.device).tril(), False
    if attn_mask is not None:
        attn_mask = _own_part(attn_mask, query, local, first)
    out = function(local, keys, values, attn_mask, dropout_p, is_causal, scale=scale, enable_gqa=enable_gqa)
    return DTensor.from_local(out.contiguous(), mesh, queries, run_check=False)


def _own_part(mask: torch.Tensor, query: DTensor, local: torch.Tensor, first: int) -> torch.Tensor:
    """Returns the part of a mask for the samples, heads and rows of this rank; dimensions of size 1 stay."""
    if mask.shape[-2] == query.shape[-2]:
        mask = mask.narrow(-2, first, local.shape[-2])
    for axis, place in zip(query.device_mesh.mesh_dim_names or (), query.placements):
        dimension = place.dim - query.dim() + mask.dim() if isinstance(place, Shard) and place.dim < query.dim() - 2 else -1
        if dimension >= 0 and mask.shape[dimension] > 1:
            part = mask.shape[dimension] // query.device_mesh[axis].size()
            mask = mask.narrow(dimension, query.device_mesh.get_local_rank(axis) * part, part)
    return mask
