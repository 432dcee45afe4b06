// SPDX-License-Identifier: Apache-2.0
// The search for whole plans whose gradients are compressed: mesh and compression are decided together.
#pragma once

#include "kerf/PlanSearch/PlanSearch.h"

namespace kerf::plansearch {

/// Searches without compression, as searchPlans does where none is asked for.
Result<FoundPlans> searchUncompressed(const Cluster &cluster, const TrainingJob &job, const LayoutSource &layouts,
                                      const PlanSearchOptions &options);

/// Plans compression for the best plans of two searches without it, and returns the best pairs of plan and compression.
/// The second search is on machines whose outermost network is as many times faster as codecs can make messages
/// smaller: it finds the meshes that win through compression. The lower bound is 0, since no bound of such pairs is
/// known. Fails like searchPlans.
Result<FoundPlans> searchCompressed(const Cluster &cluster, const TrainingJob &job, const LayoutSource &layouts,
                                    const PlanSearchOptions &options);

} // namespace kerf::plansearch
