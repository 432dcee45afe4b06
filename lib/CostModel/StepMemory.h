// SPDX-License-Identifier: Apache-2.0
// Bytes of one stage over the step: what stays, what each microbatch in flight holds, and what a running pass needs.
#pragma once

#include "kerf/CostModel/Simulator.h"

namespace kerf::cost {

/// Share of a microbatch's saved bytes that stays after the input gradient: the largest of any stage.
double keptForWeights(const StepWork &work, const StepPlan &plan);

StageMemory memoryOf(const StepWork &work, const StepPlan &plan, const Schedule &schedule,
                     const CollectiveModel &collectives, int64_t stage, Recompute recompute);

} // namespace kerf::cost
