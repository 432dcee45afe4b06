// SPDX-License-Identifier: Apache-2.0
#include "PlanFigures.h"

#include "kerf/Compiler/Simulate.h"
#include "kerf/CostModel/Margin.h"
#include "kerf/Support/Units.h"
#include <algorithm>
#include <cmath>
#include <fmt/core.h>
#include <numeric>

namespace kerf::tool {

namespace {

const StageMemory &fullestOf(const Simulation &figures) {
  return *std::max_element(figures.memory.begin(), figures.memory.end(),
                           [](const StageMemory &a, const StageMemory &b) { return a.deviceBytes < b.deviceBytes; });
}

int64_t whole(double bytes) { return static_cast<int64_t>(std::ceil(bytes)); }

} // namespace

Status takeFigures(Planned &planned, const ModelFlags &model, const Cluster &cluster, int64_t batch) {
  if (pricedAsLowered(cluster) || !isExecutionPlan(planned.plan, batch))
    return ok();
  auto context = createContext();
  SimulateOptions options{model.toStepOptions(), model.dtype};
  Plan plan = planned.plan;
  plan.predicted.reset();
  auto simulated = simulatePlan(*context, model.model, plan, "the plan", cluster, options);
  if (!simulated)
    return simulated.error();
  Report &report = planned.compiled.report;
  const Breakdown &parts = simulated->simulation.breakdown;
  report.stepSeconds = simulated->simulation.stepSeconds;
  report.computeSeconds = parts.forward + parts.backward + parts.recompute + parts.optimizer;
  report.collectiveSeconds = std::accumulate(parts.exposed.begin(), parts.exposed.end(), 0.0,
                                             [](double sum, const auto &entry) { return sum + entry.second; });
  const StageMemory &fullest = fullestOf(simulated->simulation);
  report.memory = {whole(fullest.weights),
                   whole(fullest.gradients),
                   whole(fullest.states),
                   whole(fullest.activations + fullest.workspace),
                   0,
                   whole(fullest.peakBytes)};
  planned.compiled.figures = std::move(simulated->simulation);
  return ok();
}

Status checkMemory(const Planned &planned, const std::string &planFile, const PlanFlags &flags,
                   const Cluster &cluster) {
  const Simulation &figures = planned.compiled.figures;
  if (figures.memory.empty())
    return ok();
  int64_t needs = whole(fullestOf(figures).deviceBytes), left = withMargin(cluster, flags.margin).device.memoryBytes;
  const std::string name = planFile.empty() ? "the plan" : planFile;
  if (flags.memory && needs > flags.memory)
    return Error{fmt::format("{} needs {} bytes ({}) a rank, --memory is {} ({}); give --memory {} or more, or a plan "
                             "with more recomputation, optimizer sharding or ranks",
                             name, needs, bytesText(needs), flags.memory, bytesText(flags.memory), needs),
                 ExitStatus::Infeasible};
  if (needs > left)
    fmt::print(stderr, "warning: {} needs {} a rank, {} has {} for it\n", name, bytesText(needs), cluster.name,
               bytesText(left));
  return ok();
}

} // namespace kerf::tool
