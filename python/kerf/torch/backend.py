# SPDX-License-Identifier: Apache-2.0
"""Packages on PyTorch's tensors."""
from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Any, NamedTuple, Optional

import torch

from ..checks import arrays, instance
from ..run import Package


class Run(NamedTuple):
    """The losses of a run, as one tensor, and the parameters after it."""

    losses: torch.Tensor
    parameters: dict[str, torch.Tensor]


def run(package: Package, data: Mapping[str, torch.Tensor], *, steps: Optional[int] = None, weights: Optional[Mapping[str, torch.Tensor]] = None,
        **options: Any) -> Run:
    """Trains a package on tensors whose first axis counts steps, and starts again with the first after the last.

    Contiguous tensors in the memory of the CPU are read where they lie. `weights` replaces tensors of the package by name, as a
    module's `state_dict()` has them. `options` are the others of kerf.Package.start.

    >>> kerf.torch.run(kerf.Package.load("package"), {"x": x, "labels": labels}, lr=0.1).losses
    """
    instance(package, Package, "package is a kerf.Package")
    for given, what in ((data, "data"), (weights or {}, "weights")):
        for name, tensor in arrays(given, what).items():
            instance(tensor, torch.Tensor, f"{what}['{name}'] is a tensor")
    result = package.run({name: tensor.detach().contiguous() for name, tensor in data.items()}, steps=steps,
                         weights={name: tensor.detach().contiguous() for name, tensor in (weights or {}).items()}, **options)
    return Run(torch.tensor(result.losses, dtype=torch.float64), tensors(result.parameters))


def tensors(arrays: Mapping[str, Any]) -> dict[str, torch.Tensor]:
    """Returns NumPy's arrays as tensors that share their memory."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="The given NumPy array is not writable")
        return {name: torch.from_numpy(array) for name, array in arrays.items()}
