# SPDX-License-Identifier: Apache-2.0
"""kerf.torch.parallelize: runs a module of PyTorch under a plan of Kerf, with PyTorch's own parallelism."""
from __future__ import annotations

import contextlib
import functools
import warnings
from collections.abc import Callable, Iterator
from typing import Any, Optional

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.fsdp import FSDPModule, fully_shard
from torch.distributed.tensor import DTensor, distribute_tensor
from torch.distributed.tensor.experimental import implicit_replication

from ..checks import arrays, callable_, instance
from ..errors import InputError
from ..errors import Warning as KerfWarning
from ..model import Model
from ..plans import PlanLike, as_plan
from . import tensor
from .axes import inner_mesh
from .checks import Batch, Loss, check_batch, check_equal, check_mean, check_mesh, check_samples, check_terms, samples
from .context import cut_sequence
from .expert import attach, find_experts
from .modes import InnerAxes
from .placement import Job, Placement, Settings, device_mesh, placements, recompute_mode, settings_of, stage_of
from .recompute import layers, recompute
from .shared import SharedGathers
from .stage_mesh import SAMPLES, data_rank
from .traffic import Counter, Traffic, planned


def _loss_of(module: torch.nn.Module, **batch: torch.Tensor) -> torch.Tensor:
    out = module(**batch)
    return out if isinstance(out, torch.Tensor) else out.loss if hasattr(out, "loss") else out[0]


class Parallel:
    """A module under a plan. `step` computes the gradients of a global batch; the optimizer is the user's, over `parameters()`."""

    def __init__(self, module: torch.nn.Module, job: Job, mesh: DeviceMesh, loss: Loss, batch: Batch,
                 count: Optional[Callable[[Batch], float]], placed: dict[str, Placement], notes: list[str]) -> None:
        self.mesh, self.notes = mesh, notes
        self._job, read = job, job.settings
        self._settings, self._loss, self._count = read, loss, count
        self._stored: dict[str, Placement] = {}
        self._spread = {name for name, one in placed.items() if one.expert}
        self._samples = samples(batch)
        self._pipeline: Any = None
        self._gathers: Optional[SharedGathers] = None
        self._buffers = {name: buffer for name, buffer in module.named_buffers()}
        if read.size("stage") > 1:
            from .pipeline import Pipeline

            self._pipeline = Pipeline(module, job, mesh, loss, {key: value[:self.microbatch] for key, value in batch.items()},
                                      self.microbatches, placed, notes)
            self.parts, self._stored = self._pipeline.parts, self._pipeline.stored
        elif read.by_op:
            from .placed import PlacedGraph

            size = self.microbatch * read.size("data")
            graph = PlacedGraph(module, job, mesh, loss, {key: value[:size] for key, value in batch.items()}, placed)
            self.parts, self._stored = [graph], graph.stored
        else:
            self.parts = [module]
            self._apply(module, placed)

    def _apply(self, module: torch.nn.Module, placed: dict[str, Placement]) -> None:
        read = self._settings
        repeated = layers(module, read.layers)
        if not repeated and read.recompute != "none":
            raise InputError("recompute needs repeated layers, but the module has no ModuleList or Sequential of several modules of one class: "
                             'give recompute "none"')
        inner, experts = inner_mesh(self.mesh), find_experts(module, placed, self.mesh)
        if inner is not None or experts:
            features = {name for one in experts.values() if one.by_feature for name in one.names}
            self._stored, notes = tensor.distribute(module, placed, self.mesh, True, features)
            self.notes.extend(notes)
        if inner is not None and read.size("model") > 1:
            saved = [layer for number, (name, layer) in enumerate(repeated) if recompute_mode(read.recompute, number, name, 0, 1) == "none"]
            self._gathers = tensor.steer(module, placed, self._stored, inner, read.sequence_parallel, saved)
        attach(module, experts)
        for number, (name, layer) in enumerate(repeated):
            recompute(layer, recompute_mode(read.recompute, number, name, 0, 1))
        shard(module, [layer for _, layer in repeated], read, self.mesh)

    @property
    def microbatches(self) -> int:
        """The number of microbatches of a step."""
        return self._samples // self._settings.groups // self.microbatch

    @property
    def microbatch(self) -> int:
        """The number of samples of a microbatch on each data rank."""
        return self._settings.microbatch or self._samples // self._settings.groups

    def parameters(self) -> Iterator[torch.nn.Parameter]:
        """Returns the parameters of this rank, for the optimizer. Give the optimizer foreach=False where it mixes meshes."""
        return (parameter for _, parameter in self.named_parameters())

    def named_parameters(self) -> Iterator[tuple[str, torch.nn.Parameter]]:
        """Returns the parameters of this rank by the user's names."""
        seen = set()
        for name, parameter in self._pipeline.named_parameters() if self._pipeline else self.parts[0].named_parameters():
            if id(parameter) not in seen:
                seen.add(id(parameter))
                yield name, parameter

    def step(self, batch: Batch) -> torch.Tensor:
        """Adds the gradients of the mean loss over a global batch to the parameters, and returns that loss on every rank.

        Every rank gives the same global batch, and this call takes the samples of the rank from it."""
        left = next((name for name, parameter in self.named_parameters() if parameter.grad is not None), None)
        if left is not None:
            raise InputError(f"parameter {left} has the gradient of an earlier step: call optimizer.zero_grad() with set_to_none=True first")
        if self._settings.by_op:
            return self._finish(self._step_by_op(batch))
        slices, weights = self._microbatches(batch)
        with contextlib.ExitStack() as stack:
            if inner_mesh(self.mesh) is not None:
                stack.enter_context(implicit_replication())
                if not self._pipeline:  # the graphs of stages have these functions in place of PyTorch's
                    stack.enter_context(InnerAxes())
            if self._pipeline:
                total = self._pipeline.step(slices, weights)
            else:
                total = self._accumulate(slices, weights)
        return self._finish(total)

    def _microbatches(self, batch: Batch) -> tuple[list[Batch], list[float]]:
        check_samples(batch, self._samples)
        if self._count is None:
            check_terms(batch)
        data, size, count, rank = self._settings.groups, self.microbatch, self.microbatches, data_rank(self.mesh)
        # Where stages have meshes of their own, the microbatches of all stages have the same samples: they cut the batch first.
        first, step = (rank, data) if self._settings.apart else (rank * count, 1)
        numbers = [first + number * step for number in range(count)]
        mine = [{key: value[number * size:(number + 1) * size] for key, value in batch.items()} for number in numbers]
        if self._count is None:
            return mine, [1 / (data * count)] * count
        counts = [float(self._count({key: value[at:at + size] for key, value in batch.items()})) for at in range(0, self._samples, size)]
        return mine, [counts[number] / sum(counts) for number in numbers]

    def _accumulate(self, slices: list[Batch], weights: list[float]) -> torch.Tensor:
        module, losses, inner = self.parts[0], [], inner_mesh(self.mesh)
        for number, (one, weight) in enumerate(zip(slices, weights)):
            if isinstance(module, FSDPModule):
                module.set_requires_gradient_sync(self._settings.level > 1 or number == len(slices) - 1)
                module.set_reshard_after_backward(self._settings.level == 3 or number == len(slices) - 1)
            loss = self._loss(module, **(one if inner is None else cut_sequence(one, inner))) * weight
            loss = loss.full_tensor() if isinstance(loss, DTensor) else loss
            loss.backward()
            losses.append(loss.detach())
        tensor.check_used(self.parts[0])
        if self._gathers:
            self._gathers.clear()
        return functools.reduce(torch.add, losses)

    def _step_by_op(self, batch: Batch) -> torch.Tensor:
        """Runs the microbatches of all data ranks one after the other; each is one global batch of DTensors."""
        check_samples(batch, self._samples)
        size, losses = self.microbatch * self._settings.size("data"), []
        slices = [{key: value[at:at + size] for key, value in batch.items()} for at in range(0, self._samples, size)]
        if self._count is None and len(slices) > 1:
            check_terms(batch)
        counts = [float(self._count(one)) if self._count else 1.0 for one in slices]
        for one, count in zip(slices, counts):
            with implicit_replication():
                loss = (self.parts[0](one) * (count / sum(counts))).full_tensor()
                loss.backward()
            losses.append(loss.detach())
        return functools.reduce(torch.add, losses)

    def _finish(self, total: torch.Tensor) -> torch.Tensor:
        axes = [] if self._settings.by_op else [axis for axis in SAMPLES if axis in (self.mesh.mesh_dim_names or ())]
        data = {axis: self.mesh[axis].get_group() for axis in axes}
        for group in data.values() if not self._pipeline else ():  # all stages have the sum already
            dist.all_reduce(total, group=group)
        for parameter in self.parameters():  # a gradient may still be a sum over the axis model, or cut in another dimension
            grad = parameter.grad
            if isinstance(grad, DTensor) and isinstance(parameter, DTensor) and grad.placements != parameter.placements:
                parameter.grad = grad.redistribute(placements=parameter.placements)
        for axis, group in data.items():
            if not self._settings.level or axis == "expert":  # fully_shard has summed over the axes of samples
                own = {id(one) for name, one in self.named_parameters() if axis == "expert" and name in self._spread}
                sum_gradients([one for part in self.parts for one in part.parameters() if id(one) not in own], group)
        if self._pipeline:
            self._pipeline.sum_tied()
        return total

    def traffic(self, batch: Batch) -> Traffic:
        """Runs a step without an update, and returns the bytes of its collectives on this rank beside those of the plan.

        The gradients are dropped. Print the result for a table. All ranks have to call this."""
        counter = Counter(self.mesh)
        with counter:
            self.step(batch)
        for parameter in self.parameters():
            parameter.grad = None
        stage = self.mesh.get_local_rank("stage") if self._pipeline else 0
        rows, why = planned(self._job.plan, self._job.model, stage)
        return Traffic(counter.rows(), rows, dict(self._settings.mesh), why)

    def state_dict(self) -> dict[str, torch.Tensor]:
        """Returns the parameters and buffers of this rank by the user's names and in the user's order of elements.

        torch.distributed.checkpoint.save writes it, and every program reads that checkpoint without Kerf."""
        state: dict[str, torch.Tensor] = {}
        for name, parameter in self.named_parameters():
            value = parameter.detach()
            if name in self._stored:
                where = self._stored[name]
                assert where.dimension is not None and isinstance(value, DTensor)
                value = tensor.reorder(value.full_tensor(), where.dimension, where.blocks, self._settings.size("model"), back=True)
            state[name] = value
        return {**state, **self._buffers}

    def load_state_dict(self, state: dict[str, torch.Tensor]) -> None:
        """Takes the parameters of this rank from `state`: whole tensors by the user's names, or what `state_dict` returns."""
        with torch.no_grad():
            for name, parameter in self.named_parameters():
                value = state[name]
                if name in self._stored:
                    where = self._stored[name]
                    assert where.dimension is not None
                    value = tensor.reorder(value, where.dimension, where.blocks, self._settings.size("model"))
                if isinstance(parameter, DTensor) and not isinstance(value, DTensor):
                    value = distribute_tensor(value.to(parameter.device), parameter.device_mesh, parameter.placements, src_data_rank=None)
                parameter.copy_(value)


def shard(module: torch.nn.Module, units: list[torch.nn.Module], read: Settings, mesh: DeviceMesh) -> None:
    """Shards parameters, gradients and states over the data ranks, one unit after the other, and makes the reduction a sum."""
    if not read.level or read.size("data") == 1:
        return
    over = mesh["replicate", "data"] if "replicate" in (mesh.mesh_dim_names or ()) else mesh["data"]
    for one in [*units, module]:
        fully_shard(one, mesh=over, reshard_after_forward=read.level == 3)
        one.set_gradient_divide_factor(1.0)  # type: ignore[operator]
        one.set_force_sum_reduction_for_comms(True)  # type: ignore[operator]  # gloo has no scaled sums of float32


def sum_gradients(parameters: list[torch.nn.Parameter], group: dist.ProcessGroup) -> None:
    """Sums the gradients of parameters over a group, in one collective for each type."""
    trained = list({id(one): one for one in parameters if one.requires_grad}.values())
    if not trained:
        return
    has = torch.tensor([one.grad is not None for one in trained], dtype=torch.int32, device=trained[0].device)
    dist.all_reduce(has, dist.ReduceOp.MAX, group=group)
    seen: dict[int, torch.Tensor] = {}
    for one, anywhere in zip(trained, has.tolist()):
        if anywhere:  # a parameter without a gradient on every rank keeps none, as on one device
            if one.grad is None:
                one.grad = torch.zeros_like(one)
            seen[id(one)] = one.grad.to_local() if isinstance(one.grad, DTensor) else one.grad
    for dtype in sorted({grad.dtype for grad in seen.values()}, key=str):
        grads = [grad for grad in seen.values() if grad.dtype == dtype]
        flat = torch.cat([grad.reshape(-1) for grad in grads])
        dist.all_reduce(flat, group=group)
        for grad, new in zip(grads, flat.split([grad.numel() for grad in grads])):
            grad.copy_(new.view_as(grad))


def parallelize(module: torch.nn.Module, plan: PlanLike, *, batch: Batch, mesh: Optional[DeviceMesh] = None, loss: Optional[Loss] = None,
                model: Optional[Model] = None, count: Optional[Callable[[Batch], float]] = None, unsupported: str = "raise",
                check: bool = True) -> Parallel:
    """Distributes a module under a plan over the running processes, and returns what trains it.

    `batch` is a global batch of the shapes to come. `loss(module, **batch)` returns the mean loss; by default it is what the module
    returns. `count(batch)` returns the number of terms of that mean, where samples have unequal numbers of them. `unsupported` is
    "raise" or "warn": whether a decision of the plan that PyTorch cannot run is refused, or left out with a warning. `check` runs the
    loss on two samples to see whether it is the mean over samples.
    """
    instance(module, torch.nn.Module, "module is a torch.nn.Module")
    for name, tensor in arrays(batch, "batch").items():
        instance(tensor, torch.Tensor, f"batch['{name}'] is a tensor")
    for given, what in ((loss, "loss"), (count, "count")):
        if given is not None:
            callable_(given, what)
    if mesh is not None:
        instance(mesh, DeviceMesh, "mesh is a DeviceMesh")
    instance(unsupported, str, 'unsupported is "raise" or "warn"')
    instance(check, bool, "check is True or False")
    if unsupported not in ("raise", "warn"):
        raise InputError(f'unsupported is "{unsupported}"; give "raise" or "warn"')
    read_plan = as_plan(plan)
    read = settings_of(read_plan, module)
    placed, refused = placements(read_plan, module, model)
    refused = [*read.refused, *refused]
    if refused and unsupported == "raise":
        raise InputError("PyTorch cannot run this of the plan: " + "; ".join(refused))
    blocking = [one for one in refused if one.startswith(("mesh.", "stages"))]
    if blocking:
        raise InputError("the plan does not run without this, which PyTorch cannot do: " + "; ".join(blocking))
    for one in refused:
        warnings.warn(f"left out: {one}", KerfWarning, stacklevel=2)
    if not dist.is_initialized():
        dist.init_process_group()
    for number in range(read.apart or 1):
        check_batch(module, settings_of(read_plan, module, number), samples(batch))
    device = next(module.parameters()).device
    over = mesh or device_mesh(read_plan, device.type)
    if read.apart:
        read = settings_of(read_plan, module, stage_of(read, dist.get_rank(), dist.get_world_size()))
    check_mesh(over, read)
    check_equal(module, read_plan.text, device)
    many = samples(batch)
    if check and many > 1 and (read.groups > 1 or many != (read.microbatch or many)):
        check_mean(module, loss or _loss_of, batch, count)
    job = Job(read_plan, read, model)
    return Parallel(module, job, over, loss or _loss_of, batch, count, placed, [*read.notes, *(f"left out: {one}" for one in refused)])
