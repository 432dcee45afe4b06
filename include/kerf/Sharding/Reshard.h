// SPDX-License-Identifier: Apache-2.0
// The cheapest sequence of collectives that moves a tensor from one sharding to another.
#pragma once

#include "kerf/Sharding/Sharding.h"
#include <functional>

namespace kerf {

enum class ReshardStepKind {
  AllReduce,         // partial over `axes` -> not partial
  ReduceScatter,     // partial over `axes` -> `dim` cut by them (appended as the minor axes)
  AllGather,         // `dim` loses its minor axes `axes`; the result is trimmed to the extent that `after` says
  AllToAll,          // `dim` loses its minor axes `axes`, `otherDim` gains them as minor axes
  CollectivePermute, // the same local shape, other ranks hold it (axes of a dimension in another order or replaced by others)
  LocalSlice,        // `dim` gains `axes` as minor axes; no communication
};
std::string_view toString(ReshardStepKind kind);

struct ReshardStep {
  ReshardStepKind kind;
  std::vector<AxisRef> axes; // the group that takes part, major first
  int dim = -1, otherDim = -1;
  Sharding after; // the sharding that the step leaves
  bool operator==(const ReshardStep &) const = default;
};

/// Seconds (or any additive price > 0) of one step: `bytesIn` and `bytesOut` are the local bytes before and after it.
using StepPrice = std::function<double(const ReshardStep &, int64_t bytesIn, int64_t bytesOut)>;

/// Bytes that one rank receives in the step: the price used where there is no cluster, and what the tests bound.
///   all-gather, all-to-all, permute, reduce-scatter, all-reduce by rings over n ranks:
///   out*(n-1)/n, in*(n-1)/n, in, in*(n-1)/n, 2*in*(n-1)/n;   local slice: 0.
double bytesReceived(const ReshardStep &step, int64_t bytesIn, int64_t bytesOut);

/// The cheapest sequence by `price` (a shortest path over shardings; ties by fewer steps, then by order of enumeration).
/// Never dearer than gathering everything and slicing. `from` may be partial; a partial `to` is only legal when `from` is
/// partial over the same axes (or more), or is not partial there at all and then rank 0 of the group keeps the value: not
/// supported here and refused. Both shardings must satisfy checkSharding.
Result<std::vector<ReshardStep>> planReshard(const Mesh &mesh, const Shape &shape, int64_t elementBytes, const Sharding &from,
                                             const Sharding &to, const StepPrice &price);
/// False when no sequence exists: `to` is partial where `from` is not.
bool canReshard(const Sharding &from, const Sharding &to);

} // namespace kerf
