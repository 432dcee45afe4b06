// SPDX-License-Identifier: Apache-2.0
// Measurement of collectives between ranks that are threads of this process.
#pragma once

#include "kerf/Profile/Profile.h"

namespace kerf::profile {

/// Measures the seconds that one call of a collective adds to `ranks` ranks that alternate between computing and
/// calling it, as in a training step; waking up and waiting for each other is included. The result is the 30th
/// percentile of ten rounds with the calls, minus that of rounds without them. Measuring takes about `budgetSeconds`.
/// `bytes` is the approximate size, counted as in CollectiveSample and rounded so that all ranks have equal parts.
/// Fails if the runtime refuses the collective.
Result<CollectiveSample> measureCollective(Collective collective, int64_t ranks, int64_t bytes, double budgetSeconds);

} // namespace kerf::profile
