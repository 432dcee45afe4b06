# SPDX-License-Identifier: Apache-2.0
"""Runs a function of JAX under a plan: as programs of one rank, or with the plan's shardings as constraints."""
from __future__ import annotations

import functools
import inspect
import itertools
import math
import re
from collections.abc import Callable, Sequence
from typing import Any, Optional

import jax
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from ..checks import callable_
from ..errors import InputError
from ..model import Model
from ..plans import Plan
from .layout import Layout, Value, layout_of, spec_of
from .local import Local, Wishes
from .placed import Leaf, check_mesh, dimensions, leaves, like, model_of, ops_of, placements
from .placed import mesh as mesh_of
from .trace import Tree, marked_text, marked_tree, rerun, tree_of


class Applied:
    """A function under a plan. It is called as the function, and jitted; a loss can be differentiated."""

    def __init__(self, fn: Callable[..., Any], plan: Plan, mesh: Mesh, model: Model) -> None:
        self._fn, self._plan, self._model = inspect.unwrap(fn), plan, model
        self.mesh = mesh
        self.notes: tuple[str, ...] = ()  # operators whose sharding JAX cannot be told
        self._jitted: Optional[Any] = None
        self._leaves: list[Leaf] = []

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self._ready(args, kwargs)(*args, **kwargs)

    def lower(self, *args: Any, **kwargs: Any) -> Any:
        """Returns the lowered function, as `jax.jit(fn).lower` does."""
        return self._ready(args, kwargs).lower(*args, **kwargs)

    def shardings(self, *args: Any, **kwargs: Any) -> Any:
        """Returns the shardings of the arguments, as `kerf.jax.shardings` does."""
        self._ready(args, kwargs)
        tree = like(self._leaves, self.mesh, args, kwargs)
        return tree if kwargs else tree[0]

    def _ready(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if self._jitted is None:
            abstract = jax.tree.map(lambda leaf: jax.ShapeDtypeStruct(jax.numpy.shape(leaf), jax.numpy.result_type(leaf)), (args, kwargs))
            text, numbers = marked_text(self._fn, *abstract)
            if _program(text) != _program(self._model.text):
                raise InputError(f"{getattr(self._fn, '__name__', 'the function')} is not the function that was captured as "
                                 f"'{self._model.name}', or its arguments have other shapes or types; capture it and plan again")
            layouts = placements(self._plan, self._model.with_text(text))
            self._leaves = leaves(self._plan, self._model, layouts)
            like(self._leaves, self.mesh, args, kwargs)
            ops, ranks = _by_equation(layouts, numbers), {axis: size for axis, size in layouts["mesh"]}
            if any(leaf.replaced_by is not None for leaf in self._leaves):
                self._jitted = self._jit_step(ops, {axis: size for axis, size in ranks.items() if size > 1}, abstract)
            elif not _is_number(jax.eval_shape(self._fn, *abstract[0], **abstract[1])):
                self._jitted = self._jit(ops, ranks)
            else:
                self._jitted = self._jit_loss(ops, {axis: size for axis, size in ranks.items() if size > 1}, abstract)
        return self._jitted

    def _on_parts(self, closed: Any, tree: Tree, ends: Sequence[Optional[Leaf]], ops: dict[int, list[Any]], ranks: dict[str, int]) -> Any:
        """Returns a program as a program of one rank under `jax.shard_map`. `ends` has for each result the argument whose cuts it gets."""
        layouts = [layout_of(leaf.spec, len(leaf.shape)) for leaf in self._leaves]

        def mapped(*flat: Any) -> Any:
            found: list[Layout] = []
            wishes = Wishes()

            def part(wanted: Optional[list[Layout]], *arrays: Any) -> list[Any]:
                local = Local(ops, ranks, wishes)
                values = [Value(array, layout, ranks) for array, layout in zip(arrays, layouts)]
                for value in values:
                    value.argument = True
                results = local.run(closed.jaxpr, closed.consts, values, tree)
                found[:] = [value.summed() if leaf is None else layout_of(leaf.spec, len(leaf.shape)) for value, leaf in zip(results, ends)]
                self.notes = (*_not_applied(self._plan), *local.notes)
                parts = [value.to(layout) for value, layout in zip(results, wanted or found)]
                if wanted is None:
                    first = local.found_wishes()
                    wishes.stacked, wishes.kept = first.stacked, first.kept
                return parts

            def under(wanted: Optional[list[Layout]]) -> Any:
                out = [PartitionSpec()] * len(ends) if wanted is None else [spec_of(layout) for layout in wanted]
                return jax.shard_map(functools.partial(part, wanted), mesh=self.mesh, in_specs=tuple(leaf.spec for leaf in self._leaves),
                                     out_specs=out, check_vma=False)

            jax.eval_shape(under(None), *flat)  # finds the layouts of the results, and those that loops want
            return _without_derivative(under(list(found)))(*flat)

        return mapped

    def _jit_step(self, ops: dict[int, list[Any]], ranks: dict[str, int], shapes: Any) -> Any:
        """Returns a whole step as a program of one rank."""
        closed, shape = jax.make_jaxpr(self._fn, return_shape=True)(*shapes[0], **shapes[1])
        replaced = {leaf.replaced_by: leaf for leaf in self._leaves if leaf.replaced_by is not None}
        ends = [replaced.get(at) for at in range(len(closed.jaxpr.outvars))]
        mapped = self._on_parts(closed, tree_of(closed.jaxpr, itertools.count()), ends, ops, ranks)

        def planned(*args: Any, **kwargs: Any) -> Any:
            return jax.tree.unflatten(jax.tree.structure(shape), mapped(*jax.tree.leaves((args, kwargs))))

        planned.__name__ = getattr(self._fn, "__name__", "planned")
        return jax.jit(planned)

    def _jit_loss(self, ops: dict[int, list[Any]], ranks: dict[str, int], shapes: Any) -> Any:
        """Returns a loss as a program of one rank, and its value with its gradients as another one."""
        flat, structure = jax.tree.flatten(shapes)

        def marked(*flat: Any) -> Any:
            args, kwargs = jax.tree.unflatten(structure, flat)
            return jax.tree.leaves(rerun(self._fn, args, kwargs, marked=True))[0]

        def program(fn: Callable[..., Any], ends: Sequence[Optional[Leaf]]) -> Any:
            closed = jax.make_jaxpr(fn)(*flat)
            return self._on_parts(closed, marked_tree(closed.jaxpr), ends, ops, ranks)

        @jax.custom_vjp
        def loss(*flat: Any) -> Any:
            return program(marked, [None])(*flat)[0]

        def forward(*primals: Any) -> Any:
            wanted = tuple(at for at, primal in enumerate(primals) if primal.perturbed)
            if not wanted:
                return program(marked, [None])(*(primal.value for primal in primals))[0], {}
            both = program(jax.value_and_grad(marked, wanted), [None, *(self._leaves[at] for at in wanted)])
            value, *gradients = both(*(primal.value for primal in primals))
            return value, dict(zip(wanted, gradients))

        def backward(gradients: dict[int, Any], factor: Any) -> Any:
            if isinstance(factor, jax.custom_derivatives.SymbolicZero):
                return tuple(None for _ in flat)
            return tuple(gradients[at] * factor if at in gradients else None for at in range(len(flat)))

        loss.defvjp(forward, backward, symbolic_zeros=True)

        def planned(*args: Any, **kwargs: Any) -> Any:
            return loss(*jax.tree.leaves((args, kwargs)))

        planned.__name__ = getattr(self._fn, "__name__", "planned")
        return jax.jit(planned)

    def _jit(self, ops: dict[int, list[Any]], ranks: dict[str, int]) -> Any:
        notes: dict[str, None] = dict.fromkeys(_not_applied(self._plan))

        def constrained(value: Any, shape: Any, axes: Any, name: str) -> Any:
            if axes is None or not any(axes):
                spec: Optional[list[Any]] = None if axes is None else [None] * len(value.shape)
            else:
                spec, why = dimensions(value.shape, shape, axes, ranks)
                if spec is None:
                    notes[f"{name}: {why}; XLA chooses its sharding"] = None
            return value if spec is None else self._constrain(value, PartitionSpec(*spec))

        def operands(number: int, equation: Any, values: list[Any]) -> list[Any]:
            its = ops_of(equation, ops.get(number, []))
            if equation.primitive.name != "dot_general" or len(its) != 1 or len(its[0]["operands"]) != len(values):
                return values
            pairs = list(zip(values, its[0]["operands"]))
            if any(tuple(value.shape) != tuple(operand["shape"]) for value, operand in pairs):
                return values
            return [constrained(value, operand["shape"], operand["axes"], its[0]["name"]) for value, operand in pairs]

        def results(number: int, equation: Any, values: list[Any]) -> list[Any]:
            its = ops_of(equation, ops.get(number, []))
            if len(values) != 1 or equation.primitive.name in ("scan", "while", "cond", "checkpoint") or not hasattr(values[0], "shape"):
                return values
            fitting = [op for op in its if math.prod(op["shape"]) == math.prod(values[0].shape)]
            if not fitting:
                return values
            fitting = [op for op in fitting if tuple(op["shape"]) == tuple(values[0].shape)] or fitting
            return [constrained(values[0], fitting[-1]["shape"], fitting[-1]["axes"], fitting[-1]["name"])]

        def planned(*args: Any, **kwargs: Any) -> Any:
            flat, structure = jax.tree.flatten((args, kwargs))
            flat = [self._constrain(value, leaf.spec) for value, leaf in zip(flat, self._leaves)]
            args, kwargs = jax.tree.unflatten(structure, flat)
            result = rerun(self._fn, args, kwargs, operands, results)
            out, tree = jax.tree.flatten(result)
            for leaf in self._leaves:
                if leaf.replaced_by is not None:
                    out[leaf.replaced_by] = self._constrain(out[leaf.replaced_by], leaf.spec)
            self.notes = tuple(notes)
            return jax.tree.unflatten(tree, out)

        planned.__name__ = getattr(self._fn, "__name__", "planned")
        return jax.jit(planned)

    def _constrain(self, value: Any, spec: PartitionSpec) -> Any:
        return jax.lax.with_sharding_constraint(value, NamedSharding(self.mesh, spec))


def _is_number(result: Any) -> bool:
    """Returns whether a result is one floating-point number, as that of a loss function is."""
    leaves_of = jax.tree.leaves(result)
    return len(leaves_of) == 1 and leaves_of[0].shape == () and jax.numpy.issubdtype(leaves_of[0].dtype, jax.numpy.floating)


def _without_derivative(fn: Callable[..., Any]) -> Any:
    """Returns a function that raises where it is differentiated: rules of `jax.custom_vjp` inside of a step are not kept."""
    guarded = jax.custom_jvp(fn)

    def refuse(primals: Any, tangents: Any) -> Any:
        raise InputError("a step under a plan has no derivative, and a loss no second one; differentiate the loss inside of the step, and plan the whole")

    guarded.defjvp(refuse)
    return guarded


def _program(text: str) -> str:
    """Returns a StableHLO text without locations and without the name of its module."""
    return re.sub(r"(?m)^#loc.*\n|^module @\S+| loc\((?:#loc\d*|\"(?:[^\"\\\\]|\\\\.)*\")\)", "", text)


def _not_applied(plan: Plan) -> list[str]:
    """Returns notes on the decisions of a plan that are no shardings."""
    said = plan.to_dict()
    notes = []
    if said.get("recompute", "none") not in ("none", ["none"], {}):
        notes.append(f"recompute is {said['recompute']}: write jax.checkpoint in the function")
    if said.get("optimizer_sharding", 0) not in (0, [0]):
        notes.append(f"optimizer_sharding is {said['optimizer_sharding']}: only shardings of the function's arguments are applied")
    return notes


def _by_equation(layouts: dict[str, Any], numbers: dict[int, int]) -> dict[int, list[Any]]:
    """Returns the operators of each equation, in program order."""
    found: dict[int, list[Any]] = {}
    for op in layouts["ops"]:
        for number in dict.fromkeys(numbers[line] for line in op["lines"] if line in numbers):
            found.setdefault(number, []).append(op)
    return found


def apply(fn: Callable[..., Any], plan: Plan, mesh: Optional[Mesh] = None, *, model: Optional[Model] = None) -> Applied:
    """Returns `fn`, which was captured, as a jitted function that runs as the plan says.

    A whole train step, or a loss with its gradients, runs as a program of one rank, with the collectives that the plan's
    cuts need. A function with several results gets the cuts as constraints, and XLA chooses the collectives. Neither
    changes a number: where a cut of the plan cannot be made, another one is, and `notes` of the result says so.
    """
    callable_(fn, "fn")
    its = model_of(plan, model)
    given = mesh_of(plan) if mesh is None else mesh
    check_mesh(plan, given)
    return Applied(fn, plan, given, its)
