// SPDX-License-Identifier: Apache-2.0
// The whole plan for a model on a cluster, found by the simulator's predictions: `kerf plan --search all` as a call
// (docs/search.md). The plan may hold decisions that the passes cannot lower yet.
#pragma once

#include "kerf/Compiler/Compiler.h"
#include "kerf/PlanSearch/PlanSearch.h"

namespace kerf {

struct WholePlanOptions {
  StepOptions step;
  std::string dtype = "f32";         // as SimulateOptions has it
  std::optional<int64_t> ranks = {}; // at most so many of the cluster's, the first ones; absent: all
  PlanSearchOptions search;          // sizes of axes are filled in
};

struct WholePlan {
  FoundPlans found;
  std::vector<std::string> warnings;
};

Result<WholePlan> planWhole(mlir::MLIRContext &context, const std::string &modelPath, const Cluster &cluster,
                            const WholePlanOptions &options);

} // namespace kerf
