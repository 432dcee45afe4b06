# SPDX-License-Identifier: Apache-2.0
"""Runs the loops and branches of a program on one rank's parts. Carried values have one layout in all rounds."""
from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import jax

from .layout import Layout, Value, change, whole

if TYPE_CHECKING:
    from .local import Local

TRIALS = 4  # how often a loop is traced to find layouts of the carried values that a round does not change


def settled(value: Value, axes: int = 0) -> Value:
    """Returns a value without partial sums, and whole along its first `axes` dimensions."""
    layout = Layout((((),) * axes + value.layout.dims[axes:]))
    return Value(value.to(layout), layout, value.ranks, value.zero)


def fresh(local: Local, arrays: Sequence[Any], layouts: Sequence[Layout], zeros: Sequence[bool]) -> list[Value]:
    """Returns values inside of a loop. They do not share what the values outside have computed."""
    return [Value(array, layout, local.ranks, zero) for array, layout, zero in zip(arrays, layouts, zeros)]


def no_zeros(values: Sequence[Any]) -> list[bool]:
    return [False] * len(values)


def carried_layouts(local: Local, carry: list[Value], once: Callable[[list[Value]], list[Value]]) -> list[Layout]:
    """Returns layouts of the carried values that a round leaves as they are, or those of the last trial. `once` is a round."""
    layouts = [value.layout for value in carry]
    zeros = [value.zero for value in carry]
    for _ in range(TRIALS):
        left: list[Value] = []

        def trial(*arrays: Any) -> list[Any]:
            left[:] = once(fresh(local, arrays, layouts, zeros))
            return [value.array for value in left]

        shapes = [jax.eval_shape(lambda value=value, layout=layout: change(value.array, value.layout, layout, local.ranks))
                  for value, layout in zip(carry, layouts)]
        jax.eval_shape(trial, *shapes)
        found = [value.layout for value in left]
        zeros = [zero and value.zero for zero, value in zip(zeros, left)]
        if found == layouts and not any(zero for zero in zeros):
            break
        if found == layouts:
            zeros = no_zeros(zeros)
        layouts = found
    return layouts


def run_scan(local: Local, equation: Any, inner: dict[str, Any], values: list[Value]) -> list[Value]:
    params = equation.params
    consts, carry = params["num_consts"], params["num_carry"]
    closed, tree = params["jaxpr"], inner["jaxpr"]
    outside = [settled(value) for value in values[:consts]]
    start = values[consts:consts + carry]
    stacked = [settled(value, axes=1) for value in values[consts + carry:]]
    rows = [Layout(value.layout.dims[1:]) for value in stacked]
    asked: list[set[Layout]] = []

    def once(now: list[Value], row: Sequence[Any]) -> list[Value]:
        inside = fresh(local, [value.array for value in outside], [value.layout for value in outside], [value.zero for value in outside])
        results = local.run(closed.jaxpr, closed.consts, [*inside, *now, *fresh(local, row, rows, no_zeros(rows))], tree)
        asked[:] = [value.asked for value in inside]
        return results

    def trial(now: list[Value]) -> list[Value]:
        return once(now, [value.array[0] for value in stacked])[:carry]

    layouts = carried_layouts(local, start, trial)
    for at, its in enumerate(asked):  # a value that every round takes in one other layout is changed once, before the loop
        (only,) = its if len(its) == 1 else (outside[at].layout,)
        if not only.partial:
            outside[at] = Value(outside[at].to(only), only, local.ranks, outside[at].zero)
    made: list[Layout] = []

    def body(now: Any, row: Any) -> Any:
        results = once(fresh(local, now, layouts, no_zeros(now)), row)
        ends = [settled(value) if value.layout.partial else value for value in results[carry:]]
        made[:] = [value.layout for value in ends]
        return [value.to(layout) for value, layout in zip(results, layouts)], [value.array for value in ends]

    last, rest = jax.lax.scan(body, [value.to(layout) for value, layout in zip(start, layouts)], [value.array for value in stacked],
                              length=params["length"], reverse=params["reverse"], unroll=params["unroll"])
    return fresh(local, [*last, *rest], [*layouts, *[Layout(((), *layout.dims)) for layout in made]], no_zeros([*last, *rest]))


def run_while(local: Local, equation: Any, inner: dict[str, Any], values: list[Value]) -> list[Value]:
    params = equation.params
    count = {key: params[f"{key}_nconsts"] for key in ("cond", "body")}
    outside = [settled(value) for value in values[:count["cond"] + count["body"]]]
    consts = {"cond": outside[:count["cond"]], "body": outside[count["cond"]:]}
    start = values[len(outside):]

    def part(key: str, now: list[Value]) -> list[Value]:
        closed = params[f"{key}_jaxpr"]
        inside = fresh(local, [value.array for value in consts[key]], [value.layout for value in consts[key]], no_zeros(consts[key]))
        return local.run(closed.jaxpr, closed.consts, [*inside, *now], inner[f"{key}_jaxpr"])

    layouts = carried_layouts(local, start, lambda now: part("body", now))

    def go_on(now: Any) -> Any:
        (value,) = part("cond", fresh(local, now, layouts, no_zeros(now)))
        return value.to(whole(0))

    def body(now: Any) -> Any:
        return [value.to(layout) for value, layout in zip(part("body", fresh(local, now, layouts, no_zeros(now))), layouts)]

    last = jax.lax.while_loop(go_on, body, [value.to(layout) for value, layout in zip(start, layouts)])
    return fresh(local, last, layouts, no_zeros(last))


def run_cond(local: Local, equation: Any, inner: dict[str, Any], values: list[Value]) -> list[Value]:
    branches, trees = equation.params["branches"], inner["branches"]
    index, given = values[0].to(whole(0)), [settled(value) for value in values[1:]]
    target: list[Layout] = []

    def branch(at: int, arrays: Sequence[Any]) -> list[Any]:
        inside = fresh(local, arrays, [value.layout for value in given], no_zeros(arrays))
        results = local.run(branches[at].jaxpr, branches[at].consts, inside, trees[at])
        if not target:
            target[:] = [Layout(value.layout.dims) for value in results]
        return [value.to(layout) for value, layout in zip(results, target)]

    arrays = [value.array for value in given]
    jax.eval_shape(lambda *its: branch(0, its), *arrays)
    made = jax.lax.switch(index, [lambda *its, at=at: branch(at, its) for at in range(len(branches))], *arrays)
    return fresh(local, made, target, no_zeros(made))
