# SPDX-License-Identifier: Apache-2.0
"""Counts the bytes of the collectives of a step in PyTorch, and compares them with those of the plan."""
from __future__ import annotations

import dataclasses
import math
from typing import Any, Optional, cast

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor import DTensor
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode

from ..errors import Error, InputError
from ..model import Model
from ..plans import Plan

KINDS = {  # the collective of an operator of PyTorch, and whether its first argument is one rank's part of the whole
    "_c10d_functional.all_gather_into_tensor": ("all_gather", True), "c10d._allgather_base_": ("all_gather", False),
    "c10d.allgather_": ("all_gather", False), "c10d.allgather_into_tensor_coalesced_": ("all_gather", False),
    "_c10d_functional.reduce_scatter_tensor": ("reduce_scatter", False), "c10d._reduce_scatter_base_": ("reduce_scatter", True),
    "c10d.reduce_scatter_": ("reduce_scatter", True),
    "_c10d_functional.all_reduce": ("all_reduce", False), "_c10d_functional.all_reduce_": ("all_reduce", False),
    "c10d.allreduce_": ("all_reduce", False), "_c10d_functional.all_to_all_single": ("all_to_all", False),
    "c10d.alltoall_base_": ("all_to_all", False), "c10d.alltoall_": ("all_to_all", False),
    "_c10d_functional.broadcast": ("broadcast", False), "c10d.broadcast_": ("broadcast", False), "c10d.scatter_": ("scatter", True),
    "c10d.send": ("send", False),
}


@dataclasses.dataclass(frozen=True)
class Collectives:
    """The collectives of one kind over one axis of the mesh in one step of a rank; `bytes` is the size of their whole tensors together."""

    axis: str
    kind: str
    calls: int
    bytes: int

    def sent(self, ranks: int) -> float:
        """Returns the bytes that a rank sends in the best algorithms: of an all-reduce it sends the tensor almost twice."""
        if self.kind == "send":
            return self.bytes
        return self.bytes * (ranks - 1) / ranks * (2 if self.kind == "all_reduce" else 1)


class Traffic:
    """The collectives of one step in PyTorch on this rank, and those of the plan where its model is known."""

    def __init__(self, measured: tuple[Collectives, ...], planned: Optional[tuple[Collectives, ...]], sizes: dict[str, int], why: str) -> None:
        self.measured, self.planned, self._sizes, self._why = measured, planned, sizes, why

    def sent_bytes(self, axis: Optional[str] = None) -> float:
        """Returns the bytes that this rank sends in a step in PyTorch, over one axis or over all."""
        return self._sent(self.measured, axis)

    def planned_bytes(self, axis: Optional[str] = None) -> float:
        """Returns the bytes that a rank sends in a step of the plan, over one axis or over all."""
        if self.planned is None:
            raise InputError(f"the bytes of the plan are unknown: {self._why}")
        return self._sent(self.planned, axis)

    def _sent(self, rows: tuple[Collectives, ...], axis: Optional[str]) -> float:
        return sum(one.sent(math.prod(self._sizes.get(name, 1) for name in one.axis.split("+"))) for one in rows if axis in (None, one.axis))

    def __str__(self) -> str:
        lines = [f"{'axis':14}{'collective':16}{'calls':>7}{'bytes':>14}{'calls':>9}{'bytes':>14}   (PyTorch, then the plan)"]
        mine = {(one.axis, one.kind): one for one in self.measured}
        its = {(one.axis, one.kind): one for one in self.planned or ()}
        for axis, kind in sorted(mine.keys() | its.keys()):
            cells = []
            for found in (mine.get((axis, kind)), its.get((axis, kind))):
                cells.append(f"{found.calls if found else 0:7}{found.bytes if found else 0:14}")
            lines.append(f"{axis:14}{kind:16}{cells[0]}  {cells[1]}")
        for axis in sorted({axis for axis, _ in mine.keys() | its.keys()}):
            planned = f"{self.planned_bytes(axis):.0f} of the plan" if self.planned is not None else f"the plan's are unknown: {self._why}"
            lines.append(f"sent along {axis}: {self.sent_bytes(axis):.0f} bytes; {planned}")
        return "\n".join(lines)


class Counter(TorchDispatchMode):
    """Counts the collectives that run while it is active."""

    def __init__(self, mesh: DeviceMesh) -> None:
        super().__init__()
        # A group is known by its ranks: DTensor may use those of an equal mesh that was made before.
        self._axes = {tuple(sorted(dist.get_process_group_ranks(mesh[axis].get_group()))): axis for axis in mesh.mesh_dim_names or ()}
        self._found: dict[tuple[str, str], tuple[int, int]] = {}

    def __torch_dispatch__(self, function: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None) -> Any:
        if any(issubclass(one, DTensor) for one in types):
            return NotImplemented  # the operators on its local tensors come back here
        kind = KINDS.get(str(function._overloadpacket).removeprefix("torch.ops.")) if function.namespace in ("c10d", "_c10d_functional") else None
        if kind is not None:
            self._add(kind, args, kwargs or {})
        return function(*args, **(kwargs or {}))

    def _add(self, kind: tuple[str, bool], args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        rest = [*args, *kwargs.values()]
        groups = [dist.ProcessGroup.unbox(one) for one in rest if isinstance(one, torch.ScriptObject) and "ProcessGroup" in str(one._type())]
        names = [one for one in rest if isinstance(one, str)]  # the last text is the name of the group
        group = groups[0] if groups else dist.distributed_c10d._resolve_process_group(cast(Any, names[-1]))
        ranks = dist.get_process_group_ranks(group)
        tensors = pytree.tree_leaves(args[0])
        size = sum(one.numel() * one.element_size() for one in tensors if isinstance(one, torch.Tensor))
        key = self._axes.get(tuple(sorted(ranks)), "stage"), kind[0]  # groups beside the mesh hold the parameters that several stages share
        calls, total = self._found.get(key, (0, 0))
        self._found[key] = calls + 1, total + size * (len(ranks) if kind[1] else 1)

    def rows(self) -> tuple[Collectives, ...]:
        """Returns all collectives so far; the two axes of partial sharding are `data`."""
        return tuple(Collectives(axis, kind, *found) for (axis, kind), found in sorted(self._found.items()))


def planned(plan: Plan, model: Optional[Model], stage: int) -> tuple[Optional[tuple[Collectives, ...]], str]:
    """Returns the collectives of a step of the plan on a pipeline stage, or nothing and the reason."""
    from ..ask import simulate

    try:
        report = plan.report() if "report" in plan.to_dict() else simulate(model or plan.model, plan).report()
    except Error as error:
        return None, str(error)
    found: dict[tuple[str, str], tuple[int, int]] = {}
    for one in report.data["collectives"]:
        if stage not in one.get("stages", [stage]):
            continue
        key = one["axes"], one["kind"]
        calls, total = found.get(key, (0, 0))
        found[key] = calls + one["calls"], total + one["calls"] * one["bytes"]
    return tuple(Collectives(axis, kind, *one) for (axis, kind), one in sorted(found.items())), ""
