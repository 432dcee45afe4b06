// SPDX-License-Identifier: Apache-2.0
#include "kerf/Compiler/LoweredFigures.h"

#include <fmt/format.h>

namespace kerf {

std::optional<PrecisionOptions> defaultPrecision(std::string_view dtype) {
  if (dtype != "bf16" && dtype != "f16" && dtype != "f8")
    return std::nullopt;
  PrecisionOptions options;
  options.compute = dtype == "f16" ? DType::F16 : DType::BF16;
  options.quantizeProducts = dtype == "f8";
  options.scaling = dtype == "f16" ? LossScaling::Dynamic : LossScaling::None;
  return options;
}

LoweredFigures::LoweredFigures(mlir::MLIRContext &context, ModelSource model, StepOptions step, std::string dtype)
    : context(context), model(std::move(model)), dtype(std::move(dtype)), step(std::move(step)) {
  this->step.import.floatType = this->dtype == "f64" ? DType::F64 : DType::F32;
  if (!this->step.precision)
    this->step.precision = defaultPrecision(this->dtype);
}

Result<TrainingStep *> LoweredFigures::imported(const Plan &plan, const std::string &where) {
  StepOptions sized = step;
  if (Status status = setPlanDependentOptions(sized, plan, where); !status)
    return status.error();
  int64_t batch = model.isConfig() ? plan.globalBatch : 0;
  const std::tuple key(batch, sized.cuts, sized.patterns, sized.patternsOfAllOps);
  auto found = steps.find(key);
  if (found == steps.end()) {
    if (model.isConfig())
      sized.import.globalBatch = batch;
    auto made = importTrainingStep(context, model, sized);
    if (!made)
      return made.error();
    found = steps.emplace(key, std::move(*made)).first;
  }
  return &found->second;
}

Status LoweredFigures::apply(const Plan &plan, const std::string &where, const Cluster &cluster,
                             Simulation &simulation) {
  auto imported = this->imported(plan, where);
  if (!imported)
    return imported.error();
  Plan lowered = plan;
  lowered.modelHash.clear();
  lowered.clusterHash.clear();
  lowered.predicted.reset();
  auto compiled = compileStep(**imported, lowered, where, cluster);
  if (!compiled)
    return compiled.error();
  copyFigures(compiled->figures, simulation);
  stepsOfLast = std::move(compiled->report.steps);
  return ok();
}

void copyFigures(const Simulation &lowered, Simulation &simulation) {
  double slower = lowered.stepSeconds / simulation.stepSeconds;
  const Breakdown old = simulation.breakdown;
  simulation.stepSeconds = lowered.stepSeconds;
  simulation.breakdown = lowered.breakdown;
  // The program does not mark recomputed operators in its backward pass, so the share of recomputation comes from the
  // simulator.
  if (double whole = old.recompute + old.backward; whole > 0) {
    double recomputed = lowered.breakdown.backward * (old.recompute / whole);
    simulation.breakdown.recompute = recomputed;
    simulation.breakdown.backward -= recomputed;
  }
  for (size_t s = 0; s < std::min(simulation.memory.size(), lowered.memory.size()); ++s) {
    auto largest = std::move(simulation.memory[s].largest);
    std::string moment = simulation.memory[s].moment;
    simulation.memory[s] = lowered.memory[s];
    simulation.memory[s].largest = std::move(largest);
    simulation.memory[s].moment = std::move(moment);
  }
  simulation.fits = lowered.fits;
  simulation.tokensPerSecond /= slower;
  simulation.modelFlopsUtilization /= slower;
  if (!simulation.trace.empty())
    simulation.trace = lowered.trace;
}

} // namespace kerf
