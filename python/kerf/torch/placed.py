# SPDX-License-Identifier: Apache-2.0
"""Strategies of single ops: the exported graph of a loss runs on DTensors, and the result of each op that the plan names is placed as the
plan says. Each redistribution keeps the values, so that a strategy changes where values are and never what they are."""
from __future__ import annotations

import functools
from typing import Any

import torch
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor import DTensor, Replicate, Shard, distribute_tensor
from torch.utils import _pytree as pytree
from torch.utils.checkpoint import CheckpointPolicy, checkpoint, create_selective_checkpoint_contexts

from ..errors import InputError
from . import vocabulary
from .checks import Batch, Loss
from .fused import find_fused, split
from .graph import Piece, Shell, cut_graph, refuse_random
from .placement import Job, Placement, recompute_mode
from .recompute import SAVED, layers
from .steer import REPLACED
from .strategies import gradients_of, operands_of, place, strategies_of
from .tensor import reorder


class _Interpreter(torch.fx.Interpreter):
    def __init__(self, owner: PlacedGraph, piece: Piece) -> None:
        super().__init__(piece.graph_module, garbage_collect_values=True)
        self._owner = owner

    def run_node(self, n: torch.fx.Node) -> Any:
        """Runs a node, and places its result as the plan says."""
        self._owner.running = n.name
        if n.target is torch.ops.aten._assert_tensor_metadata.default:
            return None  # it speaks of the tensors of the export, and DTensor has no rule for it
        args, kwargs = self.fetch_args_kwargs_from_env(n)
        if n.target is torch.ops.aten.cross_entropy_loss.default:
            return vocabulary.mean_by_sum(*args, **kwargs)
        kind, entry = self._owner.strategies.get(n.name, ("", {}))
        if kind == "attention" and "strategy" in entry:
            args, kwargs = pytree.tree_map_only(DTensor, functools.partial(place, entry["strategy"], kind), (args, kwargs))
        if n.name in self._owner.operands:
            args = self._owner.operands[n.name].of(args)
        if n.name in self._owner.gradients:
            args = self._owner.gradients[n.name].of(args)
        if n.name in self._owner.splits:
            return split(args[0], self._owner.splits[n.name])
        if kind == "attention":
            function: Any = REPLACED.get(n.target, n.target)
            return function(*args, **kwargs)
        bias = None
        if n.name in self._owner.operands and n.target in (torch.ops.aten.linear.default, torch.ops.aten.addmm.default) and not kwargs:
            n_target, args, bias = _without_bias(n.target, args)
        else:
            n_target = n.target
        out = getattr(self, n.op)(n_target, args, kwargs)
        if not isinstance(out, DTensor) or "strategy" not in entry:
            return out if bias is None else out + bias
        out = place(entry["strategy"], kind, out)
        return out if bias is None else place(entry["strategy"], kind, out + bias)


def _without_bias(target: Any, args: tuple[Any, ...]) -> tuple[Any, tuple[Any, ...], Any]:
    """Returns a product without its bias, and the bias: DTensor gathers the weight of a product of terms of a sum that has one."""
    if target is torch.ops.aten.addmm.default:
        return torch.ops.aten.mm.default, args[1:3], args[0]
    return target, args[:2], args[2] if len(args) > 2 else None


class PlacedGraph(torch.nn.Module):
    """The loss of a module as pieces of its exported graph, whose parameters are DTensors on all axes of the mesh."""

    _mesh: DeviceMesh

    def __init__(self, module: torch.nn.Module, job: Job, mesh: DeviceMesh, loss: Loss, sample: Batch, placed: dict[str, Placement]) -> None:
        super().__init__()
        content = job.plan.to_dict()
        self.__dict__.update(_mesh=mesh)
        self.running = ""
        repeated = [name for name, _ in layers(module, job.settings.layers)]
        names = {id(parameter): name for name, parameter in module.named_parameters()}
        aliases = self._aliases = {name: names[id(parameter)] for name, parameter in module.named_parameters(remove_duplicate=False)}
        pieces = cut_graph(torch.export.export(Shell(module, loss), (), sample, strict=False), repeated or ["the module"])
        refuse_random(pieces)
        for node in (node for piece in pieces for node in piece.graph_module.graph.nodes if "conv" in getattr(node.target, "_opname", "")):
            raise InputError(f"{node.name}: DTensor has no rule for convolutions that are cut; give the plan no strategies in ops")
        self.strategies = strategies_of(pieces, content.get("ops", {}))
        self.operands = operands_of(pieces, content.get("ops", {}))
        self.gradients = gradients_of(pieces, content.get("ops", {}))
        self._inputs = {name: [set(axes) for axes in content.get("arguments", {}).get(name, [["data"]])] for name in sample}
        self._modes = [recompute_mode(job.settings.recompute, number, name, 0, 1) for number, name in enumerate(repeated or [""])]
        self.pieces = torch.nn.ModuleList(pieces)
        ranks = job.settings.size("model")
        fused, self.splits = find_fused(pieces, placed, aliases, ranks) if ranks > 1 else (set(), {})
        self.stored = {name: placed[name] for name in fused}
        values: dict[str, torch.nn.Parameter] = {}
        for piece in pieces:
            for path, owner in piece.graph_module.named_modules():
                for leaf, parameter in list(owner._parameters.items()):
                    if parameter is None:
                        continue
                    name = aliases[f"{path}.{leaf}".lstrip(".")]
                    if name not in values:
                        where, value = placed[name], parameter.detach()
                        if name in fused and where.dimension is not None:
                            value = reorder(value, where.dimension, where.blocks, ranks)
                        tensor = distribute_tensor(value, mesh, self._placements(where), src_data_rank=None)
                        values[name] = torch.nn.Parameter(tensor, requires_grad=parameter.requires_grad)
                    owner._parameters[leaf] = values[name]
        missing = set(aliases.values()) - set(values)
        if missing:
            raise InputError(f"parameter {min(missing)} has no effect on the loss: freeze it or remove it")
        for owner in module.modules():  # the user's module has the new parameters too
            for leaf, parameter in list(owner._parameters.items()):
                if parameter is not None and names[id(parameter)] in values:
                    owner._parameters[leaf] = values[names[id(parameter)]]

    def _placements(self, where: Placement) -> list[Any]:
        cuts = {"model": where.dimension, "data": where.data}
        wanted = [cuts.get(axis) for axis in self._mesh.mesh_dim_names or ()]
        return [Replicate() if cut is None else Shard(cut) for cut in wanted]

    def forward(self, batch: Batch) -> torch.Tensor:
        """Returns the loss of a batch that all ranks give, as a DTensor."""
        inputs = {name: self._cut(name, value) for name, value in batch.items()}
        values: tuple[Any, ...] = ()
        for piece, mode in zip(self.pieces, self._modes):
            assert isinstance(piece, Piece)
            run = functools.partial(self._run, piece, inputs)
            pinned = {node.name for node in piece.graph_module.graph.nodes if "recompute" in self.strategies.get(node.name, ("", {}))[1]}
            if mode == "none" and not any(self.strategies[name][1]["recompute"] for name in pinned):
                values = run(*values)
                continue
            policy = functools.partial(self._policy, mode)
            values = checkpoint(run, *values, use_reentrant=False, context_fn=functools.partial(create_selective_checkpoint_contexts, policy))
        return values[0]

    def _run(self, piece: Piece, inputs: dict[str, DTensor], *values: Any) -> tuple[Any, ...]:
        return _Interpreter(self, piece).run(*values, *(inputs[name] for name in piece.inputs))

    def _policy(self, mode: str, context: Any, op: Any, *args: Any, **kwargs: Any) -> CheckpointPolicy:
        entry = self.strategies.get(self.running, ("", {}))[1]
        save = not entry["recompute"] if "recompute" in entry else mode == "none" or op in SAVED.get(mode, ())
        return CheckpointPolicy.MUST_SAVE if save and op.namespace == "aten" else CheckpointPolicy.PREFER_RECOMPUTE

    def _cut(self, name: str, value: torch.Tensor) -> DTensor:
        wanted = []
        for position, axis in enumerate(self._mesh.mesh_dim_names or ()):
            found = next((at for at, axes in enumerate(self._inputs[name]) if axis in axes), None)
            cut = found is not None and found < value.dim() and value.shape[found] % self._mesh.size(position) == 0
            wanted.append(Shard(found) if cut else Replicate())
        return distribute_tensor(value, self._mesh, wanted, src_data_rank=None)

    def named_parameters(self, *args: Any, **kwargs: Any) -> Any:
        """Returns the parameters by the names that they have in the module."""
        for name, parameter in super().named_parameters(*args, **kwargs):
            yield self._aliases[name.split(".graph_module.", 1)[1]], parameter
