// SPDX-License-Identifier: Apache-2.0
// Measurement of collectives between ranks that are threads of this process.
#pragma once

#include "kerf/Profile/Profile.h"
#include "kerf/Sharding/Sharding.h"
#include <nlohmann/json.hpp>

namespace kerf::profile {

/// The local shapes of a collective's operand and result, and its attributes.
struct CollectiveShapes {
  Shape from, to;
  nlohmann::ordered_json attrs;
};
/// Returns local f32 tensors for which the collective's size, as the cost model counts it, is `bytes`.
CollectiveShapes collectiveShapes(Collective collective, int64_t ranks, int64_t bytes);

/// Measures the seconds that one call of a collective adds to `ranks` ranks that alternate between computing and
/// calling it, as in a training step; waking up and waiting for each other is included. The result is the 30th
/// percentile of ten rounds with the calls, minus that of rounds without them. Measuring takes about `budgetSeconds`.
/// `bytes` is the approximate size, counted as in CollectiveSample and rounded so that all ranks have equal parts.
/// Fails if the runtime refuses the collective.
Result<CollectiveSample> measureCollective(Collective collective, int64_t ranks, int64_t bytes, double budgetSeconds);

} // namespace kerf::profile
