# SPDX-License-Identifier: Apache-2.0
"""Gathers of activations along the axis model that several products share, and that the backward pass repeats."""
from __future__ import annotations

from typing import Any, Optional, cast

import torch
from torch.distributed.tensor import DTensor, Replicate

from ..errors import InputError
from .axes import along, moved


class _Whole:
    """An activation that was gathered, and its part on this rank, from which `again` gathers it another time."""

    def __init__(self, part: DTensor) -> None:
        self.part, self.version = part, versions(part)
        self.whole: Any = moved(part, model=Replicate())
        self.saved, self._left = 0, 0  # how often autograd has saved the activation, and how often it will still ask for it
        self._again: Optional[DTensor] = None

    def again(self) -> DTensor:
        """Gathers the activation once for all products of a backward pass, and drops it after the last of them."""
        if self._again is None:
            if versions(self.part) != self.version:
                raise InputError("a tensor that a product under sequence_parallel reads is changed in place after it: use an op that returns a new "
                                 "tensor, or plan with sequence_parallel false")
            with torch.no_grad():
                self._again = moved(cast(DTensor, self.part.detach()), model=Replicate())
            self._left = self.saved
        found, self._left = self._again, self._left - 1
        if not self._left:
            self._again = None
        return found


def versions(value: DTensor) -> tuple[int, int]:
    """Returns numbers that change when a tensor is changed in place."""
    return value._version, value._local_tensor._version


class SharedGathers:
    """Gathers the inputs of products whose columns are cut: once for products of one input, whose gradients are then summed once."""

    def __init__(self) -> None:
        self._last: Any = None
        self._hooks: dict[int, Any] = {}

    def whole(self, value: Any) -> Any:
        """Returns a value as a whole on each rank."""
        if not isinstance(value, DTensor):
            return value
        last = self._last
        if last is None or last.part is not value or last.version != versions(value) or last.whole.requires_grad != value.requires_grad:
            self.clear()
            self._last = last = _Whole(value)
        return last.whole

    def attach(self, owner: torch.nn.Module, repeat: bool) -> None:
        """Gathers the inputs of a module. With `repeat` the backward pass gathers them again, so that only parts are saved."""

        def before(_: Any, args: tuple[Any, ...]) -> tuple[Any, ...]:
            out = tuple(self.whole(one) for one in args)
            if repeat and args and isinstance(args[0], DTensor) and not along(args[0], "model").is_replicate():
                self._hooks[id(owner)] = hooks = _saving_parts(self._last)
                hooks.__enter__()
            return out

        def after(*_: Any) -> None:
            hooks = self._hooks.pop(id(owner), None)
            if hooks is not None:
                hooks.__exit__(None, None, None)

        owner.register_forward_pre_hook(before)
        if repeat:
            owner.register_forward_hook(after, always_call=True)

    def clear(self) -> None:
        """Forgets the last gathered activation, of which autograd may hold the part."""
        if self._last is not None:
            self._last.whole = None
        self._last = None


def _saving_parts(gathered: _Whole) -> Any:
    """Returns a context in which autograd saves the part of this rank in place of the gathered activation."""
    place, count = gathered.whole.to_local().data_ptr(), gathered.whole.numel()

    def pack(value: torch.Tensor) -> Any:
        same = isinstance(value, DTensor) and value.to_local().data_ptr() == place and value.numel() == count
        if not same or not value.is_contiguous():
            return value
        gathered.saved += 1
        return gathered, value.shape

    def unpack(saved: Any) -> torch.Tensor:
        return saved[0].again().reshape(saved[1]) if isinstance(saved, tuple) else saved

    return torch.autograd.graph.saved_tensors_hooks(pack, unpack)
