// SPDX-License-Identifier: Apache-2.0
// What the generators of this room share.
#pragma once

#include "kerf/Schedule/Schedule.h"

namespace kerf::schedule {

/// Orders for zero-bubble schedules (lib/Schedule/ZeroBubble.cpp).
std::vector<std::vector<Task>> zeroBubbleByHand(int64_t stages, int64_t microbatches, int64_t limit);
std::vector<std::vector<Task>> zeroBubbleSearched(const ScheduleOptions &options, int64_t limit);

} // namespace kerf::schedule
