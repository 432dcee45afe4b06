// SPDX-License-Identifier: Apache-2.0
// Everything there is to say of a plan that the simulator judges, as plain data; and as text, as JSON and as one HTML
// page that needs nothing else (docs/interface.md lists the keys and the sections).
#pragma once

#include "kerf/CostModel/StepParts.h"
#include "kerf/PlanSearch/Pareto.h"
#include <nlohmann/json.hpp>

namespace kerf {

/// A kernel or a collective and the stages that run it; calls and seconds are of the stage on which it takes longest.
struct KernelRow : KernelOfStep {
  std::vector<int64_t> stages;
};
struct CollectiveRow : CollectiveOfStep {
  std::vector<int64_t> stages;
};

struct StepReport {
  std::string model;
  Cluster cluster; // that the plan may use
  Plan plan;       // complete
  Mesh mesh;
  int64_t microbatches = 1; // of one data group
  double modelFlops = 0;
  Simulation simulation;                                 // with its trace
  std::vector<std::pair<std::string, int64_t>> segments; // the model's, in its order, and how many times each is there
  std::vector<KernelRow> kernels;
  std::vector<CollectiveRow> collectives;
  std::vector<std::string> warnings;
  // Of a search, else empty:
  std::optional<double> lowerBoundSeconds;
  std::vector<std::string> outside; // of the space that the bound is about
  PlanSearchStatistics statistics;
  std::vector<FoundPlan> others;  // the next best
  std::vector<ParetoPlan> pareto; // the fastest first
};

/// What `simulate` said, and the kernels and collectives of `work`, which it was about. `pipeline` is the one that it
/// ran on.
StepReport stepReport(std::string model, const Cluster &cluster, Plan plan, const StepWork &work, const StepPlan &step,
                      const PipelineModel &pipeline, Simulation simulation);

/// Where a step is slower (seconds > 0) or faster than another: parts of the breakdown, the largest difference first.
std::vector<std::pair<std::string, double>> differences(const Breakdown &one, const Breakdown &than);

/// Summary as it is printed, then memory by stage, operators, collectives and the other plans in full.
std::string toText(const StepReport &report);
nlohmann::ordered_json toJson(const StepReport &report);
std::string toHtml(const StepReport &report);

/// The keys that `kerf simulate --json` prints.
nlohmann::ordered_json toJson(const Simulation &simulation);

} // namespace kerf
