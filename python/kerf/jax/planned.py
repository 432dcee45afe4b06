# SPDX-License-Identifier: Apache-2.0
"""The plan's cuts of the equations of a program, forward and backward."""
from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Optional

from .layout import Layout, Ranks, Value, receives
from .placed import dimensions, ops_of

Cuts = list[tuple[str, ...]]  # the axes of each dimension


class Op:
    """The cuts of an equation's operands and result in the plan. None: the plan does not say, or has partial sums."""

    def __init__(self, operands: list[Optional[Cuts]], result: Optional[Cuts]) -> None:
        self.operands, self.result = operands, result

    def known(self) -> bool:
        """Returns whether the plan says anything."""
        return self.result is not None or any(cuts is not None for cuts in self.operands)


class Uses:
    """How an equation of the forward pass was cut: the shapes and cuts of its operands, and of its result before it was summed."""

    def __init__(self, shapes: list[tuple[int, ...]], values: list[Value], taken: list[Cuts], result: tuple[int, ...], made: Cuts) -> None:
        self.shapes, self.taken, self.result, self.made = shapes, taken, result, made
        # A gradient goes back where a gather took the value from; those of arguments are summed at the end.
        self.lying = [list(value.layout.dims) if receives(value.layout, Layout(tuple(cuts))) and not value.argument else None
                      for value, cuts in zip(values, taken)]


class PlanOps:
    """Finds the plan's cuts of equations. `ops` are the operators of the plan by number of equation."""

    def __init__(self, ops: dict[int, list[Any]], ranks: Ranks, notes: dict[str, None]) -> None:
        self.ops, self.ranks, self.notes = ops, ranks, notes
        self.uses: dict[int, Uses] = {}

    def backward_of(self, number: int, equation: Any) -> Op:
        """Returns the cuts of an equation of the backward pass: gradients are cut as the values of the equation that they belong to."""
        shapes = [tuple(var.aval.shape) for var in equation.invars]
        found = Op([None] * len(shapes), None)
        uses = self.uses.get(number)
        if uses is None or len(equation.outvars) != 1 or equation.primitive.name == "add_any":
            return found
        for at, shape in enumerate(shapes):
            if shape and shape == uses.result:
                found.operands[at] = uses.made
            elif shape and shape in uses.shapes:
                found.operands[at] = uses.taken[uses.shapes.index(shape)]
        result = tuple(equation.outvars[0].aval.shape)
        if result and result in uses.shapes:
            found.result = uses.lying[uses.shapes.index(result)]
        return found

    def op_of(self, number: int, equation: Any) -> Op:
        """Returns the cuts that the plan has for an equation. Below -1, `number` is -2 - the number of a forward equation."""
        if number < -1:
            return self.backward_of(-2 - number, equation)
        shapes = [tuple(var.aval.shape) for var in equation.invars]
        result = tuple(equation.outvars[0].aval.shape)
        found = Op([None] * len(shapes), None)
        its = ops_of(equation, self.ops.get(number, []))
        if not its or len(equation.outvars) != 1:
            return found
        its = [op for op in its if math.prod(op["shape"]) == math.prod(result)]
        if not its:
            return found
        if equation.primitive.name == "conv_general_dilated":
            return self.convolution_of(equation, its, shapes, result)
        alike = [op for op in its if len(op["operands"]) == len(shapes)]
        op = ([one for one in alike if tuple(one["shape"]) == result] or alike or its)[-1]  # of the rounds of a loop, the last one
        found.result = self.cuts_of(result, op["shape"], op["axes"], op["name"])
        operands = op["operands"] if alike else []
        if len(operands) == 2 and [tuple(one["shape"]) for one in operands] == shapes[::-1] and shapes[0] != shapes[1]:
            operands = operands[::-1]
        for at, (shape, one) in enumerate(zip(shapes, operands)):
            found.operands[at] = self.cuts_of(shape, one["shape"], one["axes"], op["name"])
        return found

    def convolution_of(self, equation: Any, ops: list[Any], shapes: list[tuple[int, ...]], result: tuple[int, ...]) -> Op:
        """Returns the plan's cuts of a convolution, which the plan has with batch and features first."""
        op = next((op for op in reversed(ops) if len(op["operands"]) == 2), None)
        if op is None:
            return Op([None, None], None)
        numbers = equation.params["dimension_numbers"]

        def cuts(shape: tuple[int, ...], order: Sequence[int], sizes: Sequence[int], axes: Any) -> Optional[Cuts]:
            theirs = self.cuts_of(tuple(shape[dim] for dim in order), sizes, axes, op["name"])
            return None if theirs is None else [theirs[order.index(dim)] for dim in range(len(shape))]

        operands = [cuts(shape, order, one["shape"], one["axes"])
                    for shape, order, one in zip(shapes, (numbers.lhs_spec, numbers.rhs_spec), op["operands"])]
        return Op(operands, cuts(result, numbers.out_spec, op["shape"], op["axes"]))

    def cuts_of(self, shape: tuple[int, ...], sizes: Sequence[int], axes: Any, name: str) -> Optional[Cuts]:
        """Returns the cuts of an array of the program, where the plan has its elements as `sizes`. None: partial or not known."""
        if axes is None or math.prod(shape) != math.prod(sizes):
            return None
        axes = [[axis for axis in names if axis in self.ranks or ":" in axis] for names in axes]
        spec, why = dimensions(shape, sizes, axes, dict(self.ranks))
        if spec is None:
            self.notes[f"{name}: {why}; its operands decide how it is cut"] = None
            return None
        return [() if one is None else (one,) if isinstance(one, str) else one for one in spec]
