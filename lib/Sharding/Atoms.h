// SPDX-License-Identifier: Apache-2.0
// Two shardings may cut one mesh axis at different places. Atoms are the parts into which both cut it together, so that
// a reshard moves whole atoms: from ["x"] and to ["x":(1)2] on "x"=6 have the atoms x:(1)2 and x:(2)3.
#pragma once

#include "kerf/Sharding/Sharding.h"

namespace kerf {

/// The places where an axis is cut: sorted products of the sizes of the parts before the cut.
using Boundaries = std::vector<std::vector<int64_t>>; // [axis]

/// Adds the places where `refs` begin and end.
void addBoundaries(Boundaries &boundaries, std::span<const AxisRef> refs);
/// Whether each place divides the next, so that the parts between them are mixed-radix digits of the axis.
bool isChain(const std::vector<int64_t> &places);
/// `refs` cut at every place that falls inside one.
std::vector<AxisRef> split(std::span<const AxisRef> refs, const Boundaries &boundaries);

/// The places where two canonical shardings cut the axes, for each of them. Where the places of both together are a
/// chain, both get all of them; else (axis of size 6 cut as (1)2 here and as (1)3 there) each keeps its own, and their
/// atoms overlap.
struct CommonBoundaries {
  Boundaries ofFrom, ofTo;
  std::vector<bool> isCommon; // [axis]
};
CommonBoundaries commonBoundaries(const Mesh &mesh, const Sharding &from, const Sharding &to);

/// One more part behind those that mergeParts made.
void appendMerged(std::vector<AxisRef> &merged, const AxisRef &ref);

/// Whether two parts share a digit of an axis.
bool overlap(const AxisRef &a, const AxisRef &b);

} // namespace kerf
