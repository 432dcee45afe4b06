// SPDX-License-Identifier: Apache-2.0

// One total order of all tasks of all pipeline stages. It decides where a stage waits for its sends, so that sends,
// receives and waits of the stages can never deadlock.
//
//   1f1b, 2 stages, 3 microbatches (every pass takes 1):        0: F0.0   1: F1.0  F0.1   2: B0.1  3: F1.1 B0.0 ...
//
// Each task comes after the tasks whose results it receives, and the tasks of a stage come in the order in which the
// stage runs them. A stage waits for a send at its first task after the task that receives the message. Everything that
// a stage waits for therefore comes earlier in the total order, whatever the real durations are.
#pragma once

#include "kerf/Schedule/Schedule.h"

namespace kerf::steps {

/// A pipeline schedule and the place of each of its tasks in the total order.
struct StepOrder {
  Schedule schedule;
  /// Place of each task of Schedule::order in the total order, indexed by [stage][task]; all places are different.
  std::vector<std::vector<int64_t>> places;
};

/// Orders all tasks by their start times (then by stage) in a simulation where every pass takes 1 and sends take no
/// time. The schedule must pass check().
StepOrder stepOrder(Schedule schedule);

/// Returns the task of `stage` before which it waits for a send that task `consumer` of stage `consumerStage` receives:
/// its first task after that one in the total order, or its number of tasks if there is none.
size_t waitTask(const StepOrder &order, int64_t stage, int64_t consumerStage, size_t consumer);

} // namespace kerf::steps
