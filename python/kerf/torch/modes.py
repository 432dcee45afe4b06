# SPDX-License-Identifier: Apache-2.0
"""What differs from PyTorch while a module runs on DTensors of the axes model and context: attention, losses of logits that are cut, and
random ops, which are refused."""
from __future__ import annotations

from typing import Any

import torch
from torch.distributed.tensor import DTensor
from torch.overrides import TorchFunctionMode

from ..errors import InputError
from . import vocabulary
from .context import attention, product

PRODUCTS = (torch.matmul, torch.bmm, torch.Tensor.matmul, torch.Tensor.__matmul__, torch.Tensor.bmm)
RANDOM = {torch.nn.functional.dropout: 1, torch.dropout: 1, torch.nn.functional.scaled_dot_product_attention: 4}


class InnerAxes(TorchFunctionMode):
    """Computes attention and losses on the parts of a rank. Random ops are refused, because ranks would draw unlike numbers for what they
    hold alike."""

    def __torch_function__(self, function: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if function is torch.nn.functional.cross_entropy and args and vocabulary.is_cut(args[0]):
            return vocabulary.cross_entropy(function, *args, **kwargs)
        _refuse_random(function, args, kwargs)
        if function is torch.nn.functional.scaled_dot_product_attention and args and isinstance(args[0], DTensor):
            return attention(function, *args, **kwargs)
        if function in PRODUCTS and len(args) == 2:
            return product(function, *args)
        return function(*args, **kwargs)


def _refuse_random(function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    """Raises an error where a function draws random numbers."""
    name = getattr(function, "__name__", "")
    if function in RANDOM:
        fused = function is torch.nn.functional.scaled_dot_product_attention
        given = args[RANDOM[function]] if len(args) > RANDOM[function] else kwargs.get("dropout_p", 0.0) if fused else kwargs.get("p", 0.5)
        training = fused or (args[2] if len(args) > 2 else kwargs.get("training", kwargs.get("train", True)))
        if given > 0 and training:
            raise InputError(f"dropout with probability {given} under mesh.model or mesh.context: set it to 0, or plan with size 1 of this axis")
    elif "dropout" in name or name in ("bernoulli", "bernoulli_", "rand_like", "randn_like", "rand", "randn"):
        raise InputError(f"{name} under mesh.model or mesh.context draws unlike numbers on its ranks: remove it, or plan with size 1 of this axis")
