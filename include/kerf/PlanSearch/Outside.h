// SPDX-License-Identifier: Apache-2.0
// What a plan can say and the simulator can price, but the search does not try (docs/search.md, "The space").
#pragma once

#include "kerf/PlanSearch/PlanSearch.h"

namespace kerf {

/// Returns what is left out of the space of a search, each as "key: what": a plan with it may be faster than a plan
/// that is proven the best of the space. What the constraints decide is not left out.
std::vector<std::string> outsideOfSpace(const Cluster &cluster, const TrainingJob &job,
                                        const PlanSearchOptions &options, int64_t layers);

/// The keys of plan.json in such a list, each once: "overlap, attention".
std::string outsideText(const std::vector<std::string> &outside);

} // namespace kerf
