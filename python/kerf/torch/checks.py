# SPDX-License-Identifier: Apache-2.0
"""Checks that a module, its loss, a batch and the mesh suit a plan, and that all ranks begin alike."""
from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import Optional

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import DeviceMesh

from ..errors import InputError
from .placement import Settings

Batch = dict[str, torch.Tensor]
Loss = Callable[..., torch.Tensor]


def samples(batch: Batch) -> int:
    """Returns the number of samples of a batch, which is the first dimension of each tensor."""
    sizes = {name: value.shape[0] if value.dim() else 0 for name, value in batch.items()}
    if not sizes or len(set(sizes.values())) != 1 or 0 in sizes.values():
        raise InputError(f"the first dimension of each tensor of a batch is the samples, but they have {sizes}")
    return next(iter(sizes.values()))


def check_samples(batch: Batch, count: int) -> None:
    """Checks that a batch has the number of samples for which the module was distributed."""
    if samples(batch) != count:
        raise InputError(f"the batch has {samples(batch)} samples; the plan has {count}")


def check_terms(batch: Batch) -> None:
    """Refuses labels that losses ignore, because samples then have unequal numbers of terms."""
    for name, value in batch.items():
        if value.dtype == torch.int64 and bool((value == -100).any()):
            raise InputError(f"{name} has the value -100, which losses ignore, so that samples count unequally: give "
                             "count=, a function that returns the number of terms of a batch's mean")


def check_batch(module: torch.nn.Module, read: Settings, count: int) -> None:
    """Checks that the number of samples suits the plan, and that no layer computes statistics of a whole batch."""
    data = read.groups
    if read.batch is not None and count != read.batch:
        raise InputError(f"the batch has {count} samples; the plan has global_batch {read.batch}")
    if count % (data * (read.microbatch or 1)):
        raise InputError(f"{count} samples are not a multiple of mesh.data times mesh.expert, {data}, times microbatch {read.microbatch or 1}")
    several = data > 1 or count // data != (read.microbatch or count // data)
    for name, one in module.named_modules():
        if several and isinstance(one, torch.nn.modules.batchnorm._BatchNorm) and (one.training or not one.track_running_stats):
            raise InputError(f"{name} normalizes over the whole batch, of which a rank or microbatch has a part: call its eval(), or use "
                             "another normalization")


def check_mean(module: torch.nn.Module, loss: Loss, batch: Batch, count: Optional[Callable[[Batch], float]]) -> None:
    """Checks with two samples that their loss is the mean of the losses of each, on which gradients of parts of a batch rely."""
    training = {one: one.training for one in module.modules()}
    both = {name: value[:2] for name, value in batch.items()}
    each = [{name: value[at:at + 1] for name, value in both.items()} for at in range(2)]
    try:
        module.eval()
        with torch.no_grad():
            together, parts = float(loss(module, **both)), [float(loss(module, **one)) for one in each]
    finally:
        for one, mode in training.items():
            one.training = mode
    terms = [float(count(one)) for one in each] if count else [1.0, 1.0]
    mean = sum(part * term for part, term in zip(parts, terms)) / sum(terms)
    exact = next(module.parameters()).dtype == torch.double
    if abs(together - mean) > (1e-6 if exact else 5e-3) * max(abs(together), abs(mean)):
        raise InputError(f"the loss of two samples is {together:.9g}, and the mean of their own losses is {mean:.9g}: parts of a batch would give "
                         "other gradients. Give count=, the number of terms of the mean, or plan with mesh.data 1 and one microbatch; "
                         "check=False takes the loss as it is")


def check_mesh(mesh: DeviceMesh, read: Settings) -> None:
    """Checks that a mesh has the axes and sizes of the plan."""
    found = {axis: mesh[axis].size() for axis in mesh.mesh_dim_names or ()}
    sizes = {**found, "data": found.get("data", 1) * found.get("replicate", 1)}
    sizes.pop("replicate", None)
    wanted = dict(read.mesh)
    if {axis: size for axis, size in sizes.items() if size > 1} != wanted:
        raise InputError(f"mesh has the axes {found}, and the plan has {wanted}: give the mesh of kerf.torch.device_mesh(plan)")


def check_equal(module: torch.nn.Module, text: str, device: torch.device) -> None:
    """Checks that all ranks have the same plan and start with the same parameters."""
    names, values = ["the plan"], [float(int(hashlib.sha256(text.encode()).hexdigest()[:12], 16))]
    for name, parameter in module.named_parameters():
        names.append(f"parameter {name}")
        value = parameter.detach().double()
        values.append(float((value.reshape(-1) * torch.arange(1, value.numel() + 1, device=value.device, dtype=torch.double)).sum()))
    lowest = torch.tensor(values, dtype=torch.double, device=device)
    highest = lowest.clone()
    dist.all_reduce(lowest, dist.ReduceOp.MIN)
    dist.all_reduce(highest, dist.ReduceOp.MAX)
    for name, low, high in zip(names, lowest.tolist(), highest.tolist()):
        if low != high:
            raise InputError(f"{name} differs between ranks: load the same values on each, or set the same seed before the module is made")
