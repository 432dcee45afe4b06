// SPDX-License-Identifier: Apache-2.0
// The functions that compute the task orders of zero-bubble schedules (lib/Schedule/ZeroBubble.cpp).
#pragma once

#include "kerf/Schedule/Schedule.h"

namespace kerf::schedule {

/// Returns the handcrafted zero-bubble order of each stage (Qi et al. 2023, sections 2.1 and 2.2) in which a stage
/// holds the activations of at most `limit` microbatches.
std::vector<std::vector<Task>> zeroBubbleByHand(int64_t stages, int64_t microbatches, int64_t limit);
/// Returns the number of forwards of `stage` before its first input gradient in this order, if there are as many: the
/// distance to the last stage and this stage itself (1F1B), or as far there and back.
int64_t zeroBubbleFill(int64_t stages, int64_t stage, double limit);
/// Returns the fastest of several list schedules and the handcrafted order for `options.durations`. A stage holds the
/// activations of at most `limit` microbatches, in units of the mean over all stages, and of at most
/// `options.inFlight`. Empty where no order takes less than `options.shorterThan`.
std::vector<std::vector<Task>> zeroBubbleSearched(const ScheduleOptions &options, double limit);

/// Returns `options.inFlight` of `stage`; infinity where it is empty.
double mostInFlight(const ScheduleOptions &options, int64_t stage);
/// Returns the most microbatches between forward and input gradient that this allows, which are at least 1: where an
/// input gradient recomputes activations, one of them needs room for them.
double mostRunning(const ScheduleOptions &options, int64_t stage);

} // namespace kerf::schedule
