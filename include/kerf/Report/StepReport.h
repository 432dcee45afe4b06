// SPDX-License-Identifier: Apache-2.0

// The report of a simulated plan as plain data, and the same as text, JSON and one self-contained HTML page
// (docs/interface.md lists the keys and the sections).
#pragma once

#include "kerf/CostModel/StepParts.h"
#include "kerf/PlanSearch/Pareto.h"
#include <nlohmann/json.hpp>

namespace kerf {

/// A kernel and the pipeline stages that run it. Calls and seconds are those of the stage on which the kernel
/// takes longest.
struct KernelRow : KernelOfStep {
  std::vector<int64_t> stages; // indices of the pipeline stages that run the kernel
};
/// A collective and the pipeline stages that run it. Calls and seconds are those of the stage on which the collective
/// takes longest.
struct CollectiveRow : CollectiveOfStep {
  std::vector<int64_t> stages; // indices of the pipeline stages that run the collective
};

/// Everything that is known about a simulated plan and, if the plan was searched, about its search.
struct StepReport {
  std::string model;        // name of the model file
  Cluster cluster;          // cluster that the plan may use, perhaps more ranks than it uses
  Plan plan;                // complete plan
  Mesh mesh;                // mesh of the ranks that the plan uses
  int64_t microbatches = 1; // number of microbatches in a step, of each model replica
  double modelFlops = 0;    // FLOP of a step without recomputation
  Simulation simulation;    // simulated step, with its trace
  /// Segments of the layer chain in the order of the model, each with the number of times that it is repeated.
  std::vector<std::pair<std::string, int64_t>> segments;
  std::vector<KernelRow> kernels;
  std::vector<CollectiveRow> collectives; // the longest first
  std::vector<std::string> warnings;
  /// Lower bound of the step time in the searched space; none if the plan was not searched.
  std::optional<double> lowerBoundSeconds;
  std::vector<std::string> outside; // descriptions of plans that the searched space, and so the bound, does not cover
  PlanSearchStatistics statistics;  // counts of the search; zero if the plan was not searched
  std::vector<FoundPlan> others;    // the next best plans of the search, the fastest first
  std::vector<ParetoPlan> pareto;   // plans that trade step time for ranks or memory, the fastest first
};

/// Makes a report from the result of `simulate` on `work`, `step` and `pipeline`: lists the kernels and collectives
/// that were simulated. The members that describe a search stay empty.
StepReport stepReport(std::string model, const Cluster &cluster, Plan plan, const StepWork &work, const StepPlan &step,
                      const PipelineModel &pipeline, Simulation simulation);

/// Returns the parts of the step time in which `one` differs from `baseline`, as pairs of a name and seconds (positive
/// where `one` is slower), the largest difference first.
std::vector<std::pair<std::string, double>> differences(const Breakdown &one, const Breakdown &baseline);

/// Returns the report as text: the summary that `kerf plan` prints, then memory by stage, operators, collectives and
/// the other plans in full.
std::string toText(const StepReport &report);
/// Returns the report as JSON (keys: docs/interface.md).
nlohmann::ordered_json toJson(const StepReport &report);
/// Returns the report as one self-contained HTML page.
std::string toHtml(const StepReport &report);

/// Returns a simulated step as JSON, with the keys of `kerf simulate --json`.
nlohmann::ordered_json toJson(const Simulation &simulation);

} // namespace kerf
