// SPDX-License-Identifier: Apache-2.0
// Bytes of one stage over the step: what stays, what each microbatch in flight holds, and what a running pass needs.
#pragma once

#include "kerf/CostModel/Simulator.h"

namespace kerf {

/// What a search for a schedule within a memory limit must know: ScheduleOptions' keptForWeights (the largest of any
/// stage) and activations.
void describeActivations(const StepWork &work, const StepPlan &plan, ScheduleOptions &options);

/// Walks the stage's order; a backward holds its microbatch until its end.
StageMemory memoryOf(const StepWork &work, const StepPlan &plan, const Schedule &schedule, const Device &device,
                     int64_t stage);
/// Its deviceBytes alone.
double deviceBytesOf(const StepWork &work, const StepPlan &plan, const Schedule &schedule, const Device &device,
                     int64_t stage);

} // namespace kerf
