# SPDX-License-Identifier: Apache-2.0
"""Batches of a captured module: which tensors they have, under which names, and the module that computes a loss from them."""
from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Optional

import torch
from torch.utils import _pytree as pytree

from ..errors import InputError


@dataclasses.dataclass(frozen=True)
class Batch:
    """A batch as a list of tensors with names, and as the arguments of a call."""

    names: tuple[str, ...]  # of the tensors, as the inputs of the graph are called
    tensors: tuple[torch.Tensor, ...]
    leaves: tuple[Any, ...]  # everything in the batch that has no parts, in order; None in the place of a tensor
    places: tuple[int, ...]  # of the tensors, among `leaves`
    spec: Any  # how arguments are put together from leaves

    def call(self, function: Callable[..., Any], tensors: Sequence[torch.Tensor]) -> Any:
        """Calls a function on the arguments that other tensors make in the place of these."""
        leaves = list(self.leaves)
        for place, tensor in zip(self.places, tensors):
            leaves[place] = tensor
        args, kwargs = pytree.tree_unflatten(leaves, self.spec)
        return function(*args, **kwargs)


class LossModule(torch.nn.Module):
    """Computes the loss. It shares the dictionaries of the user's module, so that parameters keep the names that they have there."""

    _user: torch.nn.Module
    _loss: Optional[Callable[..., Any]]
    _batch: Batch

    def __init__(self, module: torch.nn.Module, loss: Optional[Callable[..., Any]], batch: Batch) -> None:
        super().__init__()
        self.__dict__.update(_user=module, _loss=loss, _batch=batch)
        self._modules, self._parameters, self._buffers = module._modules, module._parameters, module._buffers
        self.training = module.training

    def forward(self, *tensors: torch.Tensor) -> torch.Tensor:
        """Returns the loss as one number."""
        loss, module = self._loss, self._user
        function = module if loss is None else (lambda *args, **kwargs: loss(module, *args, **kwargs))
        return as_loss(module, self._batch.call(function, tensors), loss)


class Calls:
    """Keeps which submodules of a module are being called, so that an error inside of one can name it."""

    def __init__(self, module: torch.nn.Module) -> None:
        self._hooks = [hook for name, one in module.named_modules() if name for hook in self._watch(name, one)]
        self._open: list[str] = []

    def _watch(self, name: str, module: torch.nn.Module) -> list[Any]:
        return [module.register_forward_pre_hook(lambda *_: self._open.append(f"'{name}' ({type(module).__name__})")),
                module.register_forward_hook(lambda *_: self._close())]

    def _close(self) -> None:
        self._open.pop()

    def place(self) -> str:
        """Returns the innermost submodule whose call has not ended, in words for a message; nothing if there is none."""
        return f"; the error is in the module {self._open[-1]}" if self._open else ""

    def remove(self) -> None:
        """Takes the hooks from the module."""
        for hook in self._hooks:
            hook.remove()


def as_loss(module: torch.nn.Module, result: Any, loss: Optional[Callable[..., Any]]) -> torch.Tensor:
    """Returns the loss among the results of a call."""
    who = type(module).__name__ if loss is None else f"the loss of {type(module).__name__}"
    found = result
    if not isinstance(found, torch.Tensor) and loss is None:
        found = getattr(result, "loss", None)
        if found is None and isinstance(result, Mapping):
            found = result.get("loss")
        if found is None and isinstance(result, (tuple, list)) and result:
            found = result[0]
    if not isinstance(found, torch.Tensor):
        raise InputError(f"{who} returns a {type(result).__name__} without a loss; return the loss, or give a function loss=")
    if found.numel() != 1:
        raise InputError(f"{who} returns a tensor of shape {tuple(found.shape)}; a loss is one number: take its mean, or give a function loss=")
    if not found.dtype.is_floating_point:
        raise InputError(f"{who} returns a loss of type {found.dtype}; it has to be a floating-point number")
    return found.reshape(())


def read_batch(module: torch.nn.Module, batch: Any, loss: Optional[Callable[..., Any]]) -> Batch:
    """Returns a batch with names for its tensors: keys of dictionaries, and names of the arguments of the loss or of `forward`."""
    args, kwargs = arguments(batch)
    leaves, spec = pytree.tree_flatten((args, kwargs))
    paths = [path for path, _ in pytree.tree_flatten_with_path((args, kwargs))[0]]
    positional = _argument_names(module, loss, len(args))
    names, tensors, places = [], [], []
    for place, (path, leaf) in enumerate(zip(paths, leaves)):
        if not isinstance(leaf, torch.Tensor):
            continue
        names.append(_name(path, positional))
        tensors.append(leaf)
        places.append(place)
    if not tensors:
        raise InputError(f"{type(module).__name__}: the batch has no tensors; give a dictionary, a tuple or a tensor")
    if len(set(names)) != len(names):
        raise InputError(f"{type(module).__name__}: two tensors of the batch have one name: {', '.join(names)}; give a dictionary")
    kept = tuple(None if place in places else leaf for place, leaf in enumerate(leaves))
    return Batch(tuple(names), tuple(tensors), kept, tuple(places), spec)


def arguments(batch: Any) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Returns the positional and the keyword arguments that a batch stands for."""
    if isinstance(batch, Mapping):
        return (), dict(batch)
    if isinstance(batch, (tuple, list)):
        return tuple(batch), {}
    if isinstance(batch, torch.Tensor):
        return (batch,), {}
    raise InputError(f"a batch is a dictionary, a tuple or a tensor, not a {type(batch).__name__}")


def tensors_of(batch: Any, captured: Batch) -> dict[str, torch.Tensor]:
    """Returns the tensors of another batch by name. Raises InputError where its parts are not those of the captured one."""
    leaves, spec = pytree.tree_flatten(arguments(batch))
    if spec != captured.spec:
        raise InputError(f"the batch has other parts than the one that was captured, whose tensors are {', '.join(captured.names)}")
    tensors: dict[str, torch.Tensor] = {}
    names = dict(zip(captured.places, captured.names))
    for place, (leaf, kept) in enumerate(zip(leaves, captured.leaves)):
        if place not in names:
            if isinstance(leaf, torch.Tensor) or leaf != kept:
                raise InputError(f"the batch has {leaf!r} where the captured one had {kept!r}, which is part of the compiled step; "
                                 "compile another step")
        elif not isinstance(leaf, torch.Tensor):
            raise InputError(f"'{names[place]}' is a {type(leaf).__name__}; it has to be a tensor")
        else:
            tensors[names[place]] = leaf
    return tensors


def _argument_names(module: torch.nn.Module, loss: Optional[Callable[..., Any]], count: int) -> list[str]:
    """Returns names for positional arguments of the batch."""
    try:
        signature = inspect.signature(module.forward if loss is None else loss)
    except (TypeError, ValueError):
        return [f"input_{at}" for at in range(count)]
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    names = [name for name, parameter in signature.parameters.items() if parameter.kind in kinds]
    names = names if loss is None else names[1:]
    return [names[at] if at < len(names) else f"input_{at}" for at in range(count)]


def _name(path: Sequence[Any], positional: Sequence[str]) -> str:
    """Returns the name of a tensor from its place: `x` of an argument, `x.left` of an entry of a dictionary in it."""
    parts = [str(getattr(key, "key", getattr(key, "idx", getattr(key, "name", key)))) for key in path[1:]]
    if path[0].idx == 0:
        parts[0] = positional[int(parts[0])]
    return ".".join(parts)
