# SPDX-License-Identifier: Apache-2.0
"""Pipelines: the exported graph of a loss is cut at layers, and PyTorch's schedules run its parts."""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.pipelining import PipelineStage
from torch.distributed.pipelining.schedules import (PipelineScheduleMulti, Schedule1F1B, ScheduleGPipe, ScheduleInterleaved1F1B,
                                                    ScheduleInterleavedZeroBubble)
from torch.distributed.tensor import DTensor, Replicate

from ..errors import InputError
from . import tensor
from .placement import Placement, Settings, recompute_mode
from .recompute import layers, recompute

SCHEDULES: dict[str, Any] = {"gpipe": ScheduleGPipe, "1f1b": Schedule1F1B, "interleaved": ScheduleInterleaved1F1B,
                             "zero-bubble": ScheduleInterleavedZeroBubble}


PRODUCTS = {getattr(torch.ops.aten, name).default for name in ("linear", "addmm", "mm", "matmul", "embedding")}


def settle(value: torch.Tensor) -> torch.Tensor:
    """Sums a DTensor over the axis model where its ranks hold terms of a sum."""
    if isinstance(value, DTensor) and any(one.is_partial() for one in value.placements):
        return value.redistribute(placements=[Replicate()])
    return value


class Shell(torch.nn.Module):
    """A loss of a module as a module, whose parameters have the names that they have in the module."""

    _inner: torch.nn.Module
    _loss: Callable[..., torch.Tensor]

    def __init__(self, module: torch.nn.Module, loss: Callable[..., torch.Tensor]) -> None:
        super().__init__()
        self.__dict__.update(_inner=module, _loss=loss)
        self._modules, self._parameters, self._buffers = module._modules, module._parameters, module._buffers

    def forward(self, **batch: torch.Tensor) -> torch.Tensor:
        """Returns the loss of a batch."""
        return self._loss(self._inner, **batch)


class Piece(torch.nn.Module):
    """Some nodes of the graph as a module: `names` are the values that it takes, and `inputs` those that it takes from the batch."""

    graph_module: torch.fx.GraphModule

    def __init__(self, graph: torch.fx.GraphModule, inputs: tuple[str, ...]) -> None:
        super().__init__()
        self.graph_module, self.inputs = graph, inputs

    def forward(self, values: tuple[torch.Tensor, ...], batch: dict[str, torch.Tensor]) -> tuple[torch.Tensor, ...]:
        """Returns the values for the next piece."""
        return self.graph_module(*values, *(batch[name] for name in self.inputs))


class Stage(torch.nn.Module):
    """One part of the pipeline. Its pieces are recomputed and sharded one by one; between stages values are whole on each rank."""

    _mesh: DeviceMesh | None

    def __init__(self, pieces: list[Piece], mesh: DeviceMesh | None, last: bool) -> None:
        super().__init__()
        self.pieces, self.last = torch.nn.ModuleList(pieces), last
        self.__dict__["_mesh"] = mesh

    def forward(self, *values: torch.Tensor, **batch: torch.Tensor) -> Any:
        """Returns what the next stage gets, or the loss with one dimension."""
        if self._mesh is not None:
            values = tuple(DTensor.from_local(one, self._mesh, [Replicate()]) for one in values)
        for piece in self.pieces:
            values = piece(values, batch)
        out = tuple(one.redistribute(placements=[Replicate()]).to_local() if isinstance(one, DTensor) else one for one in values)
        return out[0].reshape(1) if self.last else out[0] if len(out) == 1 else out


def _path(node: torch.fx.Node) -> str:
    stack = node.meta.get("nn_module_stack") or {}
    return list(stack.values())[-1][0] if stack else ""


def _within(path: str, name: str) -> bool:
    return path == name or path.startswith(name + ".") or ("." + name + ".") in ("." + path + ".")


def cut_graph(program: torch.export.ExportedProgram, names: list[str]) -> list[Piece]:
    """Cuts an exported loss after the layers `names` but the last: one piece for each layer, the first with what comes before it.

    Each piece computes the values that depend on no parameter itself, from the batch, which all stages have.
    """
    module = program.module()
    nodes = list(module.graph.nodes)
    ends = []
    for name in names[:-1]:
        found = [number for number, node in enumerate(nodes) if node.op == "call_function" and _within(_path(node), name)]
        if not found:
            raise InputError(f"no op of the exported graph belongs to layer {name}, so that no stage can end there")
        ends.append(max(found))
    if ends != sorted(ends):
        raise InputError(f"the layers {names} run in another order than they are listed in the module; a pipeline needs that order")
    part = {node: sum(number > end for end in ends) for number, node in enumerate(nodes)}
    parameters = {name for name, _ in module.named_parameters(remove_duplicate=False)}
    free: set[torch.fx.Node] = set()
    for node in nodes:
        constant = node.op == "placeholder" or (node.op == "get_attr" and node.target not in parameters)
        if constant or (node.op == "call_function" and all(one in free for one in node.all_input_nodes)):
            free.add(node)
            if torch.Tag.nondeterministic_seeded in getattr(node.target, "tags", ()):
                raise InputError(f"{node.name} draws random numbers that several stages would draw unlike: plan with mesh.stage 1")
    result = next(node for node in nodes if node.op == "output").args[0]
    result = result[0] if isinstance(result, (tuple, list)) else result
    made = [node for node in nodes if node.op == "call_function" and node not in free]

    def sent(number: int) -> list[torch.fx.Node]:
        return [one for one in made if part[one] <= number and any(part[user] > number for user in one.users if user.op != "output")]

    pieces = []
    for number in range(len(ends) + 1):
        final = number == len(ends)
        outs = [result] if final else sent(number)
        pieces.append(_piece(module, [node for node in made if part[node] == number], sent(number - 1) if number else [], outs))
    return pieces


def _piece(module: torch.fx.GraphModule, nodes: list[torch.fx.Node], taken: list[torch.fx.Node], outs: list[Any]) -> Piece:
    graph, copies = torch.fx.Graph(), {}
    for node in taken:
        copies[node] = graph.placeholder(node.name)
    inputs: list[torch.fx.Node] = []
    wanted, seen = list(nodes), set()
    while wanted:  # inputs of the batch that the nodes reach through values without parameters
        for one in wanted.pop().all_input_nodes:
            if one in seen or one in copies or one in nodes:
                continue
            seen.add(one)
            wanted.append(one)
            if one.op == "placeholder":
                inputs.append(one)
    for node in inputs:
        copies[node] = graph.placeholder(node.name)

    def copy(node: torch.fx.Node) -> torch.fx.Node:
        if node not in copies:
            copies[node] = graph.node_copy(node, copy)
        return copies[node]

    for node in nodes:
        made = copy(node)
        if node.target in PRODUCTS:
            copies[node] = graph.call_function(settle, (made,))
    graph.output(tuple(copy(one) for one in outs))
    piece = torch.fx.GraphModule(module, graph)
    piece.delete_all_unused_submodules()
    return Piece(piece, tuple(str(node.target) for node in inputs))


class Pipeline:
    """The parts of this rank, their schedule, and the parameters that several stages share."""

    def __init__(self, module: torch.nn.Module, read: Settings, mesh: DeviceMesh, loss: Callable[..., torch.Tensor], sample: dict[str, torch.Tensor],
                 microbatches: int, placed: dict[str, Placement], notes: list[str]) -> None:
        stages = read.size("stage")
        if microbatches < stages:
            raise InputError(f"the plan has {microbatches} microbatches for {stages} stages; PyTorch's schedules need as many: "
                             "give a smaller microbatch")
        names = [name for name, _ in layers(module, read.layers)]
        bounds = parts_of(len(names), stages * read.chunks, read.stages)
        self._mesh, self._count = mesh, microbatches
        self._aliases = _aliases(module)
        pieces = cut_graph(torch.export.export(Shell(module, loss), (), sample, strict=False), names)
        model = mesh["model"] if read.size("model") > 1 else None
        if model is not None:
            _refuse_random(pieces)
        used = [{self._aliases[name] for at in range(first, last + 1) for name, _ in pieces[at].graph_module.named_parameters(remove_duplicate=False)}
                for first, last in bounds]
        missing = set(self._aliases.values()) - set().union(*used)
        if missing:
            raise InputError(f"parameter {min(missing)} has no effect on the loss, so that no stage holds it: freeze it or remove it")
        here = mesh.get_local_rank("stage")
        mine = [number for number in range(len(bounds)) if number % stages == here]
        self._values: dict[str, torch.nn.Parameter] = {}
        self.parts, placed_stages = [], []
        for number in mine:
            first, last = bounds[number]
            stage = Stage(pieces[first:last + 1], model, number == len(bounds) - 1)
            self._place(stage, placed, model, notes)
            for offset, piece in enumerate(stage.pieces):
                recompute(piece, recompute_mode(read.recompute, first + offset, names[first + offset], here, stages))
            self._shard(stage, read, number, used, mine)
            self.parts.append(stage)
            device = next(stage.parameters()).device
            placed_stages.append(PipelineStage(stage, number, len(bounds), device, group=mesh["stage"].get_group()))
        self._tied = self._groups(used, stages)
        self._last = len(bounds) - 1 in mine
        schedule = SCHEDULES[read.schedule]
        several = issubclass(schedule, PipelineScheduleMulti)
        self.schedule = schedule(placed_stages if several else placed_stages[0], microbatches, loss_fn=_weighted, scale_grads=False)

    def _place(self, stage: Stage, placed: dict[str, Placement], model: DeviceMesh | None, notes: list[str]) -> None:
        """Gives all uses of a parameter on this rank one tensor, cut along the axis model."""
        for piece in stage.pieces:
            assert isinstance(piece, Piece)
            graph = piece.graph_module
            if model is not None:
                own = {name: placed[self._aliases[name]] for name, _ in graph.named_parameters(remove_duplicate=False)}
                notes.extend(note for note in tensor.distribute(graph, own, model, fuse=False)[1] if note not in notes)
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
        axis = (self._mesh.mesh_dim_names or ()).index("stage")
        lines = self._mesh.mesh.movedim(axis, -1).reshape(-1, stages).tolist()
        result = []
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
            dist.all_reduce(grad.to_local() if isinstance(grad, DTensor) else grad, group=group)

    def step(self, slices: list[dict[str, torch.Tensor]], weights: list[float]) -> torch.Tensor:
        """Runs forward and backward of all microbatches, and returns the weighted sum of their losses on all stages."""
        first = next(iter(slices[0].values()))
        batch = {name: torch.cat([one[name] for one in slices]) for name in slices[0]}
        target = torch.tensor(weights, dtype=torch.double, device=first.device)
        losses: list[torch.Tensor] = []
        self.schedule.step(target=target, losses=losses, return_outputs=False, **batch)
        total = torch.zeros((), dtype=torch.double, device=first.device)
        if self._last:
            total += torch.stack([loss.detach().double() for loss in losses]).sum()
        dist.all_reduce(total, group=self._mesh["stage"].get_group())
        return total


def _weighted(out: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    return (out * weight.to(out.dtype)).sum()


def _aliases(module: torch.nn.Module) -> dict[str, str]:
    """Returns for each name of a parameter the name that named_parameters() gives it."""
    first = {id(parameter): name for name, parameter in module.named_parameters()}
    return {name: first[id(parameter)] for name, parameter in module.named_parameters(remove_duplicate=False)}


def _refuse_random(pieces: list[Piece]) -> None:
    for piece in pieces:
        for node in piece.graph_module.graph.nodes:
            random = torch.Tag.nondeterministic_seeded in getattr(node.target, "tags", ())
            if random and not ("dropout" in node.name and (node.args[1] == 0 or node.args[2] is False)):
                raise InputError(f"{node.name} under mesh.model draws unlike numbers on its ranks: set dropout to 0, or plan with mesh.model 1")


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
