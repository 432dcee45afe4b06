# SPDX-License-Identifier: Apache-2.0
"""Runs the loops and branches of a program on one rank's parts. Carried values have one layout in all rounds."""
from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Optional

import jax

from .layout import Layout, Round, Value, change, whole

if TYPE_CHECKING:
    from .local import Local

TRIALS = 4  # how often a loop is traced to find layouts of the carried values that a round does not change


def settled(value: Value, axes: int = 0) -> Value:
    """Returns a value without partial sums, and whole along its first `axes` dimensions."""
    layout = Layout((((),) * axes + value.layout.dims[axes:]))
    return value if layout == value.layout else Value(value.to(layout), layout, value.ranks, value.zero)


def before_loop(value: Value, rounds: set[Layout], axes: int = 0) -> Value:
    """Returns a value in the layout in which the rounds of a loop read it, if that is one layout. `axes` dimensions are not in a round."""
    (only,) = rounds if len(rounds) == 1 else (None,)
    if only is None or only.partial:
        value.asked.add(value.layout)
        return value
    layout = Layout(((),) * axes + only.dims)
    return Value(value.to(layout), layout, value.ranks, value.zero)


def fresh(local: Local, arrays: Sequence[Any], layouts: Sequence[Layout], zeros: Sequence[bool]) -> list[Value]:
    """Returns values inside of a loop. They do not share what the values outside have computed."""
    return [local.made(Value(array, layout, local.ranks, zero)) for array, layout, zero in zip(arrays, layouts, zeros)]


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


class Scan:
    """A scan on one rank's parts: its constants, carried values and stacked values.

    Where a later scan computes a round again, as the backward of layers under jax.checkpoint does, this one also stacks what
    a round has received from other ranks and the later one takes, so that it is not sent again. The first run of the program
    finds out what that is.
    """

    def __init__(self, local: Local, equation: Any, inner: dict[str, Any], values: list[Value]) -> None:
        self.local, self.params, self.tree, self.loop = local, equation.params, inner["jaxpr"], id(equation)
        consts, self.carries = self.params["num_consts"], self.params["num_carry"]
        self.outside = local.earlier  # the equations before the loop
        self.shares = local.round is None  # loops inside of loops share nothing with later ones
        self.numbers = [("const" if at < consts else "row", value.number) for at, value in enumerate(values) if not consts <= at < consts + self.carries]
        self.twins = [local.inside.get(number) if self.shares else None for number in self.numbers]  # the same values in a round of an earlier loop
        self.taken = [key for key in local.wishes.kept.get(self.loop, []) if key in local.kept]
        self.keeps = list(dict.fromkeys(key for keys in local.wishes.kept.values() for key in keys if key[0] == self.loop))
        self.consts = [settled(value) for value in values[:consts]]
        self.start = values[consts:consts + self.carries]
        self.rows = [settled(value, axes=1) for value in values[consts + self.carries:]]
        self.asked: list[list[set[Layout]]] = []  # the layouts in which a round read the constants and the rows
        self.given = [local.kept[key] for key in self.taken]  # what earlier loops have kept for this one, stacked
        rows = [*self.rows, *self.given]
        self.layouts = carried_layouts(local, self.start, lambda now: self.round(now, [value.array[0] for value in rows])[:self.carries])
        if self.asked:
            # A value that every round takes in one other layout is changed once, before the loop.
            self.consts = [before_loop(value, its) for value, its in zip(self.consts, self.asked[0])]
            self.rows = [before_loop(value, its, axes=1) for value, its in zip(self.rows, self.asked[1])]
        self.wishes = local.wishes.stacked.get(self.loop) or [None] * (len(equation.outvars) - self.carries)
        self.ends: list[Layout] = []  # of what a round adds to the stacked results

    def round(self, now: list[Value], row: Sequence[Any], needed: Optional[Sequence[bool]] = None) -> list[Value]:
        """Returns the results of a round. `row` are the arrays that the scan reads, then those that earlier loops have kept."""
        local, closed = self.local, self.params["jaxpr"]
        local.earlier = dict(self.outside)
        trace = Round(self.loop, dict(zip(self.taken, row[len(self.rows):])))
        with local.in_round(trace):
            consts = fresh(local, [value.array for value in self.consts], [value.layout for value in self.consts], [v.zero for v in self.consts])
            rows = fresh(local, row[:len(self.rows)], [Layout(value.layout.dims[1:]) for value in self.rows], no_zeros(self.rows))
            now = fresh(local, [value.array for value in now], [value.layout for value in now], [value.zero for value in now])
            for value, (kind, number), twin in zip([*consts, *rows], self.numbers, self.twins):
                if twin is not None:
                    value.number, value.twin = twin.number, twin if kind == "row" else None
                elif kind == "const" and isinstance(number, int):
                    value.number = number
                elif self.shares:
                    local.inside[kind, number] = value
            results = local.run(closed.jaxpr, closed.consts, [*consts, *now, *rows], self.tree, needed)
        self.asked[:] = [[value.asked for value in consts], [value.asked for value in rows]]
        self.values = trace.values
        if self.shares:
            local.wanted[self.loop] = trace.wanted
        return results

    def step(self, now: Any, row: Any, needed: Optional[Sequence[bool]] = None) -> tuple[list[Any], list[Any]]:
        """Returns the carried arrays after a round, and the arrays that it adds to the stacked results."""
        results = self.round(fresh(self.local, now, self.layouts, no_zeros(now)), row, needed)
        ends = results[self.carries:]
        self.ends[:] = [value.layout if wish is None else Layout(wish.dims[1:]) for value, wish in zip(ends, self.wishes)]
        carried = [value.to(layout) if needed is None or needed[at] else now[at] for at, (value, layout) in enumerate(zip(results, self.layouts))]
        kept = [self.values[place].to(layout) for _, place, layout in self.keeps]
        self.last = ends
        return carried, [*[value.to(layout) for value, layout in zip(ends, self.ends)], *kept]

    def run(self, needed: Sequence[bool]) -> list[Value]:
        length, backwards = self.params["length"], self.params["reverse"]
        # Where nobody needs a carried value after the loop, the last round is apart and does not compute it.
        apart = length > 1 and not all(needed[:self.carries])
        arrays = [value.array for value in [*self.rows, *self.given]]
        looped = [array[1:] if backwards else array[:-1] for array in arrays] if apart else arrays
        now = [value.to(layout) for value, layout in zip(self.start, self.layouts)]
        rounds = length - apart
        now, stacked = jax.lax.scan(self.step, now, looped, length=rounds, reverse=backwards, unroll=max(1, min(self.params["unroll"], rounds)))
        if apart:
            now, last = self.step(now, [array[0 if backwards else -1] for array in arrays], needed)
            stacked = [jax.numpy.concatenate([one[None], many] if backwards else [many, one[None]]) for many, one in zip(stacked, last)]
        inside = [*self.ends, *[layout for _, _, layout in self.keeps]]
        layouts = [*self.layouts, *[Layout(((), *layout.dims), layout.partial) for layout in inside]]
        made = fresh(self.local, [*now, *stacked], layouts, no_zeros(layouts))
        self.local.kept.update(zip(self.keeps, made[self.carries + len(self.ends):]))
        made = made[:self.carries + len(self.ends)]
        if self.shares:
            self.local.inside.update((("row", value.number), its) for value, its in zip(made[self.carries:], self.last))
        return made


def run_scan(local: Local, equation: Any, inner: dict[str, Any], values: list[Value], needed: Sequence[bool]) -> list[Value]:
    scan = Scan(local, equation, inner, values)
    made = scan.run(needed)
    local.stacked[id(equation)] = made[scan.carries:]
    return made


def run_while(local: Local, equation: Any, inner: dict[str, Any], values: list[Value]) -> list[Value]:
    params = equation.params
    count = {key: params[f"{key}_nconsts"] for key in ("cond", "body")}
    outside = [settled(value) for value in values[:count["cond"] + count["body"]]]
    consts = {"cond": outside[:count["cond"]], "body": outside[count["cond"]:]}
    start = values[len(outside):]

    def part(key: str, now: list[Value]) -> list[Value]:
        closed = params[f"{key}_jaxpr"]
        with local.in_round(Round(0, {})):
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
        with local.in_round(Round(0, {})):
            inside = fresh(local, arrays, [value.layout for value in given], no_zeros(arrays))
            results = local.run(branches[at].jaxpr, branches[at].consts, inside, trees[at])
        if not target:
            target[:] = [Layout(value.layout.dims) for value in results]
        return [value.to(layout) for value, layout in zip(results, target)]

    arrays = [value.array for value in given]
    jax.eval_shape(lambda *its: branch(0, its), *arrays)
    made = jax.lax.switch(index, [lambda *its, at=at: branch(at, its) for at in range(len(branches))], *arrays)
    return fresh(local, made, target, no_zeros(made))
