// SPDX-License-Identifier: Apache-2.0
// Seconds of what an op and a reshard do on one rank: the cost model asked about IR.
#pragma once

#include "kerf/CostModel/Collectives.h"
#include "kerf/Dialect/Kerf/KerfDialect.h"

namespace kerf {

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
