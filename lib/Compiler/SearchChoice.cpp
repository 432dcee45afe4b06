// SPDX-License-Identifier: Apache-2.0
// Chooses the kind of search for a request, and builds the job of a search over whole plans from the request.
#include "Tuning.h"

#include "kerf/Compiler/PlanTraining.h"
#include "kerf/CostModel/Margin.h"
#include "kerf/Dialect/Kerf/KerfDialect.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include <fmt/format.h>
#include <limits>

namespace kerf {

Result<SearchKind> chooseSearch(const PlanRequest &request, int64_t batch) {
  const Plan &constraints = request.options.constraints;
  const std::string &where = request.options.constraintsFile;
  int64_t samples = batch ? batch : constraints.globalBatch;
  if (samples == 0) // unknown batch: assume that any microbatch is smaller
    samples = std::numeric_limits<int64_t>::max() / 2;
  Status placeable = checkLowerable(constraints, where);
  bool decidesMore = !placeable || isExecutionPlan(constraints, samples);
  if (request.search == SearchKind::Placement && decidesMore)
    return Error{fmt::format("{}; or give <search> whole, which also decides how a step is executed",
                             placeable ? fmt::format("{} sets stages, microbatches, recomputation or sharding, which "
                                                     "<search> placement does not support; remove these keys",
                                                     where)
                                       : placeable.error().message)};
  if (request.search)
    return *request.search;
  bool cpu = !request.cluster.mixed() && request.cluster.device.kind == "cpu";
  return decidesMore || !cpu ? SearchKind::Whole : SearchKind::Placement;
}

bool isWholeTrainStep(const TrainingStep &step) {
  auto main = step.module.get().lookupSymbol<mlir::func::FuncOp>(ir::KerfDialect::kEntryName);
  for (unsigned i = 0; i < main.getNumArguments(); ++i)
    if (auto kind = main.getArgAttrOfType<mlir::StringAttr>(i, ir::KerfDialect::kKindAttr);
        kind && kind.getValue() == "learning_rate")
      return false;
  return true;
}

/// Pins all mesh axes but "data" to size 1. `where` names the constraints in messages.
static Status pinToData(const std::string &where, Plan &constraints) {
  for (const char *axis : {"stage", "context", "expert", "model"}) {
    auto [pinned, isNew] = constraints.meshSizes.try_emplace(axis, 1);
    if (pinned->second != 1)
      return Error{fmt::format(
          "only the batch may be sharded, which needs mesh.{} = 1, but {} sets it to {}; change one of the two", axis,
          where, pinned->second)};
  }
  return ok();
}

/// Returns the cluster with the memory of each device reduced to what a plan may use.
static Cluster limitedTo(const Cluster &cluster, const PlanOptions &options) {
  Cluster limited = withMargin(cluster, options.margin);
  if (!options.memoryLimitBytes)
    return limited;
  limited.device.memoryBytes = std::min(limited.device.memoryBytes, *options.memoryLimitBytes);
  for (Cluster &group : limited.groups)
    group.device.memoryBytes = std::min(group.device.memoryBytes, *options.memoryLimitBytes);
  return limited;
}

Result<WholePlanJob> makeWholePlanJob(mlir::MLIRContext &context, const PlanRequest &request) {
  const PlanOptions &asked = request.options;
  WholePlanJobOptions options;
  options.step = request.step;
  options.dtype = request.dtype;
  options.trainer = request.trainer;
  options.search.allRanks = asked.allRanks;
  options.search.constraints = asked.constraints;
  options.search.constraintsFile = asked.constraintsFile;
  options.search.memoryLimitBytes = asked.memoryLimitBytes;
  if (request.dataOnly)
    if (Status status = pinToData(asked.constraintsFile, options.search.constraints); !status)
      return status.error();
  const int64_t pinned = options.search.constraints.globalBatch, batch = request.step.import.globalBatch;
  if (pinned && batch && pinned != batch)
    return Error{fmt::format("{}: global_batch is {}, but <global-batch> is {}; leave one of them out",
                             asked.constraintsFile, pinned, batch)};
  if (request.seconds > 0) {
    options.search.seconds = request.seconds;
    options.search.workBudget = kUnlimitedWork;
  }
  options.search.startingPlan = request.from;
  options.search.compression = request.compression;
  options.search.checkPlan = request.checkPlan;
  options.search.stop = request.stop;
  return makeWholePlanJob(context, request.model, limitedTo(request.cluster, asked), options);
}

std::vector<std::string> rankCountNotes(const WholePlanJob &job, const FoundPlan &best) {
  int64_t ranks = job.cluster.ranks(), used = best.plan.mesh().ranks();
  if (used == ranks)
    return {};
  PlanSearchOptions options = job.search;
  options.allRanks = true;
  options.top = 1;
  options.findLeastMemory = false;
  options.startingPlan.reset();
  options.progress = {};
  options.workBudget /= kAllRanksBudgetDivisor;
  auto all = searchPlans(job.cluster, job.job, job.layouts, options);
  if (!all)
    return {fmt::format("the plan uses {} of {} ranks, because no plan that uses all ranks was found", used, ranks)};
  return {fewerRanksText(ranks, all->plans.front().simulation.stepSeconds, used, best.simulation.stepSeconds)};
}

} // namespace kerf
