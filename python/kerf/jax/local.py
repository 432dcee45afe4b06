# SPDX-License-Identifier: Apache-2.0
"""Runs a program on one rank's parts of its arrays, with the collectives that the plan's layouts need and no others.

The program is called inside of `jax.shard_map`, where XLA adds no collectives of its own. Each equation takes its operands
and leaves its result as the plan says; where the plan says nothing, an equation takes its operands as they lie. An equation
without a rule takes whole operands, which every rank then computes.
"""
from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Optional

import jax
import numpy as np
from jax.extend import core as jex

from .layout import Layout, Ranks, Value, local_shape, receives, shards, whole
from .loops import run_cond, run_scan, run_while
from .planned import Cuts, Op, PlanOps, Uses
from .rules import Rule, rule_of
from .trace import Tree

CALLS = ("jit", "pjit", "closed_call", "core_call", "checkpoint", "remat", "remat2", "custom_jvp_call", "custom_vjp_call")
REDUCE = {"max": jax.lax.pmax, "min": jax.lax.pmin}
Wishes = dict[int, list[Optional[Layout]]]  # the layouts in which a later loop takes what a loop stacks, by the id of the loop's equation


class Local:
    """Runs the equations of a program on this rank's parts. `ops` are the operators of the plan by number of equation."""

    def __init__(self, ops: dict[int, list[Any]], ranks: Ranks, wishes: Optional[Wishes] = None) -> None:
        self.ranks = ranks
        self.wishes = wishes or {}
        self.stacked: dict[int, list[Value]] = {}  # what the loops have stacked, by the id of the equation of the loop
        self.notes: dict[str, None] = {}
        self.plan = PlanOps(ops, ranks, self.notes)
        self.again = 0  # how many jax.checkpoint that compute values again contain the equation
        self.earlier: dict[Any, tuple[Op, list[Value]]] = {}  # cuts and results of earlier equations
        self.constants: dict[Any, int] = {}  # numbers of results that depend on no argument
        self.alike: dict[Any, Op] = {}  # the plan's cuts of the last equation of a kind

    def run(self, jaxpr: Any, consts: Sequence[Any], values: Sequence[Value], tree: Tree, needed: Optional[Sequence[bool]] = None) -> list[Value]:
        """Returns the results of a program, whose equations have the numbers of `tree`.

        Equations on which no result that is `needed` depends are left out, and such results are any values.
        """
        known = {var: self.given(value) for var, value in zip(jaxpr.constvars, consts)} | dict(zip(jaxpr.invars, values))

        def read(var: Any) -> Value:
            return self.literal(var.val) if isinstance(var, jex.Literal) else known[var]

        live = {var for at, var in enumerate(jaxpr.outvars) if not isinstance(var, jex.Literal) and (needed is None or needed[at])}
        kept: list[list[bool]] = []
        for equation in reversed(jaxpr.eqns):
            kept.append([var in live for var in equation.outvars])
            if any(kept[-1]) or equation.effects:
                live |= {var for var in equation.invars if not isinstance(var, jex.Literal)}
        for equation, (number, inner), used in zip(jaxpr.eqns, tree, reversed(kept), strict=True):
            if any(used) or equation.effects:
                known.update(zip(equation.outvars, self.equation(equation, number, inner, [read(var) for var in equation.invars], used)))
        return [read(var) if isinstance(var, jex.Literal) or var in known else self.given(np.zeros(var.aval.shape, var.aval.dtype))
                for var in jaxpr.outvars]

    def found_wishes(self) -> Wishes:
        """Returns the layouts in which values that loops have stacked were read, after a run."""
        return {loop: [next(iter(value.asked)) if len(value.asked) == 1 else None for value in values] for loop, values in self.stacked.items()}

    def given(self, array: Any) -> Value:
        """Returns an array that every rank has as a whole."""
        return Value(array, whole(np.ndim(array)), self.ranks, zero=isinstance(array, (int, float, np.ndarray, np.generic)) and not np.any(array))

    def equation(self, equation: Any, number: int, inner: dict[str, Any], values: list[Value], needed: Sequence[bool]) -> list[Value]:
        name, params = equation.primitive.name, equation.params
        if name in CALLS:
            key = next(key for key in ("jaxpr", "call_jaxpr", "fun_jaxpr") if key in params)
            called = params[key]
            closed = isinstance(called, jex.ClosedJaxpr)
            again = bool(params.get("differentiated"))
            if again and params.get("prevent_cse"):
                arrays = jax.lax.optimization_barrier(tuple(value.array for value in values))
                values = [Value(array, value.layout, self.ranks, value.zero, value) for array, value in zip(arrays, values)]
            self.again += again
            results = self.run(called.jaxpr if closed else called, called.consts if closed else (), values, inner[key], needed)
            self.again -= again
            return results
        if name == "scan":
            return run_scan(self, equation, inner, values, needed)
        if name in ("while", "cond"):
            return (run_while if name == "while" else run_cond)(self, equation, inner, values)
        if name == "optimization_barrier":
            arrays = jax.lax.optimization_barrier(tuple(value.array for value in values))
            return [Value(array, value.layout, self.ranks, value.zero) for array, value in zip(arrays, values)]
        if name == "sharding_constraint":
            return values  # the plan decides
        rule = rule_of(equation)
        if rule is None:
            return self.whole_equation(equation, values)
        kind = (name, str(params), *((tuple(var.aval.shape), str(var.aval.dtype)) for var in (*equation.invars, *equation.outvars)))
        key = (*kind, *(value.number for value in values))
        constant = all(isinstance(value.number, int) for value in values)
        its, same = self.earlier.get(key, (None, [])) if not constant else (None, [])
        twins = same if self.again else []
        if any(twin.received for twin in twins):
            return twins  # what other ranks have sent is kept, and not sent again
        op = its if its and self.again else self.plan.op_of(number, equation)
        if op.known():
            self.alike[kind] = op
        elif self.again and not twins:
            op = self.alike.get(kind, op)
        made = self.cut_equation(equation, rule, op, values, number)
        if twins:
            made = [Value(value.array, value.layout, self.ranks, value.zero, twin) if value.layout == twin.layout else value
                    for value, twin in zip(made, twins)]
        if constant:
            for at, value in enumerate(made):
                value.number = self.constants.setdefault((key, at), len(self.constants))
        else:
            for value, earlier in zip(made, same):
                value.number = earlier.number
            self.earlier.setdefault(key, (op, made))
        return made

    def literal(self, number: Any) -> Value:
        """Returns a number of the program."""
        value = self.given(number)
        array = np.asarray(number)
        value.number = self.constants.setdefault((str(array.dtype), array.tobytes()), len(self.constants))
        return value

    def whole_equation(self, equation: Any, values: list[Value]) -> list[Value]:
        """Returns the results of an equation that every rank computes as a whole."""
        if any(any(value.layout.dims) for value in values):
            self.notes[f"{equation.primitive.name} has no rule for cut operands: every rank computes all of it"] = None
        results = bind(equation, [value.to(whole(len(value.layout.dims))) for value in values], equation.params)
        return [Value(array, whole(np.ndim(array)), self.ranks) for array in results]

    def cut_equation(self, equation: Any, rule: Rule, op: Op, values: list[Value], number: int) -> list[Value]:
        factors = self.assign(equation, rule, op, values)
        kept = kept_partial(rule, op, values, {axis for axes in factors.values() for axis in axes})
        reduced = sorted({axis for factor, axes in factors.items() for axis in axes if all(factor not in dims for dims in rule.results)})
        arrays = []
        for at, (value, dims) in enumerate(zip(values, rule.operands)):
            partial = [axis for axis in kept if at in rule.together or axis in value.layout.partial]
            partial += reduced if at == rule.begins else []
            if value.zero:
                partial = []  # zeros are their own partial sums
            arrays.append(value.to(Layout(cut(dims, factors), tuple(sorted(partial)))))
        layouts = [Layout(cut(dims, factors)) for dims in rule.results]
        if number >= 0 and number not in self.plan.uses:
            self.plan.uses[number] = Uses([tuple(var.aval.shape) for var in equation.invars], values, [list(cut(dims, factors)) for dims in rule.operands],
                                          tuple(equation.outvars[0].aval.shape), list(layouts[0].dims))
        shapes = [local_shape(var.aval.shape, layout, self.ranks) for var, layout in zip(equation.outvars, layouts)]
        params = rule.params(equation.params, [tuple(np.shape(array)) for array in arrays], shapes)
        results = bind(equation, arrays, params)
        received = False
        if reduced and rule.combine != "sum":
            results, reduced = [REDUCE[rule.combine](array, tuple(reduced)) for array in results], []
            received = True
        partial = tuple(sorted({*kept, *reduced}))
        zero = bool(values) and (all(values[at].zero for at in rule.together) if rule.together else any(values[at].zero for at in rule.each))
        made = [Value(array, Layout(layout.dims, partial), self.ranks, zero) for array, layout in zip(results, layouts)]
        if op.result is not None:
            wanted = Layout(tuple(op.result))
            received |= receives(made[0].layout, wanted)
            made = [Value(made[0].to(wanted), wanted, self.ranks, zero)]
        for value in made:
            value.received = received
        return made

    def assign(self, equation: Any, rule: Rule, op: Op, values: list[Value]) -> dict[int, tuple[str, ...]]:
        """Returns the axes that cut each factor: those of the plan, else those that cut the operands already."""
        sizes: dict[int, list[int]] = {}
        for dims, var in (*zip(rule.operands, equation.invars), *zip(rule.results, equation.outvars)):
            for factor, size in zip(dims, var.aval.shape):
                if factor is not None:
                    sizes.setdefault(factor, []).append(size)
        planned = [(dims, cuts) for dims, cuts in zip(rule.operands, op.operands) if cuts is not None]
        order = sorted(range(len(values)), key=lambda at: -self.cut_elements(values[at]))
        lying = [(rule.operands[at], list(values[at].layout.dims)) for at in order]
        given = {factor for dims in rule.results for factor in dims}
        taken = {factor for dims in rule.operands for factor in dims}
        # Each source has cuts, and the factors for which it is asked.
        sources = [(dims, cuts, set(sizes)) for dims, cuts in planned]
        decided = {factor for dims, _ in planned for factor in dims}
        if not planned:
            sources += [(dims, cuts, set(sizes) - given) for dims, cuts in lying]  # sums where the operands lie
        if op.result is not None:
            sources.append((rule.results[0], op.result, set(sizes) - taken if planned else set(sizes)))
            decided |= given if not planned else set()
        sources += [(dims, cuts, set(sizes) - decided) for dims, cuts in lying]
        found: dict[int, tuple[str, ...]] = {}
        used: set[str] = set()
        for dims, cuts, asked in sources:
            for factor, axes in zip(dims, cuts):
                if factor is None or factor in found or factor not in asked:
                    continue
                fitting: tuple[str, ...] = ()
                for axis in axes:
                    if axis not in used and all(size % shards((*fitting, axis), self.ranks) == 0 for size in sizes[factor]):
                        fitting = (*fitting, axis)
                if fitting:
                    found[factor] = fitting
                    used |= set(fitting)
        return found

    def cut_elements(self, value: Value) -> int:
        """Returns how many elements of an array other ranks have."""
        parts = shards([axis for axes in value.layout.dims for axis in axes], self.ranks)
        return np.size(value.array) * (parts - 1)


def cut(dims: Sequence[Optional[int]], factors: dict[int, tuple[str, ...]]) -> tuple[tuple[str, ...], ...]:
    return tuple(() if factor is None else factors.get(factor, ()) for factor in dims)


def kept_partial(rule: Rule, op: Op, values: list[Value], used: set[str]) -> tuple[str, ...]:
    """Returns the axes over which operands may stay partial, because the result is linear in these operands."""
    partial = [at for at, value in enumerate(values) if value.layout.partial]
    if not partial:
        return ()
    passed = set(partial) & set(rule.together)
    if passed:
        rest = [at for at in rule.together if at not in passed and not values[at].zero]
        if rest or any(op.operands[at] is not None for at in passed):
            return ()
        axes = {axis for at in passed for axis in values[at].layout.partial}
    else:
        alone = [at for at in partial if at in rule.each and op.operands[at] is None]
        if not alone:
            return ()
        axes = set(values[alone[0]].layout.partial)
        if any(axis in values[at].layout.partial for at in partial if at != alone[0] for axis in axes):
            return ()
    return () if axes & used else tuple(sorted(axes))


def bind(equation: Any, arrays: list[Any], params: dict[str, Any]) -> list[Any]:
    """Returns the results of an equation with other arrays and parameters."""
    bound = equation.primitive.get_bind_params(params)
    subfunctions, bound = bound if isinstance(bound, tuple) else ((), bound)
    results = equation.primitive.bind(*subfunctions, *arrays, **bound)
    return list(results) if equation.primitive.multiple_results else [results]
