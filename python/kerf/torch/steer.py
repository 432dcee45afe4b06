# SPDX-License-Identifier: Apache-2.0
"""Ops of an exported graph on DTensors of the axes model and context, placed as Megatron-LM places them."""
from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import torch
from torch.distributed.tensor import DTensor, Replicate, Shard

from . import vocabulary
from .axes import along, moved, places, summed
from .context import attention, product

ATEN = torch.ops.aten
WEIGHTS: dict[Any, tuple[int, int, int]] = {  # products of parameters: the positions of the input and of the weight, and the columns of the weight
    ATEN.linear.default: (0, 1, 0), ATEN.addmm.default: (1, 2, 1), ATEN.mm.default: (0, 1, 1), ATEN.matmul.default: (0, 1, 1)}


def settle(value: torch.Tensor, sequence: bool, lookup: bool) -> torch.Tensor:
    """Sums a DTensor over the axis model where its ranks hold terms of a sum; with `sequence`, each keeps a part of the sequence.

    `lookup` says that the value is that of an embedding."""
    if not isinstance(value, DTensor) or not along(value, "model").is_partial():
        return value
    place = Shard(1) if sequence and value.dim() > 2 else Replicate()
    return summed(value, place) if lookup else moved(value, model=place)


def gather(value: torch.Tensor, weight: torch.Tensor, columns: int) -> torch.Tensor:
    """Gathers the input of a product along the axis model, where the columns of its weight are cut along it."""
    if isinstance(value, DTensor) and isinstance(weight, DTensor) and along(weight, "model") == Shard(columns):
        return moved(value, model=Replicate())
    return value


def fused_attention(*args: Any, **kwargs: Any) -> torch.Tensor:
    """Computes scaled_dot_product_attention on the parts of each rank."""
    return attention(ATEN.scaled_dot_product_attention.default, *args, **kwargs)


def matmul(left: torch.Tensor, right: torch.Tensor) -> torch.Tensor:
    """Computes a product of two activations, of which the second may be keys or values."""
    return product(ATEN.matmul.default, left, right)


def bmm(left: torch.Tensor, right: torch.Tensor) -> torch.Tensor:
    """Computes the products of a batch of matrices, of which the second ones may be keys or values."""
    return product(ATEN.bmm.default, left, right)


def _convolve(function: Any, args: tuple[Any, ...]) -> torch.Tensor:
    """Computes a convolution as a whole on each rank, because DTensor has no rule for its gradient where only some operands are DTensors."""
    mesh = next((one.device_mesh for one in args if isinstance(one, DTensor)), None)
    if mesh is None:
        return function(*args)
    whole = [one.redistribute(placements=places(mesh)).to_local() if isinstance(one, DTensor) else one for one in args]
    return DTensor.from_local(function(*whole), mesh, places(mesh), run_check=False)


def conv1d(*args: Any) -> torch.Tensor:
    """Computes a convolution along one dimension."""
    return _convolve(ATEN.conv1d.default, args)


def conv2d(*args: Any) -> torch.Tensor:
    """Computes a convolution along two dimensions."""
    return _convolve(ATEN.conv2d.default, args)


def conv3d(*args: Any) -> torch.Tensor:
    """Computes a convolution along three dimensions."""
    return _convolve(ATEN.conv3d.default, args)


ATTENTION = (ATEN.scaled_dot_product_attention.default, fused_attention)
REPLACED: dict[Any, Callable[..., Any]] = {
    ATEN.scaled_dot_product_attention.default: fused_attention, ATEN.matmul.default: matmul, ATEN.bmm.default: bmm,
    ATEN.cross_entropy_loss.default: vocabulary.loss, ATEN.conv1d.default: conv1d, ATEN.conv2d.default: conv2d, ATEN.conv3d.default: conv3d}


@dataclasses.dataclass(frozen=True)
class Steer:
    """How ops are placed: with `sequence`, activations between products are cut along their dimension 1."""

    sequence: bool

    def place(self, graph: torch.fx.Graph, node: torch.fx.Node, copy: Callable[[torch.fx.Node], torch.fx.Node]) -> torch.fx.Node:
        """Adds a node to a graph, with the gathers before it and the sums after it."""
        args, kwargs = torch.fx.map_arg(node.args, copy), torch.fx.map_arg(node.kwargs, copy)
        where = WEIGHTS.get(node.target)
        if where is not None:
            given = list(args)
            given[where[0]] = graph.call_function(gather, (args[where[0]], args[where[1]], where[2]))
            args = tuple(given)
        function: Any = REPLACED.get(node.target, node.target)
        made = graph.call_function(function, args, kwargs)
        made.meta = dict(node.meta)
        lookup = node.target is ATEN.embedding.default
        return graph.call_function(settle, (made, self.sequence, lookup)) if where is not None or lookup else made
