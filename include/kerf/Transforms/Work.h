// SPDX-License-Identifier: Apache-2.0
// Seconds of what an op and a reshard do on one rank: the cost model asked about IR.
#pragma once

#include "kerf/CostModel/Collectives.h"
#include "kerf/Dialect/Kerf/KerfDialect.h"

namespace kerf {

/// A convolution as `batch` products of m x k by k x n: one for each group of channels.
struct ProductSizes {
  double m, n, k, batch;
};
/// Of any of the convolution ops, from the shapes of its operands and of what it makes.
ProductSizes convolutionSizes(mlir::Operation *op, const Shape &first, const Shape &second, const Shape &made);

/// Bytes of one element; booleans take one.
int64_t bytesPerElement(mlir::Type type);

/// Seconds of the op on local tensors, with what a decomposition adds where the strategy cuts a Decomposed factor.
double opSeconds(mlir::Operation *op, const Rule &rule, const Strategy &strategy, const OpSharding &sharding,
                 const CollectiveModel &collectives);

/// Seconds of the cheapest way between two shardings; +inf where there is none.
double secondsToReshard(const CollectiveModel &collectives, const Shape &shape, int64_t elementBytes,
                        const Sharding &from, const Sharding &to);

/// StepPrice of the cluster.
StepPrice priceOn(const CollectiveModel &collectives);

/// Seconds of one op of the device level: a kernel, or a collective.
double deviceOpSeconds(mlir::Operation *op, const CollectiveModel &collectives);

} // namespace kerf
