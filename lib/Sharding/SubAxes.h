// SPDX-License-Identifier: Apache-2.0
// Two shardings may cut one mesh axis at different places. The functions here split the axes at the cuts of
// both, so that a reshard moves complete sub-axes: a reshard from ["x"] to ["x":(1)2] on "x"=6 has the sub-axes
// x:(1)2 and x:(2)3.
#pragma once

#include "kerf/Sharding/Sharding.h"

namespace kerf {

/// The places at which each mesh axis is cut, indexed by axis. A place is the product of the sizes of the sub-axes
/// before the cut; the places of an axis are sorted.
using Boundaries = std::vector<std::vector<int64_t>>;

/// Adds the places at which the sub-axes `refs` begin and end to `boundaries`.
void addBoundaries(Boundaries &boundaries, std::span<const AxisRef> refs);
/// Returns whether each place divides the next one, so that the parts between the places are mixed-radix digits
/// of the axis.
bool isChain(const std::vector<int64_t> &places);
/// Returns `refs` with every sub-axis split at the places of `boundaries` that lie inside it.
std::vector<AxisRef> split(std::span<const AxisRef> refs, const Boundaries &boundaries);

/// The places at which the two shardings of a reshard cut the mesh axes.
struct CommonBoundaries {
  Boundaries source, target;  // places for the sharding before and after the reshard
  std::vector<bool> isCommon; // by axis: whether both shardings have the same places on the axis
};
/// Returns the places at which to split the axes of two canonical shardings. If the places of both together form a
/// chain (isChain), both shardings get all places of the axis. Otherwise each sharding keeps its own places and the
/// sub-axes overlap; example: an axis of size 6 that `from` cuts as (1)2 and `to` as (1)3.
CommonBoundaries commonBoundaries(const Mesh &mesh, const Sharding &from, const Sharding &to);

/// Appends `ref` to `merged`, a list that mergeParts returned, and merges it with the last entry if the
/// two are adjacent.
void appendMerged(std::vector<AxisRef> &merged, const AxisRef &ref);

/// Returns whether two sub-axes of the same axis have a digit in common.
bool overlap(const AxisRef &a, const AxisRef &b);

} // namespace kerf
