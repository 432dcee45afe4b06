# SPDX-License-Identifier: Apache-2.0
"""Strategies of single ops: the exported graph of a loss runs on DTensors, and the result of each op that the plan names is placed as the
plan says. Each redistribution keeps the values, so that a strategy changes where values are and never what they are."""
from __future__ import annotations

import fnmatch
import functools
import re
from typing import Any, Optional

import torch
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor import DTensor, Replicate, Shard, distribute_tensor
from torch.utils import _pytree as pytree
from torch.utils.checkpoint import CheckpointPolicy, checkpoint, create_selective_checkpoint_contexts

from ..errors import InputError
from . import vocabulary
from .checks import Batch, Loss
from .fused import find_fused, split
from .graph import Piece, Shell, cut_graph, op_names, refuse_random
from .placement import Job, Placement, recompute_mode
from .recompute import PRODUCTS, layers
from .steer import REPLACED
from .tensor import reorder

LETTERS = "ijklmn"  # the factors of a pointwise op, one for each dimension of its result
WITH_BIAS = {"linear": 2, "addmm": 0}  # products whose last op in Kerf's dialect is the addition of this argument


def dimension_of(factor: str, kind: str, rank: int) -> Optional[int]:
    """Returns the dimension of an op's result that a factor of a strategy cuts; -1 where it is summed, None where that is unknown."""
    number = int(factor[1:]) if factor[1:].isdigit() else None
    if kind == "dot_general":
        if factor[0] == "k":
            return -1
        return number if factor[0] == "m" and number is not None else rank - 1 if factor == "n" else 0 if factor == "m" and rank == 2 else None
    if kind == "attention":
        return {"b": 0, "g": 1, "h": 1}.get(factor)
    if kind == "embedding":
        return number if factor[0] == "t" and number is not None else rank - 1 if factor == "d" else -1 if factor == "v" else None
    if kind == "layer_norm":
        return number if factor[0] == "i" and number is not None else None
    return LETTERS.index(factor) if factor in LETTERS and LETTERS.index(factor) < rank else None


def placements_of(strategy: dict[str, list[str]], kind: str, value: DTensor) -> Optional[list[Any]]:
    """Returns the placements that a strategy gives an op's result, or None where the result has other dimensions in the plan."""
    names, wanted = value.device_mesh.mesh_dim_names or (), []
    for position, axis in enumerate(names):
        factor = next((factor for factor, axes in strategy.items() if axis in axes), None)
        if factor is None:
            wanted.append(Replicate())
            continue
        dimension = dimension_of(factor, kind, value.dim())
        if dimension is None or dimension >= value.dim():
            return None
        if dimension >= 0 and value.shape[dimension] % value.device_mesh.size(position):
            return None
        wanted.append(value.placements[position] if dimension == -1 else Shard(dimension))
    return wanted


def _place(strategy: dict[str, list[str]], kind: str, value: DTensor) -> DTensor:
    wanted = placements_of(strategy, kind, value)
    return value if wanted is None or tuple(wanted) == tuple(value.placements) else value.redistribute(placements=wanted)


def strategies_of(pieces: list[Piece], pins: dict[str, Any]) -> dict[str, tuple[str, dict[str, Any]]]:
    """Returns for each node that an entry of the plan's key `ops` names the kind of its op and that entry."""
    found: dict[str, tuple[str, dict[str, Any]]] = {}
    counts: dict[str, int] = {}
    forward = {pattern: pin for pattern, pin in pins.items() if "@backward" not in pattern}
    for node in (node for piece in pieces for node in piece.graph_module.graph.nodes if node.op == "call_function"):
        for name in _names(node):
            number = counts[name] = counts.get(name, -1) + 1
            layer = re.sub(r"\.\d+(?=[./])", ".*", name, count=1)  # the name in the function that identical layers share
            entry = next((forward[one] for one in (f"{name}#{number}", name, f"{layer}#{number}", layer) if one in forward), None)
            if entry is None:
                entry = next((pin for pattern, pin in forward.items() if "#" not in pattern and fnmatch.fnmatchcase(name, pattern)), None)
            if entry is not None and node.name not in found:
                found[node.name] = name.rsplit("/", 1)[-1], entry
    used = {id(entry) for _, entry in found.values()}
    unused = [pattern for pattern, pin in forward.items() if "recompute" in pin and id(pin) not in used]
    if unused:
        raise InputError(f'ops["{unused[0]}"] says whether to recompute, but it matches no op of the exported graph; the names of its first ops are '
                         f"{', '.join(op_names(node)[-1] for node in list(pieces[0].graph_module.graph.nodes) if node.op == 'call_function')[:300]}")
    return found


def _names(node: torch.fx.Node) -> list[str]:
    """Returns the names of an op, that of its last op in Kerf's dialect first; products of two activations are parts of attention."""
    names, target = op_names(node), getattr(node.target, "_opname", "")
    bias = WITH_BIAS.get(target)
    if bias is not None and len(node.args) > bias and isinstance(node.args[bias], torch.fx.Node):
        return [re.sub(r"dot_general$", "add", names[-1]), *names]
    if target in ("matmul", "bmm") and all(isinstance(one, torch.fx.Node) and one.op != "get_attr" for one in node.args[:2]):
        return [*names, re.sub(r"dot_general$", "attention", names[-1])]
    return names


class _Interpreter(torch.fx.Interpreter):
    def __init__(self, owner: PlacedGraph, piece: Piece) -> None:
        super().__init__(piece.graph_module, garbage_collect_values=True)
        self._owner = owner

    def run_node(self, n: torch.fx.Node) -> Any:
        """Runs a node, and places its result as the plan says."""
        self._owner.running = n.name
        if n.target is torch.ops.aten._assert_tensor_metadata.default:
            return None  # it speaks of the tensors of the export, and DTensor has no rule for it
        if n.target is torch.ops.aten.cross_entropy_loss.default:
            args, kwargs = self.fetch_args_kwargs_from_env(n)
            return vocabulary.mean_by_sum(*args, **kwargs)
        kind, entry = self._owner.strategies.get(n.name, ("", {}))
        if kind == "attention":
            args, kwargs = self.fetch_args_kwargs_from_env(n)
            if "strategy" in entry:
                args, kwargs = pytree.tree_map_only(DTensor, functools.partial(_place, entry["strategy"], kind), (args, kwargs))
            function: Any = REPLACED.get(n.target, n.target)
            return function(*args, **kwargs)
        if n.name in self._owner.splits:
            return split(self.fetch_args_kwargs_from_env(n)[0][0], self._owner.splits[n.name])
        out = super().run_node(n)
        return _place(entry["strategy"], kind, out) if isinstance(out, DTensor) and "strategy" in entry else out


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
        save = not entry["recompute"] if "recompute" in entry else mode == "none" or (mode == "selective" and op in PRODUCTS)
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
