// SPDX-License-Identifier: Apache-2.0
// The search for whole plans: mesh, order of its axes, microbatch, schedule, cut into stages, recomputation, optimizer
// sharding and sequence parallelism are decided together. The simulator (kerf/CostModel/Simulator.h) judges plans, and
// branch and bound proves a lower bound over the search space that docs/search.md defines. The model enters as a
// function from layouts to work, so the search needs no IR.
#pragma once

#include "kerf/Compression/Planner.h"
#include "kerf/CostModel/ModelWork.h"
#include "kerf/CostModel/Simulator.h"
#include "kerf/PlanSearch/CompletePlan.h"

#include <functional>
#include <span>

namespace kerf {

/// Returns the model's work under a layout; null when the model cannot be laid out so. The pointer stays valid as long
/// as the function.
using LayoutSource = std::function<Result<const ModelWork *>(const LayoutKey &)>;

inline constexpr size_t kMostPlannedGroups = 4; // most device groups of a mixed cluster that can be planned for

/// Default work budget of a search. Bounding one choice counts 1; making and simulating a plan counts 100 and the
/// number of its schedule's tasks. The default takes ten to twenty seconds.
inline constexpr int64_t kUsualWork = 4'000'000;
/// A work budget that no search uses up; small multiples of it do not overflow.
inline constexpr int64_t kUnlimitedWork = int64_t(1) << 60;

/// How a search plans the compression of gradients.
struct CompressionRequest {
  /// The codec of every gradient that is not left out by default, with the best scheme; null: the planner chooses for
  /// each gradient, and may compress none.
  const compression::CodecRecord *always = nullptr;
  compression::CodecLimits limits; // what the planner may choose; no codecs: compression::usualCodecs()
};

/// The settings of a search for whole plans (searchPlans): pins, sizes that are searched, budgets and callbacks.
struct PlanSearchOptions {
  Plan constraints;                                // decisions that every plan has to keep
  std::string constraintsFile = "the constraints"; // names the constraints in messages
  std::optional<int64_t> memoryLimitBytes;         // limit of each device besides its own memory; absent: none
  bool allRanks = false;                           // whether every plan has to use all ranks of the cluster
  std::vector<int64_t> modelSizes = {1};           // sizes of the axis "model" that are searched
  std::vector<int64_t> expertSizes = {1};          // sizes of the axis "expert" that are searched
  std::vector<int64_t> contextSizes = {1};         // sizes of the axis "context" that are searched, in both styles
  /// Sizes that the three lists above omit although they can be simulated, as pairs of an axis and a text such as
  /// {"model", "sizes that do not divide the heads"}.
  std::vector<std::pair<std::string, std::string>> omittedSizes = {};
  /// A plan to start from, if it is still possible: the plan found is at least as fast. Absent: none.
  std::optional<Plan> startingPlan;
  int64_t workBudget = kUsualWork; // work after which the search ends with the best plans so far
  std::optional<double> seconds;   // wall-clock seconds after which the search ends as well; absent: no time budget
  std::function<bool()> stop = {}; // called often; returning true ends the search with the best plans so far
  /// Called with the layouts that the search will probably ask for next, the most likely one first, so that other
  /// threads can compute them. Each list replaces the one before; the last one, when the search ends, has no entries.
  /// Null: nobody computes layouts ahead.
  std::function<void(std::span<const LayoutKey>)> expectLayouts = {};
  /// Fails for complete plans that the trainer would refuse, which the search then leaves out. Empty: none.
  std::function<Status(const CompletedPlan &)> checkPlan = {};
  bool findLeastMemory = true; // whether a search that finds no plan looks for conflicting pins and needed memory
  int top = 1;                 // number of plans of different kinds that are returned
  /// The compression of gradients that is planned together with everything else; absent: only what the constraints pin.
  std::optional<CompressionRequest> compression;
  /// Called about once a second with the step seconds of the best plan so far (0: none yet) and the lower bound.
  std::function<void(double best, double bound)> progress;
};

/// The decisions of a whole plan, as keys of plan.json.
inline constexpr const char *kDecisions[] = {
    "mesh.stage",        "mesh.data",    "mesh.context", "mesh.expert", "mesh.model",         "order",
    "microbatch",        "schedule",     "stages",       "recompute",   "optimizer_sharding", "layout",
    "sequence_parallel", "context_style"};

/// A plan that a search found, with its simulation.
struct FoundPlan {
  Plan plan; // complete, with its prediction
  Simulation simulation;
};

/// The amount of work that a search did.
struct PlanSearchStatistics {
  int64_t choices = 0;   // nodes of the search tree that were bounded
  int64_t simulated = 0; // plans that were simulated
  int64_t layouts = 0;   // layouts of the model that were computed
};

/// The result of a search.
struct FoundPlans {
  std::vector<FoundPlan> plans;          // fastest first; at least one
  double lowerBoundSeconds = 0;          // no plan of the search space takes less
  bool compressionPlanned = false;       // whether compression was planned together with the rest
  std::vector<std::string> outsideSpace; // decisions that the search space leaves out (decisionsOutsideSpace)
  PlanSearchStatistics statistics;
};

/// The best plan found that decides one key differently from a baseline plan.
struct AlternativePlan {
  std::string key;               // one of kDecisions
  std::optional<FoundPlan> plan; // absent: none was found
  /// Pins that describe the alternative: `plan` is the best plan with them, and every plan with them decides `key`
  /// differently from the baseline.
  Plan pins;
  double lowerBoundSeconds = 0; // no plan that decides `key` differently takes less; infinite: there is no such plan
  /// Returns whether `plan` is proven to be the best one, or proven not to exist.
  bool proven() const { return !plan || lowerBoundSeconds >= plan->simulation.stepSeconds; }
};

/// Finds, for each of `keys`, the best plan that decides the key differently from `baseline`. One search answers all
/// keys, so that common choices are bounded and simulated once. Fails like searchPlans, except that a key without any
/// plan is no error.
Result<std::vector<AlternativePlan>> searchAlternatives(const Cluster &cluster, const TrainingJob &job,
                                                        const LayoutSource &layouts, const PlanSearchOptions &options,
                                                        const Plan &baseline, const std::vector<std::string> &keys);

/// Searches for the fastest plans. Fails when the constraints contradict each other or the model, and
/// with ExitStatus::Infeasible when no plan fits into memory; the error then says how much memory the
/// smallest plan found needs.
Result<FoundPlans> searchPlans(const Cluster &cluster, const TrainingJob &job, const LayoutSource &layouts,
                               const PlanSearchOptions &options);

} // namespace kerf
