# SPDX-License-Identifier: Apache-2.0
"""Runs a program on one rank's parts of its arrays, with the collectives that the plan's layouts need and no others.

The program is called inside of `jax.shard_map`, where XLA adds no collectives of its own. Each equation takes its operands
and leaves its result as the plan says; where the plan says nothing, an equation takes its operands as they lie. An equation
without a rule takes whole operands, which every rank then computes.
"""
from __future__ import annotations

import contextlib
import dataclasses
import math
from collections.abc import Iterator, Sequence
from typing import Any, Optional

import jax
import numpy as np
from jax.extend import core as jex

from .layout import Kept, Layout, Ranks, Round, Value, local_shape, receives, shards, whole
from .loops import run_cond, run_scan, run_while
from .planned import Cuts, Op, PlanOps, Uses
from .rules import Rule, rule_of
from .trace import Tree

CALLS = ("jit", "pjit", "closed_call", "core_call", "checkpoint", "remat", "remat2", "custom_jvp_call", "custom_vjp_call")
REDUCE = {"max": jax.lax.pmax, "min": jax.lax.pmin}


@dataclasses.dataclass
class Wishes:
    """What a first run of a program finds out for a second one. Loops are named by the ids of their equations."""

    stacked: dict[int, list[Optional[Layout]]] = dataclasses.field(default_factory=dict)  # the layouts in which a later loop takes what a loop stacks
    kept: dict[int, list[Kept]] = dataclasses.field(default_factory=dict)  # values of earlier loops that the rounds of a loop compute again


class Local:
    """Runs the equations of a program on this rank's parts. `ops` are the operators of the plan by number of equation."""

    def __init__(self, ops: dict[int, list[Any]], ranks: Ranks, wishes: Optional[Wishes] = None) -> None:
        self.ranks = ranks
        self.wishes = wishes or Wishes()
        self.round: Optional[Round] = None  # the round of a loop that is traced
        self.path: list[int] = []  # the positions of the equations of the round that contain the one that is run, and its own
        self.inside: dict[Any, Value] = {}  # values in the last round of a loop, by the numbers of what the loop reads and stacks
        self.kept: dict[Kept, Value] = {}  # what loops have kept for later ones, stacked
        self.wanted: dict[int, dict[Kept, None]] = {}  # what the rounds of loops could take from those of earlier loops
        self.stacked: dict[int, list[Value]] = {}  # what the loops have stacked, by the id of the equation of the loop
        self.notes: dict[str, None] = {}
        self.plan = PlanOps(ops, ranks, self.notes)
        self.again = 0  # how many jax.checkpoint that compute values again contain the equation
        self.later: tuple[Sequence[Any], Tree, int] = ((), [], 0)  # a program, and the position of the equation after the one that is run
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
        for at, (equation, (number, inner), used) in enumerate(zip(jaxpr.eqns, tree, reversed(kept), strict=True)):
            if any(used) or equation.effects:
                self.path.append(at)
                self.later = jaxpr.eqns, tree, at + 1
                known.update(zip(equation.outvars, self.equation(equation, number, inner, [read(var) for var in equation.invars], used)))
                self.path.pop()
        return [read(var) if isinstance(var, jex.Literal) or var in known else self.given(np.zeros(var.aval.shape, var.aval.dtype))
                for var in jaxpr.outvars]

    def found_wishes(self) -> Wishes:
        """Returns the layouts in which values that loops have stacked were read, after a run."""
        stacked = {loop: [next(iter(value.asked)) if len(value.asked) == 1 else None for value in values] for loop, values in self.stacked.items()}
        return Wishes(stacked, {loop: list(keys) for loop, keys in self.wanted.items()})

    @contextlib.contextmanager
    def in_round(self, now: Round) -> Iterator[None]:
        """Runs equations in a round of a loop."""
        outer, path = self.round, self.path
        self.round, self.path = now, []
        yield
        self.round, self.path = outer, path

    def made(self, value: Value) -> Value:
        """Returns a value, after noting in which round of a loop it was made."""
        value.round = self.round
        if self.round is not None:
            path = tuple(self.path)
            value.place = path, self.round.counts.setdefault(path, 0)
            self.round.counts[path] += 1
            self.round.values[value.place] = value
        return value

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
                values = [self.made(Value(array, value.layout, self.ranks, value.zero, value)) for array, value in zip(arrays, values)]
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
            return [self.made(Value(array, value.layout, self.ranks, value.zero)) for array, value in zip(arrays, values)]
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
        if any(twin.received for twin in twins):  # what other ranks have sent is kept, and not sent again
            if all(twin.round is self.round for twin in twins):
                return twins
            arrays = [twin.known(twin.layout, self.round) for twin in twins]
            if all(array is not None for array in arrays):
                return [self.made(Value(array, twin.layout, self.ranks, twin.zero, twin)) for array, twin in zip(arrays, twins)]
        op = its if its and self.again else self.plan.op_of(number, equation)
        if op.known():
            self.alike[kind] = op
        elif self.again and not twins:
            op = self.alike.get(kind, op)
        if not op.known() and any(value.layout.partial for value in values) and not kept_partial(rule, op, values, set()):
            op = Op(op.operands, self.taken_later(equation.outvars[0]))
        made = self.cut_equation(equation, rule, op, values, number)
        if twins:
            made = [Value(value.array, value.layout, self.ranks, value.zero, twin) if value.layout == twin.layout else value
                    for value, twin in zip(made, twins)]
        made = [self.made(value) for value in made]
        if constant:
            for at, value in enumerate(made):
                value.number = self.constants.setdefault((key, at), len(self.constants))
        else:
            for value, earlier in zip(made, same):
                value.number = earlier.number
            self.earlier.setdefault(key, (op, made))
        return made

    def taken_later(self, var: Any) -> Optional[Cuts]:
        """Returns the cuts in which the next equation that the plan names takes a value. None: it names none that takes it."""
        equations, tree, start = self.later
        for equation, (number, _) in zip(equations[start:], tree[start:]):
            for at, taken in enumerate(equation.invars):
                if taken is not var:
                    continue
                op = self.plan.op_of(number, equation)
                alike = equation.outvars[0].aval.shape == var.aval.shape
                cuts = op.operands[at] if op.operands[at] is not None else op.result if alike else None
                if cuts is not None:
                    return cuts
        return None

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
        return [self.made(Value(array, whole(np.ndim(array)), self.ranks)) for array in results]

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
