// SPDX-License-Identifier: Apache-2.0
// Which search finds a plan: the placement of every op on a mesh of data and model, or the whole plan (docs/search.md).
#pragma once

#include "Options.h"

namespace kerf::tool {

enum class Search { Placement, Whole };

/// What `--search` says. Without it: Placement on CPUs, Whole on other devices and where the constraints decide what
/// only whole plans have. Refuses a placement of such constraints. `batch`: the samples of a step; 0: not known.
Result<Search> searchOf(const PlanFlags &flags, const Cluster &cluster, const Plan &constraints,
                        const std::string &constraintsFile, int64_t batch);

/// The whole plans of a model need a loss function; a whole train step has only placements.
bool isWholeTrainStep(const TrainingStep &step);

} // namespace kerf::tool
