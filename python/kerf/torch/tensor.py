# SPDX-License-Identifier: Apache-2.0
"""Tensor parallelism by DTensor: parameters are cut as the plan says, and sums over the axis model happen right after a product."""
from __future__ import annotations

import functools
from typing import Any

import torch
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor import DTensor, Replicate, Shard, distribute_tensor
from torch.utils import _pytree as pytree

from ..errors import InputError
from .axes import inner_mesh, moved, places, spread_mesh, summed
from .placement import Placement
from .shared import SharedGathers


def reorder(value: torch.Tensor, dimension: int, blocks: int, ranks: int, back: bool = False) -> torch.Tensor:
    """Moves the pieces of each rank together: [blocks, ranks, size] becomes [ranks, blocks, size] along a dimension, or `back`."""
    size = value.shape[dimension]
    first, second = (ranks, blocks) if back else (blocks, ranks)
    split = value.unflatten(dimension, (first, second, size // (blocks * ranks)))
    return split.transpose(dimension, dimension + 1).flatten(dimension, dimension + 2).contiguous()


class Pieces:
    """The output of a fused product, as one DTensor for each of its blocks. Any other use than cutting it into them gathers it."""

    def __init__(self, parts: list[DTensor]) -> None:
        self._parts = parts

    def split(self, size: Any, dim: int = 0) -> tuple[torch.Tensor, ...]:
        """Returns the blocks, where `size` is that of a block, as torch.split does."""
        width, rank = self._parts[0].shape[-1], self._parts[0].dim()
        if dim in (-1, rank - 1) and size in (width, [width] * len(self._parts), (width,) * len(self._parts)):
            return tuple(self._parts)
        return self.whole().split(size, dim)

    def chunk(self, chunks: int, dim: int = 0) -> tuple[torch.Tensor, ...]:
        """Returns the blocks, where there are `chunks` of them, as torch.chunk does."""
        if dim in (-1, self._parts[0].dim() - 1) and chunks == len(self._parts):
            return tuple(self._parts)
        return self.whole().chunk(chunks, dim)

    def whole(self) -> torch.Tensor:
        """Returns the output as one tensor on all ranks."""
        return torch.cat([moved(part, model=Replicate()) for part in self._parts], -1)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.whole(), name)

    def __getitem__(self, index: Any) -> torch.Tensor:
        return self.whole()[index]

    @classmethod
    def __torch_function__(cls, function: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if function in (torch.split, torch.chunk) and isinstance(args[0], Pieces):
            return getattr(args[0], function.__name__)(*args[1:], **kwargs)
        whole = pytree.tree_map(lambda one: one.whole() if isinstance(one, Pieces) else one, (args, kwargs))
        return function(*whole[0], **whole[1])


def _kind(module: torch.nn.Module) -> str:
    if isinstance(module, torch.nn.Linear):
        return "linear"
    if type(module).__name__ == "Conv1D" and hasattr(module, "nf"):
        return "conv1d"
    return "embedding" if isinstance(module, torch.nn.Embedding) else ""


def _columns(kind: str) -> int:
    return 1 if kind == "conv1d" else 0


def _fused(module: torch.nn.Module, placed: dict[int, Placement], ranks: int) -> set[int]:
    """Returns the parameters that can be stored reordered: those of products whose columns, and biases with them, are cut within blocks."""
    uses: dict[int, int] = {}
    for owner in module.modules():
        for parameter in owner._parameters.values():
            uses[id(parameter)] = uses.get(id(parameter), 0) + 1
    found: set[int] = set()
    for owner in module.modules():
        kind, weight, bias = _kind(owner), owner._parameters.get("weight"), owner._parameters.get("bias")
        if kind not in ("linear", "conv1d") or weight is None:
            continue
        where = placed[id(weight)]
        if where.blocks == 1 or where.dimension != _columns(kind) or weight.shape[_columns(kind)] % (where.blocks * ranks) or uses[id(weight)] > 1:
            continue
        if bias is None:
            found.add(id(weight))
        elif (placed[id(bias)].dimension, placed[id(bias)].blocks) == (0, where.blocks) and uses[id(bias)] == 1:
            found |= {id(weight), id(bias)}
    return found


def distribute(module: torch.nn.Module, placed: dict[str, Placement], mesh: DeviceMesh, fuse: bool,
               features: set[str]) -> tuple[dict[str, Placement], list[str]]:
    """Makes each parameter of a module a DTensor on the axes of `mesh` that cut values of a sample, and those of experts on the axis expert
    too. Returns the placements of those that are stored reordered, and notes.

    With `fuse` fused products are reordered. `features` are the parameters of experts whose features the axis model cuts."""
    by_id = {id(parameter): placed[name] for name, parameter in module.named_parameters() if name in placed}
    ranks, inner = mesh["model"].size() if "model" in (mesh.mesh_dim_names or ()) else 1, inner_mesh(mesh)
    reordered = _fused(module, by_id, ranks) if fuse and ranks > 1 else set()
    reordered |= {key for key, where in by_id.items() if where.name in features and where.blocks > 1}
    memory: dict[int, torch.nn.Parameter] = {}
    stored, notes = {}, []
    for owner in module.modules():
        for name, parameter in list(owner._parameters.items()):
            if parameter is None:
                continue
            if id(parameter) not in memory:
                where, value = by_id[id(parameter)], parameter.detach()
                over, cut = spread_mesh(mesh) if where.expert else inner, where.dimension
                if over is None:  # only experts are spread
                    memory[id(parameter)] = parameter
                    continue
                if id(parameter) in reordered and cut is not None:
                    value = reorder(value, cut, where.blocks, ranks)
                    stored[where.name] = where
                elif where.blocks > 1:
                    notes.append(f"{where.name} is cut in the order of its elements, and DTensor gathers what its {where.blocks} blocks need")
                cuts = {**({"expert": Shard(0)} if where.expert else {}), **({} if cut is None else {"model": Shard(cut)})}
                tensor = distribute_tensor(value, over, places(over, **cuts), src_data_rank=None)
                memory[id(parameter)] = torch.nn.Parameter(tensor, requires_grad=parameter.requires_grad)
            owner._parameters[name] = memory[id(parameter)]
    return stored, notes


def _convolve(owner: Any, mesh: DeviceMesh, value: torch.Tensor) -> torch.Tensor:
    """Runs a convolution as a whole on each rank, because DTensor has no rule for it."""
    whole = [one.redistribute(mesh, places(mesh)).to_local() if isinstance(one, DTensor) else one for one in (value, owner.weight, owner.bias)]
    return DTensor.from_local(owner._conv_forward(*whole), mesh, places(mesh))


def steer(module: torch.nn.Module, placed: dict[str, Placement], stored: dict[str, Placement], mesh: DeviceMesh, sequence: bool,
          repeating: list[torch.nn.Module]) -> SharedGathers:
    """Adds hooks that sum after products over a cut dimension, gather before products whose columns are cut, and cut the outputs of
    products whose weights are `stored` reordered. Products inside the modules `repeating` gather in the backward pass again."""
    gathers = SharedGathers()
    repeat = {id(one) for layer in repeating for one in layer.modules()} if sequence else set()

    def sum_up(owner: Any, args: Any, out: DTensor) -> DTensor:
        place = Shard(1) if sequence and out.dim() > 2 else Replicate()
        return summed(out, place) if _kind(owner) == "embedding" else moved(out, model=place)

    def fused(blocks: int) -> Any:
        def cut(owner: Any, args: Any, out: DTensor) -> Pieces:
            owner.kerf_fused = True
            whole = moved(out, model=Shard(out.dim() - 1))
            return Pieces([DTensor.from_local(one, mesh, whole.placements) for one in whole.to_local().chunk(blocks, -1)])
        return cut

    aliases = {id(parameter): name for name, parameter in module.named_parameters()}
    for owner in module.modules():
        if isinstance(owner, (torch.nn.Conv1d, torch.nn.Conv2d, torch.nn.Conv3d)):
            owner.forward = functools.partial(_convolve, owner, mesh)  # type: ignore[method-assign]
        kind, weight = _kind(owner), owner._parameters.get("weight")
        if not kind or weight is None or (where := placed[aliases[id(weight)]]).dimension is None:
            continue
        if where.dimension == _columns(kind) and kind != "embedding":
            gathers.attach(owner, id(owner) in repeat)
            if where.name in stored:
                owner.kerf_fused = False  # type: ignore[assignment]
                owner.register_forward_hook(fused(where.blocks))
        else:
            owner.register_forward_hook(sum_up)
    return gathers


def check_used(module: torch.nn.Module) -> None:
    """Refuses a module that reads a reordered weight without calling the product which it belongs to."""
    for name, owner in module.named_modules():
        if getattr(owner, "kerf_fused", None) is False:
            raise InputError(f"{name} is not called, though its weight may be read: plan with mesh.model 1")
