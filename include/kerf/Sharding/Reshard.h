// SPDX-License-Identifier: Apache-2.0
// Resharding: the cheapest sequence of collectives and local slices that moves a tensor from one sharding to another.
#pragma once

#include "kerf/Sharding/Sharding.h"
#include "kerf/Support/Collectives.h"
#include <functional>

namespace kerf {

/// The kinds of steps of a reshard. The definitions below are the contract that the partitioner, the runtime and the
/// cost model share. `before` and `after` are the shardings before and after the step, n is the size of each process
/// group, shardCount(axes), and p is the position of a rank in its group, groupOf(mesh, axes, rank). Padding has
/// unspecified content before and after every step, and no step copies padding into an element that exists.
///
///   all-gather:      concatenates the group's local tensors along `dim` in order of position and trims `dim` to
///                    localExtent(after). Example: 5 elements on <"x"=2> in chunks of 3 are trimmed to 5.
///   all-to-all:      pads `otherDim` to n * after.dims[otherDim].chunk, splits it into n pieces and sends piece p to
///                    position p; concatenates the received pieces along `dim` and trims `dim` as all-gather does.
///   reduce-scatter:  pads `dim` to n * after.dims[dim].chunk and combines the group's local tensors; position p keeps
///                    piece p of the n pieces.
///   all-reduce:      combines the group's local tensors; the local shape does not change.
///   local slice:     position p keeps [p*chunk, (p+1)*chunk) of the local dimension, chunk = after.dims[dim].chunk;
///                    elements past the end are padding.
///   permute:         `rank` receives the local tensor of permuteSource(mesh, before, after, rank); the local shape
///                    does not change.
enum class ReshardStepKind {
  AllReduce,         // a value that is partial over `axes` is summed (or max/min) and is no longer partial over them
  ReduceScatter,     // as AllReduce, but afterwards `dim` is cut by `axes`, which become its minor axes
  AllGather,         // `dim` loses its minor axes `axes`
  AllToAll,          // `dim` loses its minor axes `axes`, and `otherDim` gains them as minor axes
  CollectivePermute, // local tensors move to other ranks: the axes of a dimension are reordered or replaced by others
  LocalSlice,        // `dim` gains `axes` as minor axes; no communication
};
/// Returns the name of a kind of step in error messages and tests: "all_gather", "local_slice", ...
std::string_view toString(ReshardStepKind kind);
/// Returns the collective operator that carries out a kind of step, or null for a local slice,
/// which communicates nothing.
const CollectiveOp *collectiveOf(ReshardStepKind kind);

/// One step of a reshard.
struct ReshardStep {
  ReshardStepKind kind;        // collective or local slice that the step carries out
  std::vector<AxisRef> axes;   // mesh axes of the communicating groups (or of the slice), most significant first
  int dim = -1, otherDim = -1; // tensor dimensions that the step changes; -1 if the kind of step has none
  Sharding after;              // sharding of the tensor after the step; satisfies checkSharding
  bool operator==(const ReshardStep &) const = default;
};

/// A function that returns the price of one step: seconds, or any other additive cost of 0 or more. `bytesIn` and
/// `bytesOut` are the sizes of a rank's local tensor before and after the step. The function must not read
/// ReshardStep::after, which the search may not have filled in yet.
using StepPrice = std::function<double(const ReshardStep &, int64_t bytesIn, int64_t bytesOut)>;

/// Returns the bytes that one rank receives in a step, with ring algorithms over n ranks. This is the price of a step
/// when no cluster is given. With `in` = bytesIn and `out` = bytesOut:
///   all-gather out*(n-1)/n, all-to-all in*(n-1)/n, permute in, reduce-scatter in*(n-1)/n, all-reduce 2*in*(n-1)/n,
///   local slice 0.
double bytesReceived(const ReshardStep &step, int64_t bytesIn, int64_t bytesOut);

/// Returns the cheapest sequence of steps, by `price`, that takes a tensor from the sharding `from` to the sharding
/// `to`. The search is a shortest path over shardings; equally cheap paths are ordered by number of steps, then by
/// order of enumeration. The last step's `after` equals `to`. The sequence is empty if both shardings place the same
/// elements on every rank (equal canonical forms). It is never more expensive than an all-reduce, then a gather of
/// every dimension that differs, then local slices.
///
/// Limits of the search:
/// - A path uses only axes and dimensions that `from` or `to` uses. Among such paths it is the cheapest if at most
///   three parts of axes move (always true for a mesh of three axes used in full) and each chunk divides evenly.
/// - Axes that `from` and `to` share as the most significant axes of a dimension, with the same chunk, stay in place.
///   If more than three parts move, a dimension gains only axes that it has in `to`, or exchanges axes by a permute.
/// - A change that needs only local slices, or exactly one all-gather or all-reduce over one axis, is taken without
///   pricing alternatives.
/// - A cut dimension of chunk c gains axes of n shards only if n divides c; an uncut dimension gets the chunk that
///   leads to the chunk of `to`.
///
/// `from` may be partial. A partial `to` requires that `from` is partial with the same reduction over the same axes or
/// more; otherwise the function fails, because no rank could supply the missing summands. Both shardings must satisfy
/// checkSharding. `elementBytes` is the size of one element in bytes.
Result<std::vector<ReshardStep>> planReshard(const Mesh &mesh, const Shape &shape, int64_t elementBytes,
                                             const Sharding &from, const Sharding &to, const StepPrice &price);
/// Returns whether a reshard from `from` to `to` exists. It does not if `to` is partial over an axis over which `from`
/// is not partial, or partial with another reduction.
bool canReshard(const Sharding &from, const Sharding &to);

/// Returns the mesh axes along which a permute from `before` to `after` moves data: the axes that cut another
/// dimension, or another position of a dimension, in `after` than in `before`.
std::vector<AxisRef> permuteAxes(const Mesh &mesh, const Sharding &before, const Sharding &after);
/// Returns the rank that sends its local tensor to `rank` in a permute from `before` to `after`. Sender and receiver
/// differ only along permuteAxes. A rank that already has its chunk sends to itself. If several ranks have the same
/// chunk, senders and receivers are paired in order of position, so that every rank sends to exactly one rank. Both
/// shardings must have the same local shape and the same partial axes.
int64_t permuteSource(const Mesh &mesh, const Sharding &before, const Sharding &after, int64_t rank);

} // namespace kerf
