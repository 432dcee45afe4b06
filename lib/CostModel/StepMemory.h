// SPDX-License-Identifier: Apache-2.0
// Bytes of one stage over the step: what stays, what each microbatch in flight holds, and what a running pass needs.
#pragma once

#include "kerf/CostModel/Simulator.h"

namespace kerf::cost {

/// What a search for a schedule within a memory limit must know: ScheduleOptions' keptForWeights (the largest of any
/// stage) and activations.
void describeActivations(const StepWork &work, const StepPlan &plan, ScheduleOptions &options);

StageMemory memoryOf(const StepWork &work, const StepPlan &plan, const Schedule &schedule, const Device &device,
                     int64_t stage);

} // namespace kerf::cost
