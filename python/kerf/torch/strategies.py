# SPDX-License-Identifier: Apache-2.0
"""Strategies of a plan's ops as placements of DTensors: of the results of an exported graph, and of their gradients."""
from __future__ import annotations

import dataclasses
import fnmatch
import functools
import re
from collections.abc import Callable
from typing import Any, Optional

import torch
from torch.distributed.tensor import DTensor, Replicate, Shard

from ..errors import InputError
from .graph import Piece, op_names
from .steer import WEIGHTS

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


def place(strategy: dict[str, list[str]], kind: str, value: DTensor) -> DTensor:
    """Returns a value with the placements of a strategy, or as it is where the strategy does not say them."""
    return _moved(value, placements_of(strategy, kind, value))


@dataclasses.dataclass(frozen=True)
class Operands:
    """The strategy by which the operands of a node are placed before it: where the plan gathers or scatters them, this does too.

    `product` has the positions of the input and the weight of a product, and the columns of the weight. Of other ops the operands have the
    dimensions of the result."""

    product: tuple[int, ...]
    kind: str
    strategy: dict[str, list[str]]

    def of(self, args: tuple[Any, ...]) -> tuple[Any, ...]:
        """Returns the operands of the node, placed."""
        if self.product:
            first, weight, columns = self.product
            roles = {first: self._of_input, weight: lambda value: self._of_weight(value, columns)}
        else:
            rank = max((one.dim() for one in args if isinstance(one, DTensor)), default=0)
            roles = {position: lambda value: placements_of(self.strategy, self.kind, value) for position, one in enumerate(args)
                     if isinstance(one, DTensor) and one.dim() == rank}
        return tuple(_moved(one, roles[position](one)) if position in roles and isinstance(one, DTensor) else one
                     for position, one in enumerate(args))

    def _of_input(self, value: DTensor) -> Optional[list[Any]]:
        def dimension(factor: str) -> Optional[int]:
            return value.dim() - 1 if factor in ("k", "k0") else dimension_of(factor, self.kind, value.dim())

        return self._along(value, dimension, "n")

    def _of_weight(self, value: DTensor, columns: int) -> Optional[list[Any]]:
        return self._along(value, lambda factor: {"n": columns, "k": 1 - columns, "k0": 1 - columns}.get(factor), "m")

    def _along(self, value: DTensor, dimension: Callable[[str], Optional[int]], without: str) -> Optional[list[Any]]:
        """Returns the placements of one factor of a product, which lacks the dimensions whose names begin with `without`."""
        wanted: list[Any] = []
        for position, axis in enumerate(value.device_mesh.mesh_dim_names or ()):
            factor = next((factor for factor, axes in self.strategy.items() if axis in axes), without)
            at = dimension(factor)
            if factor[0] == without:
                wanted.append(Replicate())
            elif at is None or value.shape[at] % value.device_mesh.size(position):
                return None
            else:
                wanted.append(Shard(at))
        return wanted


def _moved(value: DTensor, wanted: Optional[list[Any]]) -> DTensor:
    return value if wanted is None or tuple(wanted) == tuple(value.placements) else value.redistribute(placements=wanted)


def operands_of(pieces: list[Piece], pins: dict[str, Any]) -> dict[str, Operands]:
    """Returns for each node whose operands a strategy of the plan places that strategy."""
    entries = strategies_of(pieces, {pattern: pin for pattern, pin in pins.items() if "strategy" in pin}, products=True)
    found: dict[str, Operands] = {}
    for node in (node for piece in pieces for node in piece.graph_module.graph.nodes if node.name in entries):
        kind, entry = entries[node.name]
        product = WEIGHTS.get(node.target, ()) if kind == "dot_general" else ()
        if product or kind == "layer_norm" or torch.Tag.pointwise in getattr(node.target, "tags", ()):
            found[node.name] = Operands(product, kind, entry["strategy"])
    return found


@dataclasses.dataclass(frozen=True)
class Gradients:
    """The strategy by which the gradients of some operands of a node are placed. Those of weights have none: the cuts of both factors of
    their product decide where they are."""

    operands: tuple[int, ...]
    kind: str
    strategy: dict[str, list[str]]

    def of(self, args: tuple[Any, ...]) -> tuple[Any, ...]:
        """Returns the operands of the node, with gradients that are placed."""
        return tuple(self._placed(one) if position in self.operands else one for position, one in enumerate(args))

    def _placed(self, value: Any) -> Any:
        if not isinstance(value, DTensor) or not value.requires_grad:
            return value
        passed = value.view_as(value)  # other uses of the value have gradients of their own
        passed.register_hook(functools.partial(place, self.strategy, self.kind))
        return passed


def _in_layers(name: str) -> str:
    """Returns the name that an op has in the function which identical layers share."""
    return re.sub(r"\.\d+(?=[./])", ".*", name, count=1)


def strategies_of(pieces: list[Piece], pins: dict[str, Any], products: bool = False) -> dict[str, tuple[str, dict[str, Any]]]:
    """Returns for each node that an entry of the plan's key `ops` names the kind of its op and that entry.

    A product with a bias is two ops of the plan: the addition, or with `products` the product."""
    found: dict[str, tuple[str, dict[str, Any]]] = {}
    counts: dict[str, int] = {}
    forward = {pattern: pin for pattern, pin in pins.items() if "@backward" not in pattern}
    for node in (node for piece in pieces for node in piece.graph_module.graph.nodes if node.op == "call_function"):
        for name in sorted(_names(node), key=lambda one: products and not one.endswith("/dot_general")):
            number = counts[name] = counts.get(name, -1) + 1
            layer = _in_layers(name)
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


def gradients_of(pieces: list[Piece], pins: dict[str, Any]) -> dict[str, Gradients]:
    """Returns for each node what the plan says of the gradients that its ops of the backward pass compute."""
    backward = {pattern: pin["strategy"] for pattern, pin in pins.items() if "@backward" in pattern and pin.get("strategy")}
    found: dict[str, Gradients] = {}
    for node in (node for piece in pieces for node in piece.graph_module.graph.nodes if node.op == "call_function" and backward):
        for name in _names(node):
            kind, layer = name.rsplit("/", 1)[-1], _in_layers(name)
            ends = ["@backward#0", "@backward"] if kind == "dot_general" else ["_backward@backward"]
            keys = [key + end for end in ends for key in (name, layer)]
            if kind == "dot_general" and (layer + "@backward#2" in backward or name + "@backward#2" in backward):
                continue  # several products of one name, of which the plan numbers the gradients in another order
            strategy = next((backward[key] for key in keys if key in backward), None)
            if strategy is None:
                strategy = next((one for pattern, one in backward.items() if any(fnmatch.fnmatchcase(key, pattern) for key in keys)), None)
            if strategy is not None and node.name not in found:
                operands = range(len(node.args)) if kind == "attention" else WEIGHTS.get(node.target, (0,))[:1]
                found[node.name] = Gradients(tuple(operands), kind, strategy)
    return found
