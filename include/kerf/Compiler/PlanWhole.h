// SPDX-License-Identifier: Apache-2.0
// What a search over whole plans is about (docs/search.md): a model on a cluster, ready to be asked. Several questions
// to one job share the layouts of its model. The plans may hold decisions that the passes cannot lower yet.
#pragma once

#include "kerf/Compiler/Compiler.h"
#include "kerf/PlanSearch/PlanSearch.h"

namespace kerf {

class LoweredFigures;
class ModelLayouts;

struct WholeJobOptions {
  StepOptions step;
  std::string dtype = "f32";              // as SimulateOptions has it
  const Trainer *trainer = &ownTrainer(); // that will run the plan
  std::optional<int64_t> ranks = {};      // at most so many of the cluster's, the first ones; absent: all
  PlanSearchOptions search;               // sizes of axes are filled in
};

/// For searchPlans, explainPlan and paretoPlans.
struct WholeJob {
  Cluster cluster; // the ranks that may be used
  TrainingJob job;
  PlanSearchOptions search;
  LayoutSource layouts;
  std::shared_ptr<ModelLayouts> model;     // of `layouts`
  std::shared_ptr<LoweredFigures> lowered; // of job.asLowered; null where that is not set
  const std::vector<std::string> &warnings() const;
};

Result<WholeJob> wholeJob(mlir::MLIRContext &context, const ModelSource &model, const Cluster &cluster,
                          const WholeJobOptions &options);

} // namespace kerf
