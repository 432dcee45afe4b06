// SPDX-License-Identifier: Apache-2.0
// Collectives between ranks that are threads of this process, timed.
#pragma once

#include "kerf/Profile/Profile.h"

namespace kerf::profile {

/// What one call adds to ranks that all compute for a while, call, compute, ...: waking up and waiting for each other
/// included, as in a step. The third quickest of ten rounds with, less that of rounds without. About `bytes`,
/// as CollectiveSample counts them: what all ranks have equal parts of.
Result<CollectiveSample> measureCollective(Collective collective, int64_t ranks, int64_t bytes, double budgetSeconds);

} // namespace kerf::profile
