// SPDX-License-Identifier: Apache-2.0
// The input of a search over whole plans (docs/search.md): a model on a cluster, with its constraints. Several searches
// of one job share the computed layouts of the model. The plans may contain decisions that the compiler cannot lower
// yet.
#pragma once

#include "kerf/Compiler/Compiler.h"
#include "kerf/PlanSearch/PlanSearch.h"

namespace kerf {

class LoweredFigures;
class ModelLayouts;

/// The options from which a WholePlanJob is built.
struct WholePlanJobOptions {
  StepOptions step;
  std::string dtype = "f32";              // type of activations and products, as in SimulateOptions
  const Trainer *trainer = &ownTrainer(); // the training system that will run the plan
  std::optional<int64_t> ranks = {};      // the plan may use the first N ranks of the cluster; absent: all
  PlanSearchOptions search;               // options of the search; makeWholePlanJob fills in the sizes of the axes
};

/// The arguments of searchPlans, explainPlan and paretoPlans for one model on one cluster.
struct WholePlanJob {
  Cluster cluster; // the ranks that the plan may use
  TrainingJob job;
  PlanSearchOptions search;
  LayoutSource layouts;
  std::shared_ptr<ModelLayouts> model; // owner of the data that `layouts` returns
  std::shared_ptr<LoweredFigures>
      lowered; // predictor behind job.refineWithProgram; null when plans are not priced as compiled programs
  /// Returns the warnings of importing the model.
  const std::vector<std::string> &warnings() const;
};

/// Builds the job of a search over whole plans for `model` on `cluster`. Fails when constraints, trainer, type or
/// cluster are not supported by this search.
Result<WholePlanJob> makeWholePlanJob(mlir::MLIRContext &context, const ModelSource &model, const Cluster &cluster,
                                      const WholePlanJobOptions &options);

} // namespace kerf
