# SPDX-License-Identifier: Apache-2.0
"""The exported graph of a loss, cut into pieces after layers or after ops, and the names that a plan has for its ops."""
from __future__ import annotations

import fnmatch
from collections.abc import Callable
from typing import Any, Optional

import torch

from ..errors import InputError
from .expert import Experts
from .steer import ATTENTION, Steer

DIALECT = {"linear": "dot_general", "addmm": "dot_general", "mm": "dot_general", "matmul": "dot_general", "bmm": "dot_general",
           "scaled_dot_product_attention": "attention", "cross_entropy_loss": "cross_entropy"}


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
    """Some nodes of the graph as a module: `inputs` are the values that it takes from the batch, `taken` the shapes of those that it
    takes from the piece before it, and `made` the shapes of its results."""

    graph_module: torch.fx.GraphModule

    def __init__(self, graph: torch.fx.GraphModule, inputs: tuple[str, ...], taken: list[torch.Size], made: list[torch.Size]) -> None:
        super().__init__()
        self.graph_module, self.inputs, self.taken, self.made = graph, inputs, taken, made

    def forward(self, values: tuple[torch.Tensor, ...], batch: dict[str, torch.Tensor]) -> tuple[torch.Tensor, ...]:
        """Returns the values for the next piece."""
        return self.graph_module(*values, *(batch[name] for name in self.inputs))


def _path(node: torch.fx.Node) -> str:
    stack = node.meta.get("nn_module_stack") or {}
    return list(stack.values())[-1][0] if stack else ""


def _within(path: str, name: str) -> bool:
    return path == name or path.startswith(name + ".") or ("." + name + ".") in ("." + path + ".")


def op_names(node: torch.fx.Node) -> list[str]:
    """Returns the names by which a plan may call an op: module path and op of Kerf's dialect, or the name of the exported node."""
    path, target = _path(node), getattr(node.target, "_opname", "")
    kinds = [DIALECT[target]] if target in DIALECT else [target.rstrip("_")] if target else []
    return [f"node_{node.name}", *(f"{path}/{name}" for name in (f"node_{node.name}", *kinds) if path)]


def matches(node: torch.fx.Node, pattern: str) -> bool:
    """Returns whether a pattern of a plan, of an op of the forward pass, matches a node."""
    return any(fnmatch.fnmatchcase(name, pattern) for name in op_names(node))


def by_layers(nodes: list[torch.fx.Node], names: list[str]) -> dict[torch.fx.Node, int]:
    """Returns the number of the layer of each node: the first has what comes before it, and the last what comes after it."""
    ends = []
    for name in names[:-1]:
        found = [number for number, node in enumerate(nodes) if node.op == "call_function" and _within(_path(node), name)]
        if not found:
            raise InputError(f"no op of the exported graph belongs to layer {name}, so that no stage can end there")
        ends.append(max(found))
    if ends != sorted(ends):
        raise InputError(f"the layers {names} run in another order than they are listed in the module; a pipeline needs that order")
    return {node: sum(number > end for end in ends) for number, node in enumerate(nodes)}


def by_ops(nodes: list[torch.fx.Node], patterns: tuple[str, ...], free: set[torch.fx.Node]) -> dict[torch.fx.Node, int]:
    """Returns the number of the part of each node: a part has the ops that its pattern matches and all that they need, the last the rest."""
    part: dict[torch.fx.Node, int] = {}
    for number, pattern in enumerate(patterns):
        wanted = [node for node in nodes if node.op == "call_function" and node not in free and matches(node, pattern)]
        if not wanted:
            raise InputError(f'stages: until "{pattern}" matches no op of the exported graph that depends on a parameter')
        before = len(part)
        while wanted:
            node = wanted.pop()
            if node not in part and node not in free:
                part[node] = number
                wanted.extend(node.all_input_nodes)
        if len(part) == before:
            raise InputError(f'stages: until "{pattern}" leaves its part without ops, because earlier parts have all that it matches')
    return {node: part.get(node, len(patterns)) for node in nodes}


def constant_nodes(module: torch.fx.GraphModule) -> set[torch.fx.Node]:
    """Returns the nodes that depend on no parameter, which every piece computes itself from the batch."""
    parameters = {name for name, _ in module.named_parameters(remove_duplicate=False)}
    free: set[torch.fx.Node] = set()
    for node in module.graph.nodes:
        constant = node.op == "placeholder" or (node.op == "get_attr" and node.target not in parameters)
        if constant or (node.op == "call_function" and all(one in free for one in node.all_input_nodes)):
            free.add(node)
            if torch.Tag.nondeterministic_seeded in getattr(node.target, "tags", ()):
                raise InputError(f"{node.name} draws random numbers that several stages would draw unlike: plan with mesh.stage 1")
    return free


def cut_graph(program: torch.export.ExportedProgram, names: list[str], until: tuple[str, ...] = (), steer: Optional[Steer] = None,
              experts: Optional[dict[str, Experts]] = None) -> list[Piece]:
    """Cuts an exported loss after the layers `names` but the last, or after the ops that the patterns `until` match.

    The first piece has what comes before the first layer. Each piece computes the values that depend on no parameter itself, from the
    batch, which all stages have. `steer` places ops on DTensors; without it the caller does that. `experts` compute the ops that stand for
    the modules at their paths."""
    module = program.module()
    for path, one in (experts or {}).items():
        module.add_module(_leaf(path), one)
    nodes = list(module.graph.nodes)
    free = constant_nodes(module)
    part = by_ops(nodes, until, free) if until else by_layers(nodes, names)
    last = len(until) if until else len(names) - 1
    result = next(node for node in nodes if node.op == "output").args[0]
    result = result[0] if isinstance(result, (tuple, list)) else result
    made = [node for node in nodes if node.op == "call_function" and node not in free]

    def sent(number: int) -> list[torch.fx.Node]:
        def later(one: torch.fx.Node) -> bool:
            return one is result or any(part[user] > number for user in one.users if user.op != "output")

        return [one for one in made if part[one] <= number and later(one)]

    pieces = []
    for number in range(last + 1):
        outs = [result] if number == last else sent(number)
        pieces.append(_piece(module, [node for node in made if part[node] == number], sent(number - 1) if number else [], outs, steer))
    return pieces


def _leaf(path: str) -> str:
    """Returns the name, in a piece, of what computes the experts at a path."""
    return "kerf_experts_" + path.replace(".", "_")


def _piece(module: torch.fx.GraphModule, nodes: list[torch.fx.Node], taken: list[torch.fx.Node], outs: list[Any], steer: Optional[Steer]) -> Piece:
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
        if node.target is torch.ops.kerf.experts.default:
            given: Any = node.args  # three values, the parameters, and the path of the module
            copies[node] = graph.call_module(_leaf(given[4]), tuple(copy(one) for one in (*given[:3], *given[3])))
        elif steer is None:
            copy(node)
        elif node.target is not torch.ops.aten._assert_tensor_metadata.default:  # DTensor has no rule for it
            copies[node] = steer.place(graph, node, copy)
    graph.output(tuple(copy(one) for one in outs))
    piece = torch.fx.GraphModule(module, graph)
    piece.delete_all_unused_submodules()
    shapes = [[node.meta["val"].shape for node in some] for some in (taken, outs)]
    return Piece(piece, tuple(str(node.target) for node in inputs), *shapes)


def refuse_random(pieces: list[Piece]) -> None:
    """Refuses ops that draw random numbers, of which the ranks of the axis model would draw unlike ones."""
    for piece in pieces:
        for node in piece.graph_module.graph.nodes:
            if node.op == "call_function" and _draws(node):
                raise InputError(f"{node.name} under mesh.model or mesh.context draws unlike numbers on its ranks: set dropout to 0, or plan with "
                                 "size 1 of this axis")


def _draws(node: torch.fx.Node) -> bool:
    """Returns whether a node draws random numbers; dropout and attention do so where their probability of dropout is not 0."""
    if node.target in ATTENTION:
        return bool(node.args[4] if len(node.args) > 4 else node.kwargs.get("dropout_p", 0.0))
    if torch.Tag.nondeterministic_seeded not in getattr(node.target, "tags", ()):
        return False
    return not ("dropout" in node.name and (node.args[1] == 0 or node.args[2] is False))
