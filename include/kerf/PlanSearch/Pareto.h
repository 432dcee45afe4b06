// SPDX-License-Identifier: Apache-2.0
// Plans that trade step time for devices and for memory.
#pragma once

#include "kerf/PlanSearch/PlanSearch.h"

namespace kerf {

struct ParetoPlan {
  int64_t ranks = 0;
  double deviceBytes = 0; // that a device must have
  FoundPlan plan;
};

/// Of the best plan, of the best for fewer ranks (halves, and three quarters of them, down to a sixteenth), and of the
/// best for less memory (eighths of what the best takes, on all ranks): those that no other beats in step time, ranks
/// and memory at once, the fastest first. Each is a search of its own over a fraction of the budget. `begun` is told
/// what is searched.
std::vector<ParetoPlan> paretoPlans(const Cluster &cluster, const TrainingJob &job, const LayoutSource &layouts,
                                    const PlanSearchOptions &options, const FoundPlan &best,
                                    const std::function<void(const std::string &)> &begun = {});

} // namespace kerf
