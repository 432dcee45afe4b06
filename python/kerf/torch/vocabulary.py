# SPDX-License-Identifier: Apache-2.0
"""The cross entropy of logits whose classes are cut along the axis model: ranks exchange two numbers for each row, not the logits."""
from __future__ import annotations

from typing import Any

import torch
from torch.distributed._functional_collectives import all_reduce
from torch.distributed.tensor import DTensor, Replicate, Shard

from .axes import along, moved, places


class _CutCrossEntropy(torch.autograd.Function):
    """Losses of the rows of `logits`, of which each rank has the classes from `first` on."""

    @staticmethod
    def forward(ctx: Any, logits: torch.Tensor, target: torch.Tensor, first: int, ignored: int, mesh: Any) -> torch.Tensor:
        own = (target >= first) & (target < first + logits.shape[1]) & (target != ignored)
        index = torch.where(own, target - first, 0).unsqueeze(1)
        highest = all_reduce(logits.amax(1), "max", mesh)
        powers = (logits - highest.unsqueeze(1)).exp()
        picked = torch.where(own, logits.gather(1, index).squeeze(1) - highest, 0)
        sums, picked = all_reduce(torch.stack([powers.sum(1), picked]), "sum", mesh).unbind(0)
        used = target != ignored
        ctx.save_for_backward(powers / sums.unsqueeze(1), index, own, used)
        return torch.where(used, sums.log() - picked, 0)

    @staticmethod
    def backward(ctx: Any, *grads: torch.Tensor) -> Any:
        shares, index, own, used = ctx.saved_tensors
        scale = torch.where(used, grads[0], 0).unsqueeze(1)
        grad = shares * scale
        return grad.scatter_add_(1, index, torch.where(own.unsqueeze(1), -scale, 0)), None, None, None, None


def cross_entropy(function: Any, logits: DTensor, target: torch.Tensor, *args: Any, **kwargs: Any) -> torch.Tensor:
    """Computes torch.nn.functional.cross_entropy of logits that are cut along their classes, or gathers them first.

    They are gathered where the ranks do not divide the classes, as in plans, and for class weights and label smoothing."""
    names = ("weight", "size_average", "ignore_index", "reduce", "reduction", "label_smoothing")
    given = {"ignore_index": -100, "reduction": "mean", **dict(zip(names, args)), **kwargs}
    logits = moved(logits, context=Replicate())
    mesh = logits.device_mesh["model"]
    others = any(given.get(name) is not None for name in ("weight", "size_average", "reduce")) or given.get("label_smoothing")
    ranks = mesh.size()
    if others or logits.dim() != 2 or logits.shape[1] % ranks or given["reduction"] not in ("mean", "sum") or target.is_floating_point():
        return function(moved(logits, model=Replicate()), target, *args, **kwargs)
    rows = target.full_tensor() if isinstance(target, DTensor) else target
    first = mesh.get_local_rank() * (logits.shape[1] // ranks)
    losses = _CutCrossEntropy.apply(logits.to_local(), rows, first, given["ignore_index"], mesh)
    loss = losses.sum()
    if given["reduction"] == "mean":
        loss = loss / (rows != given["ignore_index"]).sum()
    return DTensor.from_local(loss, logits.device_mesh, places(logits.device_mesh), run_check=False)


def is_cut(value: Any) -> bool:
    """Returns whether a value has its classes, in dimension 1, cut along the axis model."""
    return isinstance(value, DTensor) and value.dim() > 1 and along(value, "model") == Shard(1)


def mean_by_sum(logits: torch.Tensor, target: torch.Tensor, weight: Any = None, reduction: int = 1, ignored: int = -100,
                smoothing: float = 0.0) -> torch.Tensor:
    """Computes a mean cross entropy as a sum and a number of rows, which DTensor computes without gathering the rows."""
    function = torch.ops.aten.cross_entropy_loss.default
    if reduction != 1 or weight is not None or target.is_floating_point() or not isinstance(logits, DTensor):
        return function(logits, target, weight, reduction, ignored, smoothing)
    whole = logits.redistribute(placements=[Replicate() if one.is_partial() or one == Shard(1) else one for one in logits.placements])
    total = function(whole, target, None, 2, ignored, smoothing)
    return total / (target != ignored).sum()


def loss(logits: torch.Tensor, target: torch.Tensor, weight: Any = None, reduction: int = 1, ignored: int = -100,
         smoothing: float = 0.0) -> torch.Tensor:
    """Computes the op cross_entropy_loss of an exported graph of logits whose classes or rows may be cut."""
    if not is_cut(logits):
        return mean_by_sum(logits, target, weight, reduction, ignored, smoothing)
    assert isinstance(logits, DTensor)
    return cross_entropy(torch.nn.functional.cross_entropy, logits, target, weight=weight, ignore_index=ignored,
                         reduction=("none", "mean", "sum")[reduction], label_smoothing=smoothing)
