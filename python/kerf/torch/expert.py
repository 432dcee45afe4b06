# SPDX-License-Identifier: Apache-2.0
"""Expert parallelism: each rank of the axis expert holds a part of the experts, and gets the tokens of all ranks for them."""
from __future__ import annotations

import contextlib
import copy
import functools
import inspect
from collections.abc import Iterator
from typing import Any, Optional, cast

import torch
from torch.distributed._functional_collectives import all_gather_tensor_autograd, reduce_scatter_tensor_autograd
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor import DTensor, Partial, Replicate, Shard

from ..errors import InputError
from .axes import along, moved, part_of, places
from .placement import Placement

ARGUMENTS = ["hidden_states", "top_k_index", "top_k_weights"]


@torch.library.custom_op("kerf::experts", mutates_args=())
def experts_op(hidden: torch.Tensor, index: torch.Tensor, weights: torch.Tensor, parameters: list[torch.Tensor], path: str) -> torch.Tensor:
    """Stands for the experts of the module at `path` in an exported graph; `graph.cut_graph` puts an `Experts` in its place."""
    raise NotImplementedError("kerf::experts stands in exported graphs only")


@experts_op.register_fake
def _(hidden: torch.Tensor, index: torch.Tensor, weights: torch.Tensor, parameters: list[torch.Tensor], path: str) -> torch.Tensor:
    return torch.empty_like(hidden)


class Experts(torch.nn.Module):
    """Computes the experts of a module, whose parameters `names` are DTensors of which this rank has a part of the experts.

    With `by_feature` the axis model cuts the features between the two products of an expert, so that its ranks compute terms of a sum;
    otherwise each of these ranks gathers what the axis model cuts."""

    _inner: torch.nn.Module
    _mesh: DeviceMesh

    def __init__(self, owner: torch.nn.Module, names: dict[str, str], by_feature: bool, mesh: DeviceMesh) -> None:
        super().__init__()
        inner = copy.copy(owner)  # computes with the parts of this rank, which `owner` holds as DTensors
        inner.__dict__["_parameters"] = dict(owner._parameters)
        self.__dict__.update(_inner=inner, _mesh=mesh["expert"])
        self.leaves, self.names, self.by_feature = list(names), list(names.values()), by_feature
        self._count = owner._parameters[self.leaves[0]].shape[0] // mesh["expert"].size()  # type: ignore[union-attr]

    def forward(self, hidden: torch.Tensor, index: torch.Tensor, weights: torch.Tensor, *parameters: torch.Tensor) -> torch.Tensor:
        """Returns what all experts add to the tokens of this rank."""
        if not isinstance(hidden, DTensor):
            return self._compute(hidden, index, weights, [self._part(one, None) for one in parameters])
        # A rank may compute any part of the tokens, because experts treat each token alone.
        rows = along(hidden, "context")
        if not (isinstance(rows, Shard) and rows.dim == 0 and all(along(cast(DTensor, one), "context") == rows for one in (index, weights))):
            rows = Replicate()
        wanted = places(hidden.device_mesh, context=rows)
        terms = places(hidden.device_mesh, context=rows, **({"model": Partial()} if self.by_feature else {}))
        tokens, index, weights = (part_of(cast(DTensor, one), wanted, terms) for one in (hidden, index, weights))
        out = self._compute(tokens, index, weights, [self._part(one, rows) for one in parameters])
        return moved(DTensor.from_local(out, hidden.device_mesh, terms, run_check=False), model=Replicate())

    def _part(self, parameter: torch.Tensor, rows: Optional[Any]) -> torch.Tensor:
        """Returns the part of a parameter for this rank's experts; `rows` is how the axis context cuts the tokens."""
        value = cast(DTensor, parameter)
        wanted = places(value.device_mesh, expert=Shard(0), **({"model": along(value, "model")} if self.by_feature else {}))
        grads = [Partial() if name == "context" and isinstance(rows, Shard) else place
                 for name, place in zip(value.device_mesh.mesh_dim_names or (), wanted)]
        return part_of(value, wanted, grads)

    def _compute(self, hidden: torch.Tensor, index: torch.Tensor, weights: torch.Tensor, parameters: list[torch.Tensor]) -> torch.Tensor:
        """Gathers the tokens of all ranks, computes what the local experts add to them, and sums these terms for the tokens of each rank."""
        mesh = self._mesh
        tokens, index, weights = (all_gather_tensor_autograd(one.contiguous(), 0, mesh) for one in (hidden, index, weights))
        first = mesh.get_local_rank() * self._count
        own = (index >= first) & (index < first + self._count)
        local: dict[str, Any] = dict(zip(self.leaves, parameters))
        out = torch.func.functional_call(self._inner, local, (tokens, torch.where(own, index - first, 0), torch.where(own, weights, 0)))
        return reduce_scatter_tensor_autograd(out, "sum", 0, mesh)


def find_experts(module: torch.nn.Module, placed: dict[str, Placement], mesh: DeviceMesh) -> dict[str, Experts]:
    """Returns for the path of each module whose parameters the axis expert cuts what computes it. Dimension 0 of them counts experts."""
    found: dict[str, Experts] = {}
    if "expert" not in (mesh.mesh_dim_names or ()):
        return found
    known = {id(parameter): name for name, parameter in module.named_parameters()}
    for path, owner in module.named_modules():
        names = {leaf: known[id(parameter)] for leaf, parameter in owner._parameters.items()
                 if parameter is not None and placed[known[id(parameter)]].expert}
        if not names:
            continue
        if len(names) != len(owner._parameters) or list(inspect.signature(owner.forward).parameters) != ARGUMENTS:
            raise InputError(f"mesh.expert cuts {', '.join(names)} of {path}, whose forward takes {inspect.signature(owner.forward)}: only "
                             f"modules whose parameters are all cut, and that take {', '.join(ARGUMENTS)}, can be spread; give the plan "
                             "mesh.expert 1")
        sizes, ranks = {placed[name].shape[0] for name in names.values()}, mesh["expert"].size()
        if len(sizes) != 1 or next(iter(sizes)) % ranks:
            raise InputError(f"the parameters of {path} have {sorted(sizes)} experts, which mesh.expert {ranks} has to divide")
        features = mesh["model"].size() if "model" in (mesh.mesh_dim_names or ()) else 1
        found[path] = Experts(owner, names, _by_feature(owner, {leaf: placed[name] for leaf, name in names.items()}, features), mesh)
    return found


def _by_feature(owner: Any, placed: dict[str, Placement], ranks: int) -> bool:
    """Returns whether the axis model cuts the features between the two products of each expert, as Transformers stores them."""
    if ranks == 1 or set(placed) != {"gate_up_proj", "down_proj"} or getattr(owner, "is_transposed", False):
        return False
    if not getattr(owner, "is_concatenated", True) or getattr(owner, "has_post_expert_norm", False):
        return False
    up, down = placed["gate_up_proj"], placed["down_proj"]
    cut = (up.dimension, up.blocks, down.dimension, down.blocks) == (1, 2, 2, 1)
    return cut and up.shape[1] % (2 * ranks) == 0 and down.shape[2] % ranks == 0


def attach(module: torch.nn.Module, experts: dict[str, Experts]) -> None:
    """Makes the modules of experts compute with the parts of their ranks."""
    for path, one in experts.items():
        owner = module.get_submodule(path)
        owner.forward = functools.partial(_forward, owner, one)  # type: ignore[method-assign]


def _forward(owner: torch.nn.Module, experts: Experts, hidden_states: torch.Tensor, top_k_index: torch.Tensor,
             top_k_weights: torch.Tensor) -> torch.Tensor:
    return experts(hidden_states, top_k_index, top_k_weights, *(owner._parameters[leaf] for leaf in experts.leaves))


@contextlib.contextmanager
def one_op_each(module: torch.nn.Module, experts: dict[str, Experts]) -> Iterator[None]:
    """Makes each module of experts one op of the graphs that torch.export makes in this context."""
    owners = {path: module.get_submodule(path) for path in experts}
    before = {path: owner.__dict__.get("forward") for path, owner in owners.items()}
    try:
        for path, owner in owners.items():
            owner.forward = functools.partial(_export, owner, experts[path].leaves, path)  # type: ignore[method-assign]
        yield
    finally:
        for path, owner in owners.items():
            del owner.forward  # the class's own is left
            if before[path] is not None:
                owner.__dict__["forward"] = before[path]


def _export(owner: torch.nn.Module, leaves: list[str], path: str, hidden_states: torch.Tensor, top_k_index: torch.Tensor,
            top_k_weights: torch.Tensor) -> torch.Tensor:
    return torch.ops.kerf.experts(hidden_states, top_k_index, top_k_weights, [owner._parameters[leaf] for leaf in leaves], path)
