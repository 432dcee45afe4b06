// SPDX-License-Identifier: Apache-2.0
// The search for devices on which plans are judged by their lowered programs (TrainingJob::refineWithProgram): the
// simulator's estimates propose plans, the plans are lowered to programs, and the programs' figures decide.
#pragma once

#include "kerf/PlanSearch/PlanSearch.h"

namespace kerf::plansearch {

/// Returns the step time, bound and memory of a simulation as a plan's prediction.
Prediction predictionOf(const Simulation &simulation, double lowerBoundSeconds);

/// Searches with the simulator's estimates alone. Fails like searchPlans.
Result<FoundPlans> searchEstimates(const Cluster &cluster, const TrainingJob &job, const LayoutSource &layouts,
                                   const PlanSearchOptions &options);

/// Returns plans whose programs fit into memory, the fastest program first. The lower bound is 0, since no bound of
/// programs is known. Fails like searchPlans.
Result<FoundPlans> searchLowered(const Cluster &cluster, const TrainingJob &job, const LayoutSource &layouts,
                                 const PlanSearchOptions &options);

} // namespace kerf::plansearch
