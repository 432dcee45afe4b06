// SPDX-License-Identifier: Apache-2.0
#include "kerf/Compiler/PlanWhole.h"
#include "kerf/Compiler/ModelLayouts.h"

namespace kerf {

Result<WholePlan> planWhole(mlir::MLIRContext &context, const std::string &modelPath, const Cluster &cluster,
                            const WholePlanOptions &options) {
  auto used = firstRanks(cluster, options.ranks.value_or(cluster.ranks()));
  if (!used)
    return used.error();
  if (Status status = checkOneGroup(*used, "kerf plan"); !status)
    return status.error();
  ModelLayouts layouts(context, modelPath, options.step, options.dtype, *used);
  auto job = layouts.job(std::nullopt);
  if (!job)
    return job.error();
  PlanSearchOptions search = options.search;
  auto sizes = layouts.modelSizes(used->ranks());
  if (!sizes)
    return sizes.error();
  search.modelSizes = std::move(*sizes);
  auto expertSizes = layouts.expertSizes(used->ranks());
  if (!expertSizes)
    return expertSizes.error();
  search.expertSizes = std::move(*expertSizes);
  auto found = searchPlans(*used, *job, [&](const LayoutKey &key) { return layouts.work(key); }, search);
  if (!found)
    return found.error();
  return WholePlan{std::move(*found), layouts.warnings()};
}

} // namespace kerf
