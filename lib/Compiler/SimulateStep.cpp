// SPDX-License-Identifier: Apache-2.0
// Simulates a plan: completes the plan, computes the work of the model under its layout, and runs the simulator.
#include "kerf/Compiler/LoweredFigures.h"
#include "kerf/Compiler/ModelLayouts.h"
#include "kerf/Compiler/Simulate.h"
#include "kerf/CostModel/Dtypes.h"
#include "kerf/PlanSearch/CompressPlan.h"
#include "kerf/PlanSearch/StepOfPlan.h"
#include "kerf/PlanSearch/TrainerPins.h"

#include <fmt/format.h>

namespace kerf {

/// Returns the plan without the strategies of single operators, which the simulator does not support.
static Plan withoutStrategies(Plan plan) {
  plan.ops.clear();
  plan.arguments.clear();
  return plan;
}

/// Replaces the simulated figures by those of the compiled program of the plan. Fails when the plan cannot be compiled.
static Status useProgram(mlir::MLIRContext &context, const ModelSource &source, const Plan &plan,
                         const std::string &planFile, const SimulateOptions &options, SimulatedPlan &simulated) {
  LoweredFigures figures(context, source, options.step, options.dtype);
  return figures.apply(plan, planFile, simulated.cluster, simulated.simulation);
}

/// Adds the compression of the plan, and the compression that the options ask to plan, to the prediction. `plain` is
/// the simulation without compression.
static Status addCompression(SimulatedPlan &simulated, const CompletedPlan &completed, const TrainingJob &job,
                             const ModelWork &model, const PipelineModel &pipeline, const Simulation &plain,
                             const SimulateOptions &options) {
  const StepPlan step = simulated.step;
  const StepView view{completed, job, model, simulated.work, step, pipeline};
  CompressionRequest request = options.compression.value_or(CompressionRequest());
  if (!options.compression)
    request.limits.largestRatio = 1; // pins alone: nothing else is compressed
  auto planned = planCompression(view, completed.plan.compression, plain, simulated.simulation, request);
  if (!planned)
    return planned.error();
  auto coded = withCompression(view, planned->compression);
  if (!coded)
    return coded.error();
  simulated.plan.compression = std::move(planned->compression);
  if (pricedAsLowered(simulated.cluster)) { // the figures are those of the compiled program
    simulated.simulation = std::move(planned->simulation);
  } else {
    auto whole = simulate(simulated.work, *coded, pipeline, options.trace);
    if (!whole)
      return whole.error();
    whole->uncertainty = std::move(simulated.simulation.uncertainty);
    simulated.simulation = std::move(*whole);
  }
  simulated.step = std::move(*coded);
  return ok();
}

Result<SimulatedPlan> simulatePlan(mlir::MLIRContext &context, const ModelSource &source, const Plan &given,
                                   const std::string &planFile, const Cluster &cluster,
                                   const SimulateOptions &options) {
  StepOptions prepared = options.step;
  Plan uncompressedGiven = given; // compression is priced apart from the model (CompressPlan.h)
  uncompressedGiven.compression.clear();
  for (Status status :
       {setPlanDependentOptions(prepared, uncompressedGiven, planFile), checkMachines(*options.trainer, cluster)})
    if (!status)
      return status.error();
  const Plan alone = withoutStrategies(given);
  auto pinned =
      std::make_unique<ModelLayouts>(context, source, prepared, options.dtype, cluster, given, *options.trainer);
  auto job = pinned->job(options.ranks);
  if (!job)
    return job.error();
  const bool opByOp = isOpByOp(given, job->exportedBatch ? job->exportedBatch : given.globalBatch);
  const Plan &plan = opByOp ? alone : given;
  if (opByOp) {
    pinned = std::make_unique<ModelLayouts>(context, source, prepared, options.dtype, cluster, plan, *options.trainer);
    job = pinned->job(options.ranks);
    if (!job)
      return job.error();
    job->perOpStrategies = true;
  }
  job->trainer = options.trainer;
  ModelLayouts &layouts = *pinned;
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
    auto model = layouts.work(layoutKeyOf(planOfStage(completed->plan, s)));
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
  const Plan laidOut = completed->plan;
  auto pipelineOn = [&](const Cluster &on) { return pipelineOf(laidOut, on); };
  auto uncertainty = uncertaintyOf(*work, *step, completed->cluster, pipelineOn, *simulation);
  if (!uncertainty)
    return uncertainty.error();
  simulation->uncertainty = std::move(*uncertainty);
  const Simulation plain = *simulation;
  Plan uncompressed = completed->plan;
  uncompressed.stages = stages;
  uncompressed.compression.clear();
  SimulatedPlan simulated{std::move(*simulation), std::move(*work),   completed->mesh,   uncompressed,
                          std::move(*step),       completed->cluster, layouts.warnings()};
  if (opByOp) {
    if (Status status = useProgram(context, source, uncompressedGiven, planFile, options, simulated); !status)
      return status.error();
    simulated.simulation.uncertainty = uncertaintyOfProgram(simulated.simulation);
  } else if (pricedAsLowered(simulated.cluster)) {
    if (Status status = useProgram(context, source, uncompressed, planFile, options, simulated))
      simulated.simulation.uncertainty = uncertaintyOfProgram(simulated.simulation);
    else
      simulated.warnings.push_back(fmt::format(
          "the plan cannot be compiled for CPUs, so its figures come from the simulator: {}", status.error().message));
  }
  if (options.compression || !completed->plan.compression.empty())
    if (Status status = addCompression(simulated, *completed, *job, *models.front(), *pipeline, plain, options);
        !status)
      return status.error();
  recenter(*simulated.simulation.uncertainty, simulated.simulation);
  return simulated;
}

} // namespace kerf
