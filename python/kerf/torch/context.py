# SPDX-License-Identifier: Apache-2.0
"""Context parallelism: the sequence of each activation is cut along the axis context, and attention gathers keys and values."""
from __future__ import annotations

from typing import Any, cast

import torch
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor import DTensor, Partial, Replicate, Shard, distribute_tensor

from ..errors import InputError
from .checks import Batch
from .tensor import ModelAxis

PRODUCTS = (torch.matmul, torch.bmm, torch.Tensor.matmul, torch.Tensor.__matmul__, torch.Tensor.bmm)


def cut_sequence(batch: Batch, mesh: DeviceMesh) -> dict[str, Any]:
    """Cuts dimension 1 of the tensors of a batch, which is the sequence; a tensor whose dimension 1 the ranks do not divide stays whole."""
    cut = {name for name, value in batch.items() if value.dim() > 1 and value.shape[1] % mesh.size() == 0}
    if not cut:
        raise InputError(f"mesh.context {mesh.size()} cuts dimension 1 of the batch, but it divides that of none of its tensors: "
                         f"{ {name: tuple(value.shape) for name, value in batch.items()} }")
    return {name: distribute_tensor(value, mesh, [Shard(1)], src_data_rank=None) if name in cut else value for name, value in batch.items()}


def _whole(value: Any) -> Any:
    """Gathers a product's second operand where one of its two matrix dimensions is cut."""
    if not isinstance(value, DTensor):
        return value
    place = value.placements[0]
    return value.redistribute(placements=[Replicate()]) if isinstance(place, Shard) and place.dim >= value.dim() - 2 else value


def _local(value: DTensor, place: Any, grad: Any) -> torch.Tensor:
    """Returns the part of this rank, whose gradient gets the order of elements that DTensor expects."""
    local = cast(DTensor, value.redistribute(placements=[place]).contiguous()).to_local(grad_placements=[grad])
    if local.requires_grad:
        local.register_hook(lambda one: one.contiguous())
    return local


def _attention(query: Any, key: Any, value: Any, attn_mask: Any = None, dropout_p: float = 0.0, is_causal: bool = False, scale: Any = None,
               enable_gqa: bool = False) -> torch.Tensor:
    """Computes scaled_dot_product_attention of the queries of this rank with all keys and values."""
    mesh, rows, columns = query.device_mesh, query.shape[-2], key.shape[-2]
    local = _local(query, Shard(query.dim() - 2), Shard(query.dim() - 2))
    keys, values = (_local(one, Replicate(), Partial()) for one in (key, value))
    first = sum(part.shape[0] for part in torch.arange(rows).chunk(mesh.size())[:mesh.get_local_rank()])
    if isinstance(attn_mask, DTensor):
        attn_mask = attn_mask.full_tensor()
    if is_causal:
        attn_mask = torch.ones(rows, columns, dtype=torch.bool, device=local.device).tril()
    if attn_mask is not None and attn_mask.shape[-2] == rows:
        attn_mask = attn_mask.narrow(-2, first, local.shape[-2])
    out = torch.nn.functional.scaled_dot_product_attention(local, keys, values, attn_mask, dropout_p, False, scale=scale, enable_gqa=enable_gqa)
    return DTensor.from_local(out.contiguous(), mesh, [Shard(query.dim() - 2)], run_check=False)


class ContextAxis(ModelAxis):
    """Gathers keys and values in attention, and refuses random ops."""

    def __torch_function__(self, function: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None) -> Any:
        if function in PRODUCTS and len(args) == 2 and isinstance(args[0], DTensor):
            return function(args[0], _whole(args[1]))
        if function is torch.nn.functional.scaled_dot_product_attention and all(isinstance(one, DTensor) for one in args[:3]) and len(args) > 2:
            self.refuse_random(function, args, kwargs or {})
            return _attention(*args, **(kwargs or {}))
        return super().__torch_function__(function, types, args, kwargs)
