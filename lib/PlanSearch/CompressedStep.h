// SPDX-License-Identifier: Apache-2.0
// A plan in the form that the simulator takes, from which compression is planned and explained.
#pragma once

#include "kerf/CostModel/CompressedGradients.h"
#include "kerf/PlanSearch/CompressPlan.h"

namespace kerf::plansearch {

/// The inputs of the simulator for one plan, without the compression that the plan states.
struct PreparedStep {
  CompletedPlan completed;
  const ModelWork *model = nullptr; // never null
  StepWork work;
  StepPlan step;
  std::unique_ptr<PipelineModel> pipeline;

  StepView view(const TrainingJob &job) const { return {completed, job, *model, work, step, *pipeline}; }
};

/// Returns the last backward of part `p` as a problem of the planner. Gradients that a pin decides, and those that are
/// left out by default, have one option. `names` are those of gradientNames() for the part.
PartProblem problemOfPart(const StepView &view, int64_t p, const std::vector<std::string> &names,
                          const std::vector<CompressionPin> &pins, const CompressionRequest &request);

/// Completes the plan and computes the inputs of the simulator. Fails like simulatePlan.
Result<PreparedStep> prepareStep(const Plan &plan, const Cluster &cluster, const TrainingJob &job,
                                 const LayoutSource &layouts);

} // namespace kerf::plansearch
