// SPDX-License-Identifier: Apache-2.0
// One order of all tasks of all stages, so that no send, receive or wait of one stage can wait for another in a circle.
//
//   1f1b, 2 stages, 3 microbatches (every pass takes 1):        0: F0.0   1: F1.0  F0.1   2: B0.1  3: F1.1 B0.0 ...
//
// In it each task comes after those that it receives from, and each stage's tasks come as the stage runs them. A stage
// waits for a send at its first task that comes after the one which receives it: whatever anybody waits for comes
// earlier in the order, whatever the real times are.
#pragma once

#include "kerf/Schedule/Schedule.h"

namespace kerf::steps {

struct StepOrder {
  Schedule schedule;
  /// Place in the order of each task of Schedule::order: all are different.
  std::vector<std::vector<int64_t>> places;
};

/// By start (then stage) when every pass takes 1 and a send nothing. The schedule must pass check().
StepOrder stepOrder(Schedule schedule);

/// The first task of `stage` after task `consumer` of stage `consumerStage`, which receives what `stage` sent; the
/// number of its tasks when there is none.
size_t waitTask(const StepOrder &order, int64_t stage, int64_t consumerStage, size_t consumer);

} // namespace kerf::steps
