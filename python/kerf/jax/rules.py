# SPDX-License-Identifier: Apache-2.0
"""Sharding rules of JAX's primitives: which dimensions of operands and results are cut together.

A rule numbers the dimensions that can be cut (its *factors*). Matrix products `bij,jk->bik` have the operands
[[0, 1, 2], [2, 3]] and the result [0, 1, 3]. Where an axis of the mesh cuts factor 2, which no result has, the ranks'
results have to be added up. A dimension that is None stays whole.
"""
from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any, Optional

import numpy as np

from .placed import groups

Dims = list[Optional[int]]
Shapes = Sequence[tuple[int, ...]]


def as_is(params: dict[str, Any], operands: Shapes, results: Shapes) -> dict[str, Any]:
    """Returns the parameters of a primitive that do not depend on shapes."""
    return params


@dataclasses.dataclass
class Rule:
    """How a primitive can be cut."""

    operands: list[Dims]
    results: list[Dims]
    combine: str = "sum"  # the reduction over ranks that cut a factor which results lack: sum, max or min
    each: tuple[int, ...] = ()  # operands in each of which alone the result is linear
    together: tuple[int, ...] = ()  # operands in which together the result is linear
    begins: Optional[int] = None  # the operand to which the reduction adds
    # The primitive's parameters for one rank: from those of the program, and the shapes of the rank's operands and results.
    params: Callable[[dict[str, Any], Shapes, Shapes], dict[str, Any]] = as_is


def result_shape(name: str) -> Callable[[dict[str, Any], Shapes, Shapes], dict[str, Any]]:
    """Returns the rule for parameters of which one, `name`, is the shape of the result."""
    return lambda params, operands, results: {**params, name: results[0]}


ELEMENTWISE = set("""
abs acos acosh add add_any and asin asinh atan atan2 atanh cbrt ceil clamp convert_element_type copy copy_p cos cosh div eq erf erf_inv erfc
exp exp2 expm1 floor ge gt integer_pow is_finite le lgamma digamma log log1p logistic lt max min mul ne neg nextafter not or
population_count pow real imag reduce_precision rem round rsqrt select_n shift_left shift_right_arithmetic shift_right_logical sign sin sinh
sqrt square stop_gradient sub tan tanh xor
""".split())
EACH = {"mul": (0, 1), "div": (0,), "neg": (0,), "copy": (0,), "copy_p": (0,), "stop_gradient": (0,)}
TOGETHER = {"add": (0, 1), "sub": (0, 1), "add_any": (0, 1)}
CUMULATIVE = ("cumsum", "cumprod", "cummax", "cummin", "cumlogsumexp")


def elementwise(equation: Any, shapes: Shapes) -> Optional[Rule]:
    """Returns the rule of a primitive that computes each element of its result from the same elements of its operands."""
    shape = equation.outvars[0].aval.shape
    if any(one and len(one) != len(shape) for one in shapes):
        return None
    name = equation.primitive.name
    each = EACH.get(name, ())
    if name == "convert_element_type":
        old, new = np.dtype(equation.invars[0].aval.dtype), np.dtype(equation.outvars[0].aval.dtype)
        each = (0,) if old == new or (old.kind, new.kind) == ("f", "f") and old.itemsize < new.itemsize else ()
    operands: list[Dims] = [[dim if size == shape[dim] else None for dim, size in enumerate(one)] for one in shapes]
    return Rule(operands, [list(range(len(shape)))], each=each, together=TOGETHER.get(name, ()))


def reduction(equation: Any, shapes: Shapes) -> Rule:
    axes, name = equation.params["axes"], equation.primitive.name
    combine = {"reduce_sum": "sum", "reduce_max": "max", "reduce_min": "min"}.get(name)
    operand: Dims = [None if combine is None and dim in axes else dim for dim in range(len(shapes[0]))]
    result: Dims = [dim for dim in range(len(shapes[0])) if dim not in axes]
    return Rule([operand], [result], combine=combine or "sum", each=(0,) if name == "reduce_sum" else ())


def broadcast_in_dim(equation: Any, shapes: Shapes) -> Optional[Rule]:
    if len(shapes) != 1:
        return None
    params = equation.params
    shape = params["shape"]
    operand: Dims = [at if size == shape[at] else None for size, at in zip(shapes[0], params["broadcast_dimensions"])]
    return Rule([operand], [list(range(len(shape)))], each=(0,), params=result_shape("shape"))


def reshape(equation: Any, shapes: Shapes) -> Optional[Rule]:
    if equation.params.get("dimensions") is not None or len(shapes) != 1 or 0 in shapes[0]:
        return None
    new = equation.outvars[0].aval.shape
    operand: Dims = [None] * len(shapes[0])
    result: Dims = [None] * len(new)
    at = 0
    for first, count, many in groups(shapes[0], new):
        ours = [dim for dim in range(first, first + count) if shapes[0][dim] > 1]
        theirs = [dim for dim in range(at, at + many) if new[dim] > 1]
        if ours and theirs:  # the outermost dimensions of both are cut into the same runs of elements
            operand[ours[0]] = result[theirs[0]] = first
        at += many
    return Rule([operand], [result], each=(0,), params=result_shape("new_sizes"))


def squeeze(equation: Any, shapes: Shapes) -> Rule:
    gone = {dim % len(shapes[0]) for dim in equation.params["dimensions"]}
    operand: Dims = [None if dim in gone else dim for dim in range(len(shapes[0]))]
    return Rule([operand], [[dim for dim in operand if dim is not None]], each=(0,))


def transpose(equation: Any, shapes: Shapes) -> Rule:
    return Rule([list(range(len(shapes[0])))], [list(equation.params["permutation"])], each=(0,))


def dot_general(equation: Any, shapes: Shapes) -> Rule:
    (left_inside, right_inside), (left_batch, right_batch) = equation.params["dimension_numbers"]
    left: Dims = list(range(len(shapes[0])))
    right: Dims = [len(left) + dim for dim in range(len(shapes[1]))]
    for ours, theirs in (*zip(left_inside, right_inside), *zip(left_batch, right_batch)):
        right[theirs] = left[ours]
    result = [left[dim] for dim in left_batch]
    result += [factor for dim, factor in enumerate(left) if dim not in (*left_inside, *left_batch)]
    result += [factor for dim, factor in enumerate(right) if dim not in (*right_inside, *right_batch)]
    return Rule([left, right], [result], each=(0, 1))


def convolution(equation: Any, shapes: Shapes) -> Rule:
    params = equation.params
    numbers = params["dimension_numbers"]
    image: Dims = [None] * len(shapes[0])
    kernel: Dims = [None] * len(shapes[1])
    result: Dims = [None] * len(shapes[0])
    if params["batch_group_count"] == 1:
        image[numbers.lhs_spec[0]] = result[numbers.out_spec[0]] = 0
        if params["feature_group_count"] == 1:
            kernel[numbers.rhs_spec[0]] = result[numbers.out_spec[1]] = 1
            image[numbers.lhs_spec[1]] = kernel[numbers.rhs_spec[1]] = 2
    return Rule([image, kernel], [result], each=(0, 1))


def iota(equation: Any, shapes: Shapes) -> Optional[Rule]:
    if shapes:
        return None
    params = equation.params
    return Rule([], [[None if dim == params["dimension"] else dim for dim in range(len(params["shape"]))]], params=result_shape("shape"))


def gather(equation: Any, shapes: Shapes) -> Optional[Rule]:
    numbers, sizes = equation.params["dimension_numbers"], equation.params["slice_sizes"]
    table: Dims = [None] * len(shapes[0])
    rows: Dims = [*range(len(shapes[1]) - 1), None]
    window = [dim for dim in range(len(table)) if dim not in (*numbers.collapsed_slice_dims, *numbers.operand_batching_dims)]
    result: Dims = []
    batch = iter(rows[:-1])
    inner = iter(window)
    for dim in range(len(equation.outvars[0].aval.shape)):
        if dim not in numbers.offset_dims:
            result.append(next(batch))
            continue
        at = next(inner)
        if sizes[at] == shapes[0][at] and at not in numbers.start_index_map:
            table[at] = len(rows) + at
        result.append(table[at])
    for ours, theirs in zip(numbers.operand_batching_dims, numbers.start_indices_batching_dims):
        table[ours] = rows[theirs]

    def local(params: dict[str, Any], operands: Shapes, results: Shapes) -> dict[str, Any]:
        cut = [size if table[dim] is None or dim not in window else operands[0][dim] for dim, size in enumerate(sizes)]
        return {**params, "slice_sizes": tuple(cut)}

    return Rule([table, rows], [result], each=(0,), params=local)


def scatter_add(equation: Any, shapes: Shapes) -> Optional[Rule]:
    numbers = equation.params["dimension_numbers"]
    table: Dims = [None] * len(shapes[0])
    rows: Dims = [*range(len(shapes[1]) - 1), None]
    window = iter(dim for dim in range(len(table)) if dim not in (*numbers.inserted_window_dims, *numbers.operand_batching_dims))
    batch = iter(rows[:-1])
    updates: Dims = []
    for dim, size in enumerate(shapes[2]):
        if dim not in numbers.update_window_dims:
            updates.append(next(batch))
            continue
        at = next(window)
        if size == shapes[0][at] and at not in numbers.scatter_dims_to_operand_dims:
            table[at] = len(rows) + at
        updates.append(table[at])
    for ours, theirs in zip(numbers.operand_batching_dims, numbers.scatter_indices_batching_dims):
        table[ours] = rows[theirs]
    return Rule([table, rows, updates], [list(table)], together=(0, 2), begins=0)


def sliced(equation: Any, shapes: Shapes) -> Rule:
    """Returns the rule of slices, paddings, concatenations, reversals, running sums and sorts: dimensions that these change stay whole."""
    params, name = equation.params, equation.primitive.name
    results = [var.aval.shape for var in equation.outvars]
    rank = len(results[0])
    if name in CUMULATIVE:
        changed = {params["axis"]}
    elif name == "rev":
        changed = set(params["dimensions"])
    elif name in ("concatenate", "sort"):
        changed = {params["dimension"]}
    elif name == "split":
        changed = {params["axis"]}
    else:
        changed = {dim for dim in range(rank) if any(one[dim] != results[0][dim] for one in shapes if len(one) == rank)}
    if name == "slice":
        changed |= {dim for dim, start in enumerate(params["start_indices"]) if start or (params["strides"] or [1] * rank)[dim] != 1}
    elif name == "pad":
        changed |= {dim for dim, padding in enumerate(params["padding_config"]) if any(padding)}
    plain: Dims = [None if dim in changed else dim for dim in range(rank)]
    linear = {"rev": (0,), "slice": (0,), "cumsum": (0,)}.get(name, ())

    def local(params: dict[str, Any], operands: Shapes, results: Shapes) -> dict[str, Any]:
        if name == "slice":
            limits = [limit if dim in changed else results[0][dim] for dim, limit in enumerate(params["limit_indices"])]
            return {**params, "limit_indices": tuple(limits)}
        return {**params, "slice_sizes": results[0]} if name == "dynamic_slice" else params

    operands: list[Dims] = [plain if len(one) == rank else [None] * len(one) for one in shapes]
    together = tuple(range(len(shapes))) if name == "concatenate" else ()
    return Rule(operands, [plain] * len(results), each=linear, together=together, params=local)


RULES: dict[str, Callable[[Any, Shapes], Optional[Rule]]] = {
    **{name: elementwise for name in ELEMENTWISE},
    **{name: reduction for name in ("reduce_sum", "reduce_max", "reduce_min", "reduce_prod", "reduce_and", "reduce_or", "argmax", "argmin")},
    **{name: sliced for name in (*CUMULATIVE, "rev", "concatenate", "sort", "split", "slice", "dynamic_slice", "dynamic_update_slice", "pad")},
    "broadcast_in_dim": broadcast_in_dim, "reshape": reshape, "squeeze": squeeze, "transpose": transpose, "dot_general": dot_general,
    "conv_general_dilated": convolution, "iota": iota, "gather": gather, "scatter-add": scatter_add}


def rule_of(equation: Any) -> Optional[Rule]:
    """Returns the rule of an equation of a program. None: the equation is computed as a whole by every rank."""
    make = RULES.get(equation.primitive.name)
    return make(equation, [tuple(var.aval.shape) for var in equation.invars]) if make else None
