// SPDX-License-Identifier: Apache-2.0
// The search on devices whose plans have the figures of the programs that they are lowered to (TrainingJob::asLowered):
// the simulator finds the best plans by its estimate, these are lowered, and their programs decide.
#pragma once

#include "kerf/PlanSearch/PlanSearch.h"

namespace kerf::plansearch {

Prediction predictionOf(const Simulation &simulation, double lowerBoundSeconds);

/// The search by the simulator alone.
Result<FoundPlans> searchEstimates(const Cluster &cluster, const TrainingJob &job, const LayoutSource &layouts,
                                   const PlanSearchOptions &options);

/// Plans whose programs fit, the fastest program first. No lower bound is known of programs: it is 0.
Result<FoundPlans> searchLowered(const Cluster &cluster, const TrainingJob &job, const LayoutSource &layouts,
                                 const PlanSearchOptions &options);

} // namespace kerf::plansearch
