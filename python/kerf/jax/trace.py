# SPDX-License-Identifier: Apache-2.0
"""Traces a function and runs its equations again, so that each one can be marked in the StableHLO text or constrained."""
from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import jax
from jax.extend import core as jex

MARK = "kerf_equation_"
CONTROL = ("scan", "while", "cond", "checkpoint", "remat", "remat2")  # equations that contain equations with numbers of their own

# Called with the number of an equation, its primitive and its operands or results; returns them, possibly constrained.
Constrain = Callable[[int, Any, list[Any]], list[Any]]


def same(number: int, equation: Any, values: list[Any]) -> list[Any]:
    """Returns the values as they are."""
    return values


class Runner:
    """Runs the equations of a function in order. Equations have numbers, which are the same in every trace of a function."""

    def __init__(self, operands: Constrain, results: Constrain, marked: bool) -> None:
        self.operands, self.results, self.marked = operands, results, marked
        self.numbers: Iterator[int] = itertools.count()

    def run(self, jaxpr: Any, consts: Sequence[Any], values: Sequence[Any], scope: str = "") -> list[Any]:
        """Returns the results of a jaxpr. `scope` is the name stack of the equation that contains it."""
        known = dict(zip(jaxpr.constvars, consts)) | dict(zip(jaxpr.invars, values))

        def read(var: Any) -> Any:
            return var.val if isinstance(var, jex.Literal) else known[var]

        for equation in jaxpr.eqns:
            stack = "/".join(part for part in (scope, str(equation.source_info.name_stack)) if part)
            known.update(zip(equation.outvars, self.equation(equation, list(map(read, equation.invars)), stack)))
        return [read(var) for var in jaxpr.outvars]

    def equation(self, equation: Any, values: list[Any], stack: str) -> list[Any]:
        name, params = equation.primitive.name, equation.params
        if name in ("jit", "pjit"):
            return self.run(params["jaxpr"].jaxpr, params["jaxpr"].consts, values, stack)
        number = next(self.numbers)
        scope = "/".join(part for part in (stack, f"{MARK}{number}" if self.marked else "") if part)
        values = self.operands(number, equation, values)
        bound = equation.primitive.get_bind_params(params)
        subfunctions, bound = bound if isinstance(bound, tuple) else ((), bound)
        if name in CONTROL:
            bound = {key: self.inner(value) for key, value in bound.items()}
        with _scoped(scope):
            results = equation.primitive.bind(*subfunctions, *values, **bound)
        return self.results(number, equation, list(results) if equation.primitive.multiple_results else [results])

    def inner(self, value: Any) -> Any:
        """Returns a parameter of an equation in which the equations of every jaxpr have been run."""
        if isinstance(value, tuple) and value and all(isinstance(one, jex.ClosedJaxpr) for one in value):
            return tuple(map(self.inner, value))
        closed = isinstance(value, jex.ClosedJaxpr)
        if not closed and not isinstance(value, jex.Jaxpr):
            return value
        jaxpr, consts = (value.jaxpr, value.consts) if closed else (value, ())
        types: list[Any] = [var.aval for var in jaxpr.invars]  # each of them has a shape: a jaxpr inside of an equation takes arrays
        avals = [jax.ShapeDtypeStruct(one.shape, one.dtype, weak_type=getattr(one, "weak_type", False)) for one in types]
        made = jax.make_jaxpr(lambda *values: self.run(jaxpr, consts, values))(*avals)
        return made if closed else made.jaxpr


# The numbers of the equations of a program, as Runner counts them, each with those inside of the equation's parameters.
Tree = list[tuple[int, dict[str, Any]]]


def tree_of(jaxpr: Any, numbers: Iterator[int]) -> Tree:
    """Returns the numbers of the equations of a program."""
    tree: Tree = []
    for equation in jaxpr.eqns:
        name, params = equation.primitive.name, equation.params
        if name in ("jit", "pjit"):
            tree.append((-1, {"jaxpr": tree_of(params["jaxpr"].jaxpr, numbers)}))
            continue
        number = next(numbers)
        bound = equation.primitive.get_bind_params(params) if name in CONTROL else params
        inside = numbers if name in CONTROL else itertools.repeat(number)
        bound = bound[1] if isinstance(bound, tuple) else bound
        tree.append((number, {key: _trees(value, inside) for key, value in bound.items()}))
    return tree


def marked_tree(jaxpr: Any, outer: int = -1) -> Tree:
    """Returns the numbers that a program made from a marked one has in the names of its equations: that of the equation from
    which one was made, or, in the backward pass, -2 - that number; -1 where there is none."""
    tree: Tree = []
    for equation in jaxpr.eqns:
        stack = str(equation.source_info.name_stack)
        marks = re.findall(rf"{MARK}(\d+)", stack)
        number = outer if not marks else -2 - int(marks[-1]) if "transpose(" in stack else int(marks[-1])
        inner = number if equation.primitive.name in ("jit", "pjit") else -1
        tree.append((number, {key: _marked_trees(value, inner) for key, value in equation.params.items()}))
    return tree


def _marked_trees(value: Any, outer: int) -> Any:
    if isinstance(value, tuple) and value and all(isinstance(one, jex.ClosedJaxpr) for one in value):
        return tuple(marked_tree(one.jaxpr, outer) for one in value)
    closed = isinstance(value, jex.ClosedJaxpr)
    return marked_tree(value.jaxpr if closed else value, outer) if closed or isinstance(value, jex.Jaxpr) else None


def _trees(value: Any, numbers: Iterator[int]) -> Any:
    if isinstance(value, tuple) and value and all(isinstance(one, jex.ClosedJaxpr) for one in value):
        return tuple(tree_of(one.jaxpr, numbers) for one in value)
    if isinstance(value, jex.ClosedJaxpr):
        return tree_of(value.jaxpr, numbers)
    return tree_of(value, numbers) if isinstance(value, jex.Jaxpr) else None


def _scoped(scope: str) -> Any:
    return jax.named_scope(scope) if scope else _Nothing()


class _Nothing:
    def __enter__(self) -> None:
        pass

    def __exit__(self, *error: Any) -> None:
        pass


def rerun(fn: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any], operands: Constrain = same, results: Constrain = same,
          marked: bool = False) -> Any:
    """Traces `fn` and returns its result, computed equation by equation."""
    closed, shape = jax.make_jaxpr(fn, return_shape=True)(*args, **kwargs)
    flat = Runner(operands, results, marked).run(closed.jaxpr, closed.consts, jax.tree.leaves((args, kwargs)))
    return jax.tree.unflatten(jax.tree.structure(shape), flat)


def marked_text(fn: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[str, dict[int, int]]:
    """Returns the StableHLO text of a function, and for lines of the text, counted from 1, the numbers of their equations."""
    def again(*args: Any, **kwargs: Any) -> Any:
        return rerun(fn, args, kwargs, marked=True)

    again.__name__ = getattr(fn, "__name__", "function")
    text = jax.jit(again, keep_unused=True).lower(*args, **kwargs).as_text(debug_info=True)
    names = {name: int(number) for name, number in re.findall(rf'^(#loc\d*) = loc\("[^"\n]*{MARK}(\d+)(?:/[^"\n]*)?"', text, re.M)}
    numbers: dict[int, int] = {}
    open_lines: list[int] = []
    for at, line in enumerate(text.splitlines(), 1):
        found = re.search(r" loc\((#loc\d*)\)$", line)
        start = at
        if line.lstrip().startswith("}") and not line.rstrip().endswith("{") and open_lines:
            start = open_lines.pop()
        elif line.rstrip().endswith("{") and not line.lstrip().startswith("}"):
            open_lines.append(at)
        if found and found[1] in names:
            numbers[start] = names[found[1]]
    return re.sub(rf"/?{MARK}\d+", "", text), numbers
