// SPDX-License-Identifier: Apache-2.0
// The cost model applied to IR: the seconds that ops and reshards take on one rank.
#pragma once

#include "kerf/CostModel/Collectives.h"
#include "kerf/Dialect/Kerf/KerfDialect.h"

namespace kerf {

/// Returns the seconds of an op on one rank's shards (`sharding`). Where `strategy` shards a Decomposed factor of
/// `rule`, the result includes the collectives that the decomposition adds.
double opSeconds(mlir::Operation *op, const Rule &rule, const Strategy &strategy, const OpSharding &sharding,
                 const CollectiveModel &collectives);

/// Returns the seconds of the cheapest sequence of collectives that changes the sharding of a tensor of `shape` from
/// `from` to `to`; infinity where no sequence does.
double secondsToReshard(const CollectiveModel &collectives, const Shape &shape, int64_t elementBytes,
                        const Sharding &from, const Sharding &to);

/// Returns the price function of reshard steps in seconds on the cluster of `collectives`.
StepPrice stepPriceFor(const CollectiveModel &collectives);

/// Returns the seconds of one op of the device level, which is a kernel or a collective. `moreBytes` are bytes that the
/// kernel of an op with work reads besides the op's operands.
double deviceOpSeconds(mlir::Operation *op, const CollectiveModel &collectives, double moreBytes = 0);

} // namespace kerf
