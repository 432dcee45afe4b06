# SPDX-License-Identifier: Apache-2.0
"""Arrays of one rank with their layouts, and the collectives that change a layout."""
from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from typing import Any, Optional

import jax
from jax.sharding import PartitionSpec

Ranks = Mapping[str, int]  # the sizes of the axes of a mesh


@dataclasses.dataclass(frozen=True)
class Layout:
    """The way in which the ranks of a mesh hold an array."""

    dims: tuple[tuple[str, ...], ...]  # for each dimension the axes that cut it, outermost first
    partial: tuple[str, ...] = ()  # sorted axes over which the arrays of the ranks have to be added up


def whole(rank: int) -> Layout:
    """Returns the layout of an array of `rank` dimensions that every rank holds as a whole."""
    return Layout(((),) * rank)


def layout_of(spec: PartitionSpec, rank: int) -> Layout:
    """Returns a PartitionSpec for an array of `rank` dimensions as a layout."""
    entries = [*spec, *[None] * (rank - len(spec))]
    return Layout(tuple(() if one is None else (one,) if isinstance(one, str) else tuple(one) for one in entries))


def spec_of(layout: Layout) -> PartitionSpec:
    """Returns a layout without partial sums as a PartitionSpec."""
    return PartitionSpec(*[axes[0] if len(axes) == 1 else axes or None for axes in layout.dims])


def shards(axes: Sequence[str], ranks: Ranks) -> int:
    """Returns into how many parts axes cut a dimension."""
    return math.prod(ranks[axis] for axis in axes)


def local_shape(shape: Sequence[int], layout: Layout, ranks: Ranks) -> tuple[int, ...]:
    """Returns the shape of one rank's part of an array."""
    return tuple(size // shards(axes, ranks) for size, axes in zip(shape, layout.dims))


class Round:
    """One trace of a round of a loop. `loop` identifies the loop."""

    def __init__(self, loop: int, given: Mapping[Kept, Any]) -> None:
        self.loop, self.given = loop, given  # arrays that rounds of earlier loops have kept for this one
        self.values: dict[Place, Value] = {}
        self.counts: dict[tuple[int, ...], int] = {}  # of the values that each equation has made
        self.wanted: dict[Kept, None] = {}  # what this round could take from rounds of earlier loops


# The equation that makes a value, as the positions of the equations that contain it and its own, and a number among the values
# of the equation. A value has the same place in every trace.
Place = tuple[tuple[int, ...], int]
Kept = tuple[int, Place, Layout]  # a value in a layout, with the loop in whose rounds it is made


class Value:
    """An array of the program: the part that this rank holds."""

    def __init__(self, array: Any, layout: Layout, ranks: Ranks, zero: bool = False, twin: Optional[Value] = None) -> None:
        self.array, self.layout, self.ranks = array, layout, ranks
        self.twin = twin  # an earlier value of the same numbers, which was computed with the same layout
        self.number: Any = object() if twin is None else twin.number  # the same for values of the same numbers; an int for constants
        self.argument = False  # whether the array is an argument of the program
        self.received = False  # whether a collective made the array
        self.zero = zero  # whether all elements are zero
        self.asked: set[Layout] = set()  # the layouts in which the array was read
        self.round: Optional[Round] = None  # the round of a loop in which the array was made
        self.place: Place = ((), 0)  # in the round
        self._known = {layout: array}

    def to(self, layout: Layout) -> Any:
        """Returns this rank's part in another layout. Asked twice for a layout, or after its twin, runs the collectives once."""
        self.asked.add(layout)
        if layout not in self._known:
            earlier = self.twin.known(layout, self.round, receives(self.layout, layout)) if self.twin else None
            self._known[layout] = change(self.array, self.layout, layout, self.ranks) if earlier is None else earlier
        return self._known[layout]

    def known(self, layout: Layout, reader: Optional[Round], dear: bool = True) -> Any:
        """Returns the array in a layout if a reader in a round of a loop can have it without a collective, else None.

        A reader can have an array that another loop has made if that loop keeps the array. This function asks the loop to keep it where `dear` is
        true: where the reader would otherwise need a collective.
        """
        if layout in self._known and self.round is reader:
            return self._known[layout]
        if layout in self._known and dear and self.round is not None and reader is not None:
            key = (self.round.loop, self.place, layout)
            reader.wanted[key] = None
            return reader.given.get(key)
        return self.twin.known(layout, reader, dear) if self.twin else None

    def summed(self) -> Layout:
        """Returns the layout of the array after the sum of its partial arrays."""
        return Layout(self.layout.dims)


def receives(old: Layout, new: Layout) -> bool:
    """Returns whether a change of layout needs a collective, and not only a cut."""
    lost = any(axis not in theirs for ours, theirs in zip(old.dims, new.dims) for axis in ours)
    return lost or any(axis not in new.partial for axis in old.partial)


def change(array: Any, old: Layout, new: Layout, ranks: Ranks) -> Any:
    """Returns an array in another layout: first slices and sums, which make arrays smaller, then exchanges and gathers."""
    dims = [list(axes) for axes in old.dims]
    sums = [axis for axis in old.partial if axis not in new.partial]
    unsummed = set(old.partial)

    def place(axis: str) -> int:
        """Returns the dimension that the new layout cuts next by an axis, or -1."""
        for dim, axes in enumerate(dims):
            target = new.dims[dim]
            if len(axes) < len(target) and list(target[:len(axes)]) == axes and target[len(axes)] == axis:
                return dim
        return -1

    def cut_where_held(array: Any) -> Any:
        """Returns the array after all cuts by axes along which the ranks hold the same array."""
        again = True
        while again:
            again = False
            for axis in ranks:
                dim = place(axis)
                if dim < 0 or axis in unsummed or any(axis in axes for axes in dims):
                    continue
                size = array.shape[dim] // ranks[axis]
                array = jax.lax.dynamic_slice_in_dim(array, jax.lax.axis_index(axis) * size, size, dim)
                dims[dim].append(axis)
                again = True
        return array

    array = cut_where_held(array)
    for axis in [one for one in sums if place(one) >= 0]:
        dim = place(axis)
        if dim >= 0:
            array = jax.lax.psum_scatter(array, axis, scatter_dimension=dim, tiled=True)
            dims[dim].append(axis)
            sums.remove(axis)
            unsummed.remove(axis)
    if sums:
        array = jax.lax.psum(array, tuple(sums))
        unsummed -= set(sums)
    while [tuple(axes) for axes in dims] != list(new.dims):
        array = cut_where_held(array)
        surplus = [dim for dim, axes in enumerate(dims) if axes and tuple(axes) != new.dims[dim][:len(axes)]]
        moved = [dim for dim in surplus if place(dims[dim][-1]) >= 0]
        if moved:
            to = place(dims[moved[0]][-1])
            axis = dims[moved[0]].pop()
            array = jax.lax.all_to_all(array, axis, split_axis=to, concat_axis=moved[0], tiled=True)
            dims[to].append(axis)
        elif surplus:
            array = jax.lax.all_gather(array, dims[surplus[0]].pop(), axis=surplus[0], tiled=True)
    for axis in new.partial:
        if axis not in old.partial:
            array = jax.numpy.where(jax.lax.axis_index(axis) == 0, array, jax.numpy.zeros((), array.dtype))
    return array
