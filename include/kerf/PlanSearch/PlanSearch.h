// SPDX-License-Identifier: Apache-2.0
// The whole plan at once: mesh, order of the axes, microbatch, schedule, cut into stages, recomputation, optimizer and
// sequence sharding, judged by the simulator (kerf/CostModel/Simulator.h), with a proven bound over the space that
// docs/search.md defines. Plain data; the model comes as a function from layouts to their work.
#pragma once

#include "kerf/CostModel/ModelWork.h"
#include "kerf/CostModel/Simulator.h"
#include "kerf/PlanSearch/CompletePlan.h"

#include <functional>

namespace kerf {

/// The model under one layout. The pointer stays valid; null: the model cannot be laid out so.
using LayoutSource = std::function<Result<const ModelWork *>(const LayoutKey &)>;

inline constexpr size_t kMostPlannedGroups = 4; // of a mixed cluster

/// Work budgets: choices bounded, where a plan that is made and simulated counts as 100 and its schedule's tasks. The
/// usual one takes ten to twenty seconds. No search uses up the unlimited one; multiples of it still fit.
inline constexpr int64_t kUsualWork = 4'000'000, kUnlimitedWork = int64_t(1) << 60;

struct PlanSearchOptions {
  Plan constraints; // what it says stays
  std::string constraintsFile = "the constraints";
  std::optional<int64_t> memoryLimitBytes; // of a device; its own memory counts as well
  bool allRanks = false;                   // no plan uses fewer ranks than the cluster has
  /// Sizes of "model" that are tried.
  std::vector<int64_t> modelSizes = {1};
  /// Of the axis "expert".
  std::vector<int64_t> expertSizes = {1};
  /// Of the axis "context"; both of its styles are tried.
  std::vector<int64_t> contextSizes = {1};
  /// What these sizes leave out though it can be simulated, by axis: {"model", "sizes that do not divide the heads"}.
  std::vector<std::pair<std::string, std::string>> sizesLeftOut = {};
  /// A plan to begin with, if it can still be carried out: whatever is found is at least as good.
  std::optional<Plan> from;
  int64_t workBudget = kUsualWork;
  std::optional<double> seconds;   // ends the search as well; with `kUnlimitedWork` it alone does
  std::function<bool()> stop = {}; // asked often: true ends the search with the best plan so far
  bool leastMemory = true;         // where nothing fits: find out what conflicts and how much memory would do
  int top = 1;                     // distinct plans that are proven the best
  /// Called about once a second with the best plan's seconds (0: none yet) and the bound.
  std::function<void(double best, double bound)> progress;
};

/// What a whole plan decides, by the key of plan.json.
inline constexpr const char *kDecisions[] = {
    "mesh.stage",        "mesh.data",    "mesh.context", "mesh.expert", "mesh.model",         "order",
    "microbatch",        "schedule",     "stages",       "recompute",   "optimizer_sharding", "layout",
    "sequence_parallel", "context_style"};

struct FoundPlan {
  Plan plan; // complete, with its prediction
  Simulation simulation;
};

/// What the search did.
struct PlanSearchStatistics {
  int64_t choices = 0;   // nodes of the search that were bounded
  int64_t simulated = 0; // plans that were simulated
  int64_t layouts = 0;   // of the model
};

struct FoundPlans {
  std::vector<FoundPlan> plans;     // the best first
  double lowerBoundSeconds = 0;     // no plan of the space takes less
  std::vector<std::string> outside; // of the space (kerf/PlanSearch/Outside.h)
  PlanSearchStatistics statistics;
};

/// The best plan found that decides `key` otherwise than a given plan does.
struct OtherwisePlan {
  std::string key; // one of kDecisions
  std::optional<FoundPlan> plan;
  /// What `plan` decides, as pins: the best plan with them is `plan`, and every plan with them decides otherwise.
  Plan pins;
  double lowerBoundSeconds = 0; // no plan that decides otherwise takes less; infinite: there is none
  bool proven() const { return !plan || lowerBoundSeconds >= plan->simulation.stepSeconds; }
};

/// For each of `keys` the best plan that decides it otherwise than `than`: all in one search, so that what they share
/// is bounded and simulated once.
Result<std::vector<OtherwisePlan>> searchOtherwise(const Cluster &cluster, const TrainingJob &job,
                                                   const LayoutSource &layouts, const PlanSearchOptions &options,
                                                   const Plan &than, const std::vector<std::string> &keys);

/// Infeasible: ExitStatus::Infeasible with the least memory that some plan needs.
Result<FoundPlans> searchPlans(const Cluster &cluster, const TrainingJob &job, const LayoutSource &layouts,
                               const PlanSearchOptions &options);

} // namespace kerf
