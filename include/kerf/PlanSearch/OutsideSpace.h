// SPDX-License-Identifier: Apache-2.0
// Decisions that plans can make and the simulator can judge, but that the search does not try (docs/search.md, "The
// space"). A lower bound of the search does not hold for plans with such decisions.
#pragma once

#include "kerf/PlanSearch/PlanSearch.h"

namespace kerf {

/// Returns the decisions that a search leaves out, each as "key: description". A plan with one of them may be faster
/// than the plan that the search proves to be the best. Decisions that the constraints make are not listed. `layers` is
/// the number of the model's layers.
std::vector<std::string> decisionsOutsideSpace(const Cluster &cluster, const TrainingJob &job,
                                               const PlanSearchOptions &options, int64_t layers);

/// Returns the keys of plan.json in a list of decisionsOutsideSpace, each once, such as "overlap, attention".
std::string keysOutsideSpace(const std::vector<std::string> &outside);

} // namespace kerf
