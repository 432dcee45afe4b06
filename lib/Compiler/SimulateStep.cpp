// SPDX-License-Identifier: Apache-2.0
// Plan + model + cluster -> completed plan -> work of its layout -> simulator.
#include "kerf/Compiler/ModelLayouts.h"
#include "kerf/Compiler/Simulate.h"
#include "kerf/CostModel/Dtypes.h"
#include "kerf/PlanSearch/StepOfPlan.h"

#include <fmt/format.h>

namespace kerf {

Result<Simulated> simulatePlan(mlir::MLIRContext &context, const std::string &modelPath, const Plan &plan,
                               const std::string &planFile, const Cluster &cluster, const SimulateOptions &options) {
  auto cuts = stageCuts(plan, planFile);
  if (!cuts)
    return cuts.error();
  StepOptions cutStep = options.step;
  cutStep.cuts = std::move(*cuts);
  ModelLayouts layouts(context, modelPath, std::move(cutStep), options.dtype, cluster, plan);
  auto job = layouts.job(options.ranks);
  if (!job)
    return job.error();
  auto completed = completePlan(plan, planFile, cluster, *job);
  if (!completed)
    return completed.error();
  if (Status status = checkDtype(completed->cluster, options.dtype); !status)
    return status.error();
  if (completed->microbatches > 1)
    if (Status status = layouts.checkMicrobatches(); !status)
      return Error{fmt::format("{}: {}", planFile, status.error().message)};
  auto pipeline = pipelineOf(completed->plan, completed->cluster);
  if (!pipeline)
    return Error{fmt::format("{}: {}", planFile, pipeline.error().message)};
  std::vector<StageLayers> stages = completed->plan.stages;
  auto told = layouts.withLayers(completed->plan);
  if (!told)
    return told.error();
  completed->plan = std::move(*told);
  std::vector<const ModelWork *> models; // of each stage
  for (int64_t s = 0; s < completed->plan.meshSizes.at("stage"); ++s) {
    auto model = layouts.work(layoutOf(ofStage(completed->plan, s)));
    if (!model)
      return model.error();
    models.push_back(*model);
  }
  auto work =
      stagesDiffer(completed->plan) ? stepWork(*completed, *job, models) : stepWork(*completed, *job, *models.front());
  if (!work)
    return work.error();
  auto step = stepPlan(*completed, *job, *models.front());
  if (!step)
    return step.error();
  auto simulation = simulate(*work, *step, *pipeline, options.trace);
  if (!simulation)
    return Error{fmt::format("{}: {}", planFile, simulation.error().message), simulation.error().status};
  completed->plan.stages = std::move(stages);
  return Simulated{std::move(*simulation),     std::move(*work), completed->mesh,
                   std::move(completed->plan), std::move(*step), std::move(completed->cluster),
                   layouts.warnings()};
}

} // namespace kerf
