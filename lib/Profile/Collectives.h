// SPDX-License-Identifier: Apache-2.0
// Collectives between ranks that are threads of this process, timed.
#pragma once

#include "kerf/Profile/Profile.h"

namespace kerf::profile {

/// Seconds of one call when all `ranks` make it over and over, the third quickest of ten rounds. `bytes` as
/// CollectiveSample counts them; a multiple of 64 `ranks`.
Result<CollectiveSample> measureCollective(Collective collective, int64_t ranks, int64_t bytes, double budgetSeconds);

} // namespace kerf::profile
