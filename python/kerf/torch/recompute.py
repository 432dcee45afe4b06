# SPDX-License-Identifier: Apache-2.0
"""Finds the repeated layers of a module, and recomputes their activations in the backward pass."""
from __future__ import annotations

import functools
from typing import Any

import torch
from torch.distributed.tensor import DTensor
from torch.utils.checkpoint import CheckpointPolicy, checkpoint, create_selective_checkpoint_contexts

PRODUCTS = {torch.ops.aten.mm.default, torch.ops.aten.addmm.default, torch.ops.aten.linear.default, torch.ops.aten.convolution.default}
# Attention in one kernel.
KERNELS = {torch.ops.aten._scaled_dot_product_flash_attention.default, torch.ops.aten._scaled_dot_product_efficient_attention.default,
             torch.ops.aten._scaled_dot_product_cudnn_attention.default, torch.ops.aten._scaled_dot_product_flash_attention_for_cpu.default}
# By mode: the ops whose results are not computed again.
SAVED = {"selective": PRODUCTS, "pointwise": PRODUCTS | KERNELS | {torch.ops.aten.bmm.default}, "except-attention": KERNELS}


def layers(module: torch.nn.Module, count: int = 0) -> list[tuple[str, torch.nn.Module]]:
    """Returns the repeated layers with their names: the elements of the outermost lists whose elements are of one class.

    Where these are fewer than `count`, the elements of lists inside them are the layers."""
    found = _outermost(module)
    while len(found) < count:
        deeper = [(f"{name}.{inner}" if inner else name, one) for name, layer in found for inner, one in _outermost(layer) or [("", layer)]]
        if len(deeper) == len(found):
            break
        found = deeper
    return found


def _outermost(module: torch.nn.Module) -> list[tuple[str, torch.nn.Module]]:
    found: list[tuple[str, torch.nn.Module]] = []

    def visit(name: str, one: torch.nn.Module) -> None:
        children = list(one.named_children())
        alike = len(children) > 1 and len({type(child) for _, child in children}) == 1
        repeated = alike and type(children[0][1]).forward is not torch.nn.Module.forward and any(True for _ in children[0][1].parameters())
        if isinstance(one, (torch.nn.ModuleList, torch.nn.Sequential)) and repeated:
            found.extend((f"{name}.{key}".lstrip("."), child) for key, child in children)
            return
        for key, child in children:
            visit(f"{name}.{key}".lstrip("."), child)

    visit("", module)
    return found


def _policy(saved: set[Any], context: Any, op: Any, *args: Any, **kwargs: Any) -> CheckpointPolicy:
    return CheckpointPolicy.MUST_SAVE if op in saved else CheckpointPolicy.PREFER_RECOMPUTE


def offload(layer: torch.nn.Module) -> None:
    """Makes the saved activations of a layer wait in the host's memory; the layer's parameters stay where they are."""
    forward = layer.forward

    @functools.wraps(forward)
    def saving(*args: Any, **kwargs: Any) -> Any:
        stay = {_local(one).untyped_storage().data_ptr() for one in layer.parameters()}

        def pack(value: torch.Tensor) -> Any:
            local = _local(value)
            if local.untyped_storage().data_ptr() in stay:
                return value
            host = torch.empty(local.shape, dtype=local.dtype, pin_memory=local.is_cuda)
            return host.copy_(local), local.device, value._spec if isinstance(value, DTensor) else None

        def unpack(saved: Any) -> torch.Tensor:
            if isinstance(saved, torch.Tensor):
                return saved
            host, device, spec = saved
            local = host.to(device)
            if spec is None:
                return local
            return DTensor.from_local(local, spec.mesh, spec.placements, run_check=False, shape=spec.shape, stride=spec.stride)

        with torch.autograd.graph.saved_tensors_hooks(pack, unpack):
            return forward(*args, **kwargs)

    layer.forward = saving  # type: ignore[method-assign]


def _local(value: torch.Tensor) -> torch.Tensor:
    return value.to_local() if isinstance(value, DTensor) else value


def recompute(layer: torch.nn.Module, mode: str) -> None:
    """Makes the backward pass compute the activations of a layer again: all of them, or all but those that SAVED names for the mode."""
    if mode == "offload":
        offload(layer)
    if mode != "full" and mode not in SAVED:
        return
    forward, options = layer.forward, {}
    if mode in SAVED:
        options["context_fn"] = functools.partial(create_selective_checkpoint_contexts, functools.partial(_policy, SAVED[mode]))

    @functools.wraps(forward)
    def again(*args: Any, **kwargs: Any) -> Any:
        return checkpoint(forward, *args, use_reentrant=False, **options, **kwargs)

    layer.forward = again  # type: ignore[method-assign]
