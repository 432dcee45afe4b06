// SPDX-License-Identifier: Apache-2.0
// Which search a request gets, and the request as the job of the search over whole plans.
#include "Tuning.h"

#include "kerf/Compiler/PlanTraining.h"
#include "kerf/CostModel/Margin.h"
#include "kerf/Dialect/Kerf/KerfDialect.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include <fmt/format.h>
#include <limits>

namespace kerf {

Result<SearchKind> searchOf(const PlanRequest &request, int64_t batch) {
  const Plan &constraints = request.options.constraints;
  const std::string &where = request.options.constraintsFile;
  int64_t samples = batch ? batch : constraints.globalBatch;
  if (samples == 0) // not known: any microbatch may be a part of it
    samples = std::numeric_limits<int64_t>::max() / 2;
  Status placeable = checkLowerable(constraints, where);
  bool decidesMore = !placeable || isExecutionPlan(constraints, samples);
  if (request.search == SearchKind::Placement && decidesMore)
    return Error{fmt::format("{}; or give <search> whole, which decides how a step is executed",
                             placeable ? fmt::format("{}: says how a step is executed, which <search> placement does "
                                                     "not decide",
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

/// Pins the axes that cut something else than the batch.
static Status pinToData(const std::string &where, Plan &constraints) {
  for (const char *axis : {"stage", "context", "expert", "model"}) {
    auto [pinned, isNew] = constraints.meshSizes.try_emplace(axis, 1);
    if (pinned->second != 1)
      return Error{fmt::format("nothing but the batch is to be cut, which means mesh.{} = 1; {} says {}", axis, where,
                               pinned->second)};
  }
  return ok();
}

/// The devices with the memory that a plan may use.
static Cluster limitedTo(const Cluster &cluster, const PlanOptions &options) {
  Cluster limited = withMargin(cluster, options.margin);
  if (!options.memoryLimitBytes)
    return limited;
  limited.device.memoryBytes = std::min(limited.device.memoryBytes, *options.memoryLimitBytes);
  for (Cluster &group : limited.groups)
    group.device.memoryBytes = std::min(group.device.memoryBytes, *options.memoryLimitBytes);
  return limited;
}

Result<WholeJob> wholeJob(mlir::MLIRContext &context, const PlanRequest &request) {
  const PlanOptions &asked = request.options;
  WholeJobOptions options;
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
    return Error{fmt::format("{}: global_batch is {}, <global-batch> is {}; drop one of them", asked.constraintsFile,
                             pinned, batch)};
  if (request.seconds > 0) {
    options.search.seconds = request.seconds;
    options.search.workBudget = kUnlimitedWork;
  }
  options.search.from = request.from;
  options.search.stop = request.stop;
  return wholeJob(context, request.model, limitedTo(request.cluster, asked), options);
}

std::vector<std::string> notesOnRanks(const WholeJob &job, const FoundPlan &best) {
  int64_t ranks = job.cluster.ranks(), used = best.plan.mesh().ranks();
  if (used == ranks)
    return {};
  PlanSearchOptions options = job.search;
  options.allRanks = true;
  options.top = 1;
  options.leastMemory = false;
  options.from.reset();
  options.progress = {};
  options.workBudget /= kShareForAllRanks;
  auto all = searchPlans(job.cluster, job.job, job.layouts, options);
  if (!all)
    return {fmt::format("planned for {} of {} ranks: no plan was found that uses all", used, ranks)};
  return {fewerRanksText(ranks, all->plans.front().simulation.stepSeconds, used, best.simulation.stepSeconds)};
}

} // namespace kerf
