# SPDX-License-Identifier: Apache-2.0
"""Pipelines: the exported graph of a loss is cut at layers or ops, and PyTorch's schedules run its parts."""
from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.pipelining import PipelineStage
from torch.distributed.tensor import DTensor, Shard, distribute_tensor

from ..errors import InputError
from . import tensor
from .axes import inner_mesh, places
from .context import cut_sequence
from .expert import find_experts, one_op_each
from .graph import Piece, Shell, cut_graph, refuse_random
from .placement import Job, Placement, Settings, recompute_mode
from .recompute import layers, recompute
from .schedule import make_schedule
from .stage_mesh import SAMPLES, check_samples_first, gather_samples, lines_of, pipeline_group, take_samples
from .steer import Steer


class _Received(torch.autograd.Function):
    """Passes on a value of the stage before, and makes its gradient contiguous, as PyTorch sends it."""

    @staticmethod
    def forward(ctx: Any, value: torch.Tensor) -> torch.Tensor:
        return value.view_as(value)

    @staticmethod
    def backward(ctx: Any, *grads: torch.Tensor) -> torch.Tensor:
        return grads[0].contiguous()


class Stage(torch.nn.Module):
    """One part of the pipeline. Its pieces are recomputed and sharded one by one. `mesh` has the axes that cut the values of a sample,
    and `cuts` those of them that cut the sequence of values between stages: a rank sends its part. Where stages have meshes of their
    own, `apart` is that of this stage, and ranks send all samples of a microbatch."""

    _mesh: DeviceMesh | None
    _apart: DeviceMesh | None
    _cuts: dict[str, Any]
    _parts: int  # the number of parts of a sequence

    def __init__(self, pieces: list[Piece], mesh: DeviceMesh | None, cuts: tuple[str, ...], last: bool, apart: DeviceMesh | None) -> None:
        super().__init__()
        self._taken, self._made = pieces[0].taken, pieces[-1].made
        self.pieces, self.last = torch.nn.ModuleList(pieces), last
        parts = math.prod(mesh[axis].size() for axis in cuts) if mesh is not None else 1
        self.__dict__.update(_mesh=mesh, _apart=apart, _cuts={axis: Shard(1) for axis in cuts}, _parts=parts)

    def forward(self, *values: torch.Tensor, **batch: torch.Tensor) -> Any:
        """Returns what the next stage gets, or the loss with one dimension."""
        mesh, apart = self._mesh, self._apart
        values = tuple(_Received.apply(one) for one in values)  # type: ignore[misc]
        if apart is not None:
            values = tuple(take_samples(one, apart) for one in values)
        if mesh is not None:
            values = tuple(DTensor.from_local(one, mesh, self._between(shape)) for one, shape in zip(values, self._taken))
            batch = cut_sequence(batch, mesh)
        for piece in self.pieces:
            values = piece(values, batch)
        out = tuple(one.redistribute(placements=self._between(shape)).to_local() if isinstance(one, DTensor) else one
                    for one, shape in zip(values, self._made))
        if apart is not None and not self.last:
            out = tuple(gather_samples(one, apart) for one in out)
        out = tuple(one.contiguous() for one in out)  # as PyTorch sends values
        return out[0].reshape(1) if self.last else out[0] if len(out) == 1 else out

    def _between(self, shape: torch.Size) -> list[Any]:
        """Returns the placements of a value between stages, by its shape: a value whose dimension 1 the ranks do not divide is whole."""
        assert self._mesh is not None
        return places(self._mesh, **(self._cuts if len(shape) > 1 and shape[1] % self._parts == 0 else {}))


class Pipeline:
    """The parts of this rank, their schedule, and the parameters that several stages share."""

    def __init__(self, module: torch.nn.Module, job: Job, mesh: DeviceMesh, loss: Callable[..., torch.Tensor], sample: dict[str, torch.Tensor],
                 microbatches: int, placed: dict[str, Placement], notes: list[str]) -> None:
        read = job.settings
        stages = read.size("stage")
        names = [name for name, _ in layers(module, read.layers)] if not read.until else [f"part {number}" for number in range(len(read.until) + 1)]
        bounds = parts_of(len(names), stages * read.chunks, read.stages)
        self._mesh, self._apart = mesh, read.apart > 0
        self._group = pipeline_group(mesh, self._apart)
        self._aliases = _aliases(module)
        inner = inner_mesh(mesh)
        cuts = tuple(axis for axis in (inner.mesh_dim_names or () if inner and not self._apart else ()) if axis == "context" or read.sequence_parallel)
        steer = Steer(read.sequence_parallel) if inner else None
        experts = find_experts(module, placed, mesh)

        def cut(batch: dict[str, torch.Tensor]) -> list[Piece]:
            with one_op_each(module, experts):
                program = torch.export.export(Shell(module, loss), (), batch, strict=False)
            return cut_graph(program, names, read.until, steer, experts)

        pieces = cut(sample)
        if self._apart:
            more = cut({name: torch.cat([value, value[:1]]) for name, value in sample.items()})
            for first, _ in bounds[1:]:
                check_samples_first(pieces[first].taken, more[first].taken, next(iter(sample.values())).shape[0])
        if inner is not None:
            refuse_random(pieces)
        used = [{self._aliases[name] for at in range(first, last + 1) for name, _ in pieces[at].graph_module.named_parameters(remove_duplicate=False)}
                for first, last in bounds]
        missing = set(self._aliases.values()) - set().union(*used)
        if missing:
            raise InputError(f"parameter {min(missing)} has no effect on the loss, so that no stage holds it: freeze it or remove it")
        here = mesh.get_local_rank("stage")
        mine = [number for number in range(len(bounds)) if number % stages == here]
        self._values: dict[str, torch.nn.Parameter] = {}
        self.stored: dict[str, Placement] = {}
        self.parts, placed_stages = [], []
        for number in mine:
            first, last = bounds[number]
            stage = Stage(pieces[first:last + 1], inner, cuts, number == len(bounds) - 1, mesh if self._apart else None)
            self._place(stage, placed, {name for one in experts.values() if one.by_feature for name in one.names}, notes)
            for offset, piece in enumerate(stage.pieces):
                recompute(piece, recompute_mode(read.recompute, first + offset, names[first + offset], here, stages))
            self._shard(stage, read, number, used, mine)
            self.parts.append(stage)
            device = next(stage.parameters()).device
            placed_stages.append(PipelineStage(stage, number, len(bounds), device, group=self._group))
        self._tied = self._groups(used, stages)
        self._last = len(bounds) - 1 in mine
        self.schedule = make_schedule(job, placed_stages, microbatches, _weighted)

    def _place(self, stage: Stage, placed: dict[str, Placement], features: set[str], notes: list[str]) -> None:
        """Gives all uses of a parameter on this rank one tensor, which the axes model and expert cut."""
        for piece in stage.pieces:
            assert isinstance(piece, Piece)
            graph = piece.graph_module
            own = {name: placed[self._aliases[name]] for name, _ in graph.named_parameters(remove_duplicate=False)}
            stored, new = tensor.distribute(graph, own, self._mesh, False, features)
            self.stored.update(stored)
            notes.extend(note for note in new if note not in notes)
            for owner_name, owner in graph.named_modules():
                for leaf, parameter in list(owner._parameters.items()):
                    if parameter is not None:
                        name = self._aliases[f"{owner_name}.{leaf}".lstrip(".")]
                        owner._parameters[leaf] = self._values.setdefault(name, parameter)

    def _shard(self, stage: Stage, read: Settings, number: int, used: list[set[str]], mine: list[int]) -> None:
        from .parallelize import shard

        if not read.level or read.size("data") == 1:
            return
        shared = used[number] & set().union(set(), *(used[other] for other in mine if other != number))
        if shared:
            raise InputError(f"parameter {min(shared)} is in two stages of one rank, which fully_shard cannot share: give optimizer_sharding 0")
        users: dict[int, int] = {}
        for piece in stage.pieces:
            for parameter in piece.parameters():
                users[id(parameter)] = users.get(id(parameter), 0) + 1
        shard(stage, [piece for piece in stage.pieces if all(users[id(one)] == 1 for one in piece.parameters())], read, self._mesh)

    def _groups(self, used: list[set[str]], stages: int) -> list[tuple[str, dist.ProcessGroup]]:
        """Makes a process group for each parameter that several ranks of a pipeline hold; every rank makes all groups."""
        lines, result = lines_of(self._mesh), []
        for name in sorted(set().union(*used)):
            holders = sorted({number % stages for number, names in enumerate(used) if name in names})
            for line in lines if len(holders) > 1 else []:
                ranks = [line[one] for one in holders]
                group = dist.new_group(ranks)
                if dist.get_rank() in ranks:
                    result.append((name, group))
        return result

    def named_parameters(self) -> list[tuple[str, torch.nn.Parameter]]:
        """Returns the parameters of this rank by the names that they have in the module."""
        return [(self._aliases[name.split(".graph_module.", 1)[1]], one) for part in self.parts for name, one in part.named_parameters()]

    def sum_tied(self) -> None:
        """Sums the gradients of parameters that several stages use."""
        held = dict(self.named_parameters())
        for name, group in self._tied:
            grad = held[name].grad
            if grad is None:
                grad = held[name].grad = torch.zeros_like(held[name])
            if self._apart and isinstance(grad, DTensor):  # stages cut the parameter in ways of their own
                whole = grad.full_tensor()
                dist.all_reduce(whole, group=group)
                held[name].grad = distribute_tensor(whole, grad.device_mesh, grad.placements, src_data_rank=None)
                continue
            dist.all_reduce(grad.to_local() if isinstance(grad, DTensor) else grad, group=group)

    def step(self, slices: list[dict[str, torch.Tensor]], weights: list[float]) -> torch.Tensor:
        """Runs forward and backward of all microbatches, and returns the weighted sum of the losses of all samples on every rank."""
        first = next(iter(slices[0].values()))
        batch = {name: torch.cat([one[name] for one in slices]) for name in slices[0]}
        target = torch.tensor(weights, dtype=torch.double, device=first.device)
        losses: list[torch.Tensor] = []
        self.schedule.step(target=target, losses=losses, return_outputs=False, **batch)
        total = torch.zeros((), dtype=torch.double, device=first.device)
        if self._last:
            total += torch.stack([loss.detach().double() for loss in losses]).sum()
            for axis in (one for one in SAMPLES if one in (self._mesh.mesh_dim_names or ())):
                dist.all_reduce(total, group=self._mesh[axis].get_group())
        dist.all_reduce(total, group=self._group)
        return total


def _weighted(out: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    return (out * weight.to(out.dtype)).sum()


def _aliases(module: torch.nn.Module) -> dict[str, str]:
    """Returns for each name of a parameter the name that named_parameters() gives it."""
    first = {id(parameter): name for name, parameter in module.named_parameters()}
    return {name: first[id(parameter)] for name, parameter in module.named_parameters(remove_duplicate=False)}


def parts_of(count: int, parts: int, given: tuple[tuple[int, ...], ...]) -> list[tuple[int, int]]:
    """Returns the first and the last layer of each part: those that the plan gives, or an even division."""
    if count < parts:
        raise InputError(f"the module has {count} repeated layers for {parts} parts of the pipeline; each needs one")
    if given:
        ends = [-1, *(one[1] for one in given)]
        if any(one[0] != before + 1 or one[1] < one[0] for one, before in zip(given, ends)) or ends[-1] != count - 1:
            raise InputError(f"stages has the layers {[list(one) for one in given]}; together they have to be 0 to {count - 1} of the module")
        return [(one[0], one[1]) for one in given]
    sizes = [count // parts + (number < count % parts) for number in range(parts)]
    return [(sum(sizes[:number]), sum(sizes[:number + 1]) - 1) for number in range(parts)]
