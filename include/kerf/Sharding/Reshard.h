// SPDX-License-Identifier: Apache-2.0
// The cheapest sequence of collectives that moves a tensor from one sharding to another.
#pragma once

#include "kerf/Sharding/Sharding.h"
#include "kerf/Support/Collectives.h"
#include <functional>

namespace kerf {

/// What each step does with local tensors is fixed here once, for the partitioner, the runtime and the cost model.
/// `before` is the sharding that the step starts from (`from`, or the `after` of the step before), n = ways(axes), and
/// the group of a rank is groupOf(mesh, axes, rank), ordered by position in it. Padding has unspecified content before
/// and after every step, and is never read into an element that exists.
///
///   <"x"=2>, 5 elements cut into chunks of 3 (rank 1 holds 2 and one of padding)
///     all-gather:       concatenates the group's local tensors along `dim` in order of position, then trims the
///     dimension to
///                       localExtent(after): to 5 here, where no axis is left.
///     all-to-all:       pads `otherDim` to n * after.dims[otherDim].chunk and splits it into n pieces; piece p goes to
///     position p;
///                       what arrives is concatenated along `dim` in order of position and trimmed as in all-gather.
///     reduce-scatter:   pads `dim` to n * after.dims[dim].chunk, combines, and position p keeps the p-th of n pieces.
///     all-reduce:       combines; the local shape stays.
///     local slice:      position p keeps [p*chunk, (p+1)*chunk) of the local dimension, chunk = after.dims[dim].chunk;
///     what lies
///                       past the end is padding.
///     permute:          the local tensor of rank permuteSource(mesh, before, after, rank) comes to `rank`; the local
///     shape stays.
enum class ReshardStepKind {
  AllReduce,         // partial over `axes` -> not partial
  ReduceScatter,     // partial over `axes` -> `dim` cut by them (appended as the minor axes)
  AllGather,         // `dim` loses its minor axes `axes`; the result is trimmed to the extent that `after` says
  AllToAll,          // `dim` loses its minor axes `axes`, `otherDim` gains them as minor axes
  CollectivePermute, // the same local shape, other ranks hold it (axes of a dimension in another order or replaced by
                     // others)
  LocalSlice,        // `dim` gains `axes` as minor axes; no communication
};
std::string_view toString(ReshardStepKind kind);
/// The collective that does the step; null for a local one.
const CollectiveOp *collectiveOf(ReshardStepKind kind);

struct ReshardStep {
  ReshardStepKind kind;
  std::vector<AxisRef> axes;   // the group that takes part, major first
  int dim = -1, otherDim = -1; // -1 where the kind has none
  Sharding after;              // the sharding that the step leaves; it satisfies checkSharding
  bool operator==(const ReshardStep &) const = default;
};

/// Seconds (or any additive price >= 0) of one step: `bytesIn` and `bytesOut` are the local bytes before and after it;
/// the step's `after` may not be there yet.
using StepPrice = std::function<double(const ReshardStep &, int64_t bytesIn, int64_t bytesOut)>;

/// Bytes that one rank receives in the step: the price used where there is no cluster, and what the tests bound.
///   all-gather, all-to-all, permute, reduce-scatter, all-reduce by rings over n ranks:
///   out*(n-1)/n, in*(n-1)/n, in, in*(n-1)/n, 2*in*(n-1)/n;   local slice: 0.
double bytesReceived(const ReshardStep &step, int64_t bytesIn, int64_t bytesOut);

/// The cheapest sequence by `price`: a shortest path over shardings; ties by fewer steps, then by order of enumeration.
/// Its last step's `after` is `to` as given; it is empty when both place the same elements on every rank (equal
/// canonical forms). Never dearer than all-reducing, gathering every dimension that differs, and slicing.
///
/// The path uses only axes and dimensions that `from` or `to` uses; among such paths it is the cheapest where the axes
/// that move are at most three parts (any mesh of three whole axes) and each position's chunk divides. Axes that
/// already lie where `to` wants them, major first and with its chunk, stay; where more parts move, a dimension gains
/// only those that it has in `to`, or exchanges some by a permute. A change that is only local slices, or is one
/// all-gather or all-reduce over one axis, is taken without pricing detours. A cut dimension of chunk c can gain n ways
/// only where n divides c; an uncut one gets the chunk that leads to `to`'s.
///
/// `from` may be partial. A partial `to` needs a `from` that is partial in the same kind over the same axes or more;
/// the reverse (rank 0 of the group keeps the value) is refused. Both shardings must satisfy checkSharding.
Result<std::vector<ReshardStep>> planReshard(const Mesh &mesh, const Shape &shape, int64_t elementBytes,
                                             const Sharding &from, const Sharding &to, const StepPrice &price);
/// False when no sequence exists: `to` is partial where `from` is not, or in another kind.
bool canReshard(const Sharding &from, const Sharding &to);

/// The axes along which a permute from `before` to `after` moves data: those whose digits mean something else in
/// `after`.
std::vector<AxisRef> permuteAxes(const Mesh &mesh, const Sharding &before, const Sharding &after);
/// The rank whose local tensor under `before` is the one that `after` assigns to `rank`, within the group of
/// permuteAxes. A rank that holds its own is its own source; the other ranks that need one chunk and the ranks that
/// hold it in vain are matched in order of position, so that every rank sends to exactly one. Asks the two to have the
/// same local shape and partial axes.
int64_t permuteSource(const Mesh &mesh, const Sharding &before, const Sharding &after, int64_t rank);

} // namespace kerf
