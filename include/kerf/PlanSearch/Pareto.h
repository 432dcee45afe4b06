// SPDX-License-Identifier: Apache-2.0
// Pareto plans: plans that trade step time for fewer ranks or less memory.
#pragma once

#include "kerf/PlanSearch/PlanSearch.h"

namespace kerf {

/// A plan with the three quantities that Pareto plans trade.
struct ParetoPlan {
  int64_t ranks = 0;      // ranks that the plan uses
  double deviceBytes = 0; // bytes of memory that the fullest device needs
  FoundPlan plan;         // the plan; FoundPlan::simulation has its step time
};

/// Returns Pareto plans, fastest first: no other plan of the list is at least as good in step time, ranks and memory.
/// Candidates are `best`, the best plans on fewer ranks (halves, quarters, ... and three quarters of these, down to a
/// sixteenth of all), and the best plans with less memory (eighths of what `best` needs, on all ranks). Each candidate
/// takes a search with a fraction of the work budget. `onSearchBegin` is called with a description of each search.
std::vector<ParetoPlan> paretoPlans(const Cluster &cluster, const TrainingJob &job, const LayoutSource &layouts,
                                    const PlanSearchOptions &options, const FoundPlan &best,
                                    const std::function<void(const std::string &)> &onSearchBegin = {});

} // namespace kerf
