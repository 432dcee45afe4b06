// SPDX-License-Identifier: Apache-2.0
// What would make a job fit for which no plan does, found by asking the search again.
#pragma once

#include "Options.h"

#include <functional>

namespace kerf::tool {

/// Whether some plan fits for the model's options on the cluster.
using AnyFits = std::function<bool(const ModelFlags &model, const Cluster &cluster)>;

/// The error of an infeasible job with the changes that make it feasible: twice as many ranks of the same devices, and
/// again, up to 64 times; an optimizer that keeps no states; computation in 16 bits. Each is tried by itself. `whole`:
/// the cluster with all its ranks, `used`: the ranks that the job has.
Error withRemedies(Error error, const ModelFlags &model, const Cluster &whole, const Cluster &used,
                   const AnyFits &anyFits);

} // namespace kerf::tool
