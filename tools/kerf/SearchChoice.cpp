// SPDX-License-Identifier: Apache-2.0
#include "SearchChoice.h"

#include "kerf/Dialect/Kerf/KerfDialect.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include <fmt/core.h>
#include <limits>

namespace kerf::tool {

Result<Search> searchOf(const PlanFlags &flags, const Cluster &cluster, const Plan &constraints,
                        const std::string &constraintsFile, int64_t batch) {
  int64_t samples = batch ? batch : constraints.globalBatch;
  if (samples == 0) // not known: any microbatch may be a part of it
    samples = std::numeric_limits<int64_t>::max() / 2;
  Status placeable = checkLowerable(constraints, constraintsFile);
  bool decidesMore = !placeable || isExecutionPlan(constraints, samples);
  if (flags.search == "placement" && decidesMore)
    return Error{fmt::format("{}; or give --search whole, which decides how a step is executed",
                             placeable ? fmt::format("{}: says how a step is executed, which --search placement does "
                                                     "not decide",
                                                     constraintsFile)
                                       : placeable.error().message)};
  if (!flags.search.empty())
    return flags.search == "whole" ? Search::Whole : Search::Placement;
  bool cpu = !cluster.mixed() && cluster.device.kind == "cpu";
  return decidesMore || !cpu ? Search::Whole : Search::Placement;
}

bool isWholeTrainStep(const TrainingStep &step) {
  auto main = step.module.get().lookupSymbol<mlir::func::FuncOp>(ir::KerfDialect::kEntryName);
  for (unsigned i = 0; i < main.getNumArguments(); ++i)
    if (auto kind = main.getArgAttrOfType<mlir::StringAttr>(i, ir::KerfDialect::kKindAttr);
        kind && kind.getValue() == "learning_rate")
      return false;
  return true;
}

} // namespace kerf::tool
